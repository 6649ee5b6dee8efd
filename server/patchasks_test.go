package server_test

import (
	"os"
	"path/filepath"
	"testing"

	"capd/client"
	"capd/operator"
	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

const guardedPatch = `*** Begin Patch
*** Update File: p/.git/config
-[core]
+[user]
*** Update File: q/main.c
-int x;
+int y;
*** Add File: p/new
+new
*** End Patch
`

// TestPatchAsks: a patch of files in two mounts, one of which is guarded, is one request that lists all of them, and holds for those
// versions alone.
func TestPatchAsks(t *testing.T) {
	served, other := t.TempDir(), t.TempDir()
	config := filepath.Join(served, ".git", "config")
	write(t, config, "[core]\n")
	write(t, filepath.Join(other, "main.c"), "int x;\n")
	s := started(t, &server.Server{Mounts: []server.Mount{{Path: "p", URL: "physical:" + served}, {Path: "q", URL: "physical:" + other}}})
	d := named(t, s, server.Guest{Name: "guest"})
	apply := func(o client.PatchOptions) error {
		_, err := d.Patch(t.Context(), []byte(guardedPatch), o)
		return err
	}
	check.OK(t, apply(client.PatchOptions{DryRun: true}))
	check.Is(t, "with nobody there", apply(client.PatchOptions{}), vfs.AskDenied)
	stop := s.Approvals().Listen()
	defer stop()
	decided := func(v operator.Verdict, meanwhile func()) (a operator.Ask, err error) {
		done := make(chan error, 1)
		go func() { done <- apply(client.PatchOptions{}) }()
		check.Eventually(t, "it waits", func() bool {
			list, err := s.Approvals().List(t.Context(), false, operator.Ask{})
			check.OK(t, err)
			if len(list) == 1 {
				a = list[0]
			}
			return len(list) == 1
		})
		a, err = s.Approvals().Show(t.Context(), a.ID)
		check.OK(t, err)
		if text, err := os.ReadFile(config); err != nil || string(text) != "[core]\n" {
			t.Errorf("before the decision there is %q, %v", text, err)
		}
		_, err = s.Approvals().Decide(a.ID, operator.Verdict{Answer: operator.Always}, "the test")
		check.Is(t, "always", err, vfs.Invalid)
		meanwhile()
		_, err = s.Approvals().Decide(a.ID, v, "the test")
		check.OK(t, err)
		return a, <-done
	}
	_, err := decided(operator.Verdict{Answer: operator.Once}, func() { write(t, filepath.Join(other, "main.c"), "int z;\n") })
	check.Is(t, "a file that was changed while it waited", err, vfs.Conflict)
	if _, err := os.Stat(filepath.Join(served, "new")); err == nil {
		t.Error("a part of it was made")
	}
	write(t, filepath.Join(other, "main.c"), "int x;\n")
	a, err := decided(operator.Verdict{Answer: operator.Once}, func() {})
	check.OK(t, err)
	if want := "p/.git/config, 7 bytes\np/new, 4 bytes\nq/main.c, 7 bytes\n"; a.Operation != "change" || a.Path != "" || a.Diff != want {
		t.Errorf("the operator was shown %+v, want the list %q", a, want)
	}
	for path, want := range map[string]string{config: "[user]\n", filepath.Join(other, "main.c"): "int y;\n", filepath.Join(served, "new"): "new\n"} {
		if text, err := os.ReadFile(path); err != nil || string(text) != want {
			t.Errorf("%s has %q, %v, want %q", path, text, err, want)
		}
	}
}
