//go:build unix

package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// answers calls do. It fails the test if do waits for a writer of a FIFO.
func answers(t *testing.T, do func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("it still waits for a writer of the FIFO after 30 s")
		return nil
	}
}

// use opens a repository, reads all of it and commits to it.
func use(t *testing.T, dir string, o git.Options) error {
	s, err := openWork(dir, o)
	if err != nil {
		return err
	}
	defer s.Close()
	all := map[string]string{}
	walkAll(t.Context(), s.Root(), "", all)
	for path, data := range all {
		if data != "the content" {
			return vfs.Errorf(vfs.Corrupt, "%s: %s", path, data)
		}
	}
	if _, err := s.Root().Replace(t.Context(), "f", strings.NewReader(""), vfs.If{}); err != nil {
		return err
	}
	_, err = s.Commit(t.Context(), onto("agent"))
	return err
}

func TestFIFOs(t *testing.T) {
	needGit(t)
	for name, c := range map[string]struct {
		path   string
		packed bool
		code   vfs.Code // "" if the file is not used
	}{
		"HEAD":        {path: "HEAD", code: vfs.Corrupt},
		"commondir":   {path: "commondir", code: vfs.Corrupt},
		"config":      {path: "config", code: vfs.Corrupt},
		"packed-refs": {path: "packed-refs", code: vfs.Corrupt},
		"ref":         {path: "refs/heads/master", code: vfs.Corrupt},
		"new ref":     {path: "refs/heads/agent", code: vfs.Corrupt},
		"replacement": {path: "refs/replace/1111111111111111111111111111111111111111"},
		"alternates":  {path: "objects/info/alternates", code: vfs.Corrupt},
		"packs":       {path: "objects/pack", code: vfs.Internal},
		"pack":        {path: "objects/pack/*.pack", packed: true, code: vfs.Corrupt},
		"index":       {path: "objects/pack/*.idx", packed: true, code: vfs.Corrupt},
		"loose":       {path: "objects/[0-9a-f][0-9a-f]/*", code: vfs.Corrupt},
		"log":         {path: "logs/refs/heads/agent", code: vfs.Corrupt},
		"worktree":    {path: "worktrees/w/HEAD", code: vfs.Corrupt},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.commit("master", f.fill(vfstest.Tree{"f": {Data: "the content"}}))
			gitCLI(t, f.dir, "", "config", "core.bare", "false")
			if c.packed {
				gitCLI(t, f.dir, "", "repack", "-adq")
				gitCLI(t, f.dir, "", "prune-packed", "-q")
			}
			paths, err := filepath.Glob(filepath.Join(f.dir, c.path))
			check.OK(t, err)
			if len(paths) == 0 {
				paths = []string{filepath.Join(f.dir, c.path)}
			}
			for _, path := range paths {
				check.OK(t, os.RemoveAll(path))
				check.OK(t, os.MkdirAll(filepath.Dir(path), 0o777))
				check.OK(t, syscall.Mkfifo(path, 0o666))
			}
			for _, o := range []git.Options{{}, {Confined: true}, {Follow: true, Revision: "master"}} {
				if name == "HEAD" && o.Follow {
					continue // HEAD is not read
				}
				err = answers(t, func() error { return use(t, f.dir, o) })
				if got := vfs.CodeOf(err); got != c.code {
					t.Errorf("%+v: %q (%v), want %q", o, got, err, c.code)
				}
				if c.code == "" {
					check.OK(t, os.Remove(filepath.Join(f.dir, "refs", "heads", "agent")))
				}
			}
			answers(t, func() error { git.FindAmbient(f.dir); return nil })
		})
	}
}

// An error about a damaged repository tells the host the cause, and tells a guest nothing
// about git.
func TestTextsForGuests(t *testing.T) {
	f := newFixture(t)
	missing := plumbing.NewHash("1111111111111111111111111111111111111111")
	f.commit("master", f.fillWith("f", missing))
	s := f.open(git.Options{Revision: "master", Follow: true})
	_, err := vfs.WalkFile(t.Context(), s.Root(), "f")
	check.OK(t, err)
	all := []error{}
	read := func() {
		n, err := s.Root().Lookup(t.Context(), "f")
		if err == nil {
			_, err = n.Stat(t.Context())
		}
		if err == nil {
			t.Fatal("a read of a damaged repository: no error")
		}
		all = append(all, err)
	}
	read()
	ref := filepath.Join(f.dir, "refs", "heads", "master")
	check.OK(t, os.Remove(ref))
	read()
	check.OK(t, os.WriteFile(ref, []byte("nonsense"), 0o666))
	read()
	check.OK(t, os.WriteFile(ref, []byte(missing.String()), 0o666))
	read()
	check.OK(t, os.Remove(ref))
	check.OK(t, syscall.Mkfifo(ref, 0o666))
	read()
	for _, err := range all {
		for _, word := range []string{"git", "repository", "object", "1111", "ref", "branch", f.dir} {
			if got := err.Error(); strings.Contains(got, word) {
				t.Errorf("the guest's error is %q, want it not to contain %q", got, word)
			}
		}
	}
	_, err = git.OpenAmbient(f.dir, git.Options{})
	if err == nil || !strings.Contains(err.Error(), ref) {
		t.Errorf("git.OpenAmbient: %v, want it to contain %q, for the host", err, ref)
	}
}
