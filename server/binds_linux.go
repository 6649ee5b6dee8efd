package server

import (
	"os"
	"path/filepath"
	"strconv"
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
		root, point := unescape(f[3]), unescape(f[4])
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

// unescape replaces \ooo by the byte that it stands for.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
