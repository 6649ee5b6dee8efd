package server

import (
	"os"
	"path/filepath"
	"strings"
)

// boundIn reports whether path is dir or lies in it, on the file system itself. A bind mount may show both at
// places that have nothing to do with each other. path and dir need not exist. Without /proc it reports false.
func boundIn(dir, path string) bool {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	d, p := onDisk(string(table), dir), onDisk(string(table), path)
	return d.device != "" && d.device == p.device && (p.path == d.path || d.path == "/" || strings.HasPrefix(p.path, d.path+"/"))
}

// diskPath is a path from the root of a file system.
type diskPath struct{ device, path string }

// onDisk returns where path is by a table of mounts; see proc_pid_mountinfo(5).
func onDisk(table, path string) (at diskPath) {
	path = resolve(path)
	longest := -1
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		root, point := unescaped.Replace(f[3]), unescaped.Replace(f[4])
		rest, in := strings.CutPrefix(path, strings.TrimSuffix(point, "/"))
		if in && (rest == "" || rest[0] == '/') && len(point) >= longest { // of several at one place the last is seen
			longest, at = len(point), diskPath{f[2], filepath.Join(root, rest)}
		}
	}
	return at
}

// resolve returns path without links, as far as it exists.
func resolve(path string) string {
	if at, err := filepath.EvalSymlinks(path); err == nil || filepath.Dir(path) == path {
		return filepath.Clean(at)
	}
	return filepath.Join(resolve(filepath.Dir(path)), filepath.Base(path))
}

// unescaped has what a table of mounts escapes; see seq_path in Linux.
var unescaped = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\043`, "#", `\134`, `\`)
