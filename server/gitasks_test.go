package server_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"capd/operator"
	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// TestGitMountAsks: a change of a guarded file in a writable git mount waits for an approval, and then waits in the mount for the commit. With
// nobody listening it is refused.
func TestGitMountAsks(t *testing.T) {
	repo := t.TempDir()
	write(t, filepath.Join(repo, ".vscode", "tasks.json"), "old")
	commitAll(t, repo)
	s := started(t, &server.Server{Mounts: []server.Mount{{Path: "g", URL: "git:" + repo + "?writable#main"}}})
	d := named(t, s, server.Guest{Name: "guest"})
	change := func() error {
		_, err := d.Put(t.Context(), "g/.vscode/tasks.json", strings.NewReader("new"), vfs.If{})
		return err
	}
	check.Is(t, "with nobody listening", change(), vfs.AskDenied)
	defer s.Approvals().Listen()()
	ended := make(chan error, 1)
	go func() { ended <- change() }()
	var list []operator.Ask
	check.Eventually(t, "it waits", func() bool {
		list, _ = s.Approvals().List(t.Context(), false, operator.Ask{})
		return len(list) == 1
	})
	if a := list[0]; a.Path != "g/.vscode/tasks.json" || strings.Join(a.Why, "") != "g: **/.vscode/**" {
		t.Errorf("%+v", a)
	}
	_, err := s.Approvals().Decide(list[0].ID, operator.Verdict{Answer: operator.Once}, "the test")
	check.OK(t, err)
	check.OK(t, <-ended)
	text, _, err := d.OpenFile("g/.vscode/tasks.json").ReadText(t.Context())
	if check.OK(t, err); text != "new" {
		t.Errorf("%q", text)
	}
}

// commitAll makes a repository of dir, with one commit of what is there.
func commitAll(t *testing.T, dir string) {
	t.Helper()
	for _, args := range []string{"init -q -b main", "add -A", "-c user.name=Ada -c user.email=ada@example.org commit -q -m Begin"} {
		out, err := exec.Command("git", append([]string{"-C", dir}, strings.Fields(args)...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
	}
}
