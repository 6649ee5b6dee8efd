package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestClients runs the programs of clients/, which docs/clients.md shows, against a real host.
func TestClients(t *testing.T) {
	for _, c := range []struct{ name, program string }{
		{"C++", cxx(t, "cxx")},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := serve(t)
			for path, text := range map[string]string{"notes.txt": "hello", "a": "", "b": ""} {
				ok(t, os.WriteFile(filepath.Join(h.served, path), []byte(text), 0o600))
			}
			ok(t, os.Mkdir(filepath.Join(h.served, "sub"), 0o700))
			loc, _, ctl := h.grant("agent", "project")
			defer ctl.Close()
			out, err := exec.CommandContext(t.Context(), c.program, loc).CombinedOutput()
			ok(t, err)
			const want = `entry a
entry b
entry notes.txt
entry sub
read hello
refused conflict
streamed 2097152 bytes
a share refused readOnly
a share refused revoked
end 4
`
			if string(out) != want {
				t.Errorf("it prints\n%s", out)
			}
			if b, err := os.ReadFile(filepath.Join(h.served, "notes.txt")); string(b) != "hello and more" {
				t.Errorf("the file has %q, %v", b, err)
			}
		})
	}
}
