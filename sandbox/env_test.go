package sandbox

import (
	"slices"
	"strings"
	"testing"
)

// TestEnvironment: of the caller's variables only harmless ones are passed on, and of its
// PATH only what the program can see.
func TestEnvironment(t *testing.T) {
	caller := map[string]string{
		"PATH": "/private/bin:/opt/tool/bin:.:/usr/local/go/bin:/usr/bin", "TERM": "xterm", "HOME": "/home/me",
		"API_KEY": "secret", "SSH_AUTH_SOCK": "/tmp/agent", "LD_PRELOAD": "/tmp/evil.so", "GOFLAGS": "-x",
	}
	c := Command{Bind: []string{"/opt/tool", "/home/me/go/pkg/mod"}, Env: []string{"USER=me", "EMPTY=", "A=b=c"}}
	env := environment(c, func(name string) string { return caller[name] })
	if !slices.IsSorted(env) {
		t.Errorf("not sorted: %q", env)
	}
	for _, want := range []string{
		"PATH=/opt/tool/bin:/usr/local/go/bin:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin",
		"HOME=/capd/home", "TMPDIR=/tmp", "TERM=xterm", "USER=me", "EMPTY=", "A=b=c",
		"GOMODCACHE=/home/me/go/pkg/mod", "GOCACHE=/capd/cache/go-build",
	} {
		if !slices.Contains(env, want) {
			t.Errorf("%q is missing in %q", want, env)
		}
	}
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		if slices.Contains([]string{"API_KEY", "SSH_AUTH_SOCK", "LD_PRELOAD", "GOFLAGS", "LANG"}, name) {
			t.Errorf("%q was passed on", v)
		}
	}
}

func TestBound(t *testing.T) {
	for p, want := range map[string]bool{
		"/opt/x": true, "/home/me/go/pkg/mod": true, "/tmp/x": true, "/usr": true, "/runner": true, "/etc/ssl/x": true,
		"/": false, "/run": false, "/run/user/1000/bus": false, "/proc/self": false, "/dev": false, "/sys/fs": false, "/capd/tree": false,
		"/etc": false, "/etc/shadow": false, "/tmp": false, "/var": false, "opt": false, "": false, "/opt/../run": false, "/opt/\x00": false,
	} {
		if err := checkBind(p); (err == nil) != want {
			t.Errorf("%q: %v", p, err)
		}
	}
}
