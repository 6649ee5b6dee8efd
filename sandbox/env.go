package sandbox

import (
	"os"
	"slices"
	"strings"
)

// systemDirs are the directories of the host that every program sees.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"}

// Where npm and cargo keep their caches.
const (
	npmPath   = CachePath + "/npm"
	cargoPath = CachePath + "/cargo"
)

// passedOn are the variables of the caller that only say how to talk to the user.
var passedOn = []string{"LANG", "LC_ALL", "TERM"}

// environment returns the environment of c's program, sorted by name. caller looks up a
// variable of the caller.
func environment(c Command, caller func(string) string) []string {
	env := map[string]string{
		"PATH":             searchPath(c.Bind, caller("PATH")),
		"HOME":             HomePath,
		"USER":             userName,
		"LOGNAME":          userName,
		"TMPDIR":           tmpPath,
		"XDG_CACHE_HOME":   CachePath,
		"GOCACHE":          CachePath + "/go-build",
		"GOPATH":           HomePath + "/go",
		"npm_config_cache": npmPath,
		"PIP_CACHE_DIR":    CachePath + "/pip",
		"CARGO_HOME":       cargoPath,
	}
	for _, name := range passedOn {
		if v := caller(name); v != "" {
			env[name] = v
		}
	}
	for _, p := range c.Bind {
		if strings.HasSuffix(p, "/pkg/mod") {
			env["GOMODCACHE"] = p
		}
	}
	for _, v := range c.Env {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	all := make([]string, 0, len(env))
	for name, value := range env {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return all
}

// searchPath returns the caller's PATH without directories that the program cannot see,
// followed by the usual ones.
func searchPath(bind []string, callers string) string {
	var dirs []string
	for _, dir := range append(strings.Split(callers, string(os.PathListSeparator)),
		"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin") {
		seen := func(shown string) bool { return within(dir, shown) }
		if (slices.ContainsFunc(systemDirs, seen) || slices.ContainsFunc(bind, seen)) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, ":")
}

// userName is the program's user name inside the sandbox.
const userName = "sandbox"
