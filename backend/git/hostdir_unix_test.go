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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// answers fails the test when do waits for somebody to write to a FIFO.
func answers(t *testing.T, do func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		require.Fail(t, "it waits")
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
		code   vfs.Code // "" where it is of no account
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
			require.NoError(t, err)
			if len(paths) == 0 {
				paths = []string{filepath.Join(f.dir, c.path)}
			}
			for _, path := range paths {
				require.NoError(t, os.RemoveAll(path))
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
				require.NoError(t, syscall.Mkfifo(path, 0o666))
			}
			for _, o := range []git.Options{{}, {Confined: true}, {Follow: true, Revision: "master"}} {
				if name == "HEAD" && o.Follow {
					continue // it is not read
				}
				err = answers(t, func() error { return use(t, f.dir, o) })
				assert.Equal(t, c.code, vfs.CodeOf(err), "%v: %v", o, err)
				if c.code == "" {
					require.NoError(t, os.Remove(filepath.Join(f.dir, "refs", "heads", "agent")))
				}
			}
			answers(t, func() error { git.FindAmbient(f.dir); return nil })
		})
	}
}

// A guest that reads a damaged repository is not told of it, and the host is.
func TestTextsForGuests(t *testing.T) {
	f := newFixture(t)
	missing := plumbing.NewHash("1111111111111111111111111111111111111111")
	f.commit("master", f.fillWith("f", missing))
	s := f.open(git.Options{Revision: "master", Follow: true})
	_, err := vfs.WalkFile(t.Context(), s.Root(), "f")
	require.NoError(t, err)
	all := []error{}
	read := func() {
		n, err := s.Root().Lookup(t.Context(), "f")
		if err == nil {
			_, err = n.Stat(t.Context())
		}
		require.Error(t, err)
		all = append(all, err)
	}
	read()
	ref := filepath.Join(f.dir, "refs", "heads", "master")
	require.NoError(t, os.Remove(ref))
	read()
	require.NoError(t, os.WriteFile(ref, []byte("nonsense"), 0o666))
	read()
	require.NoError(t, os.WriteFile(ref, []byte(missing.String()), 0o666))
	read()
	require.NoError(t, os.Remove(ref))
	require.NoError(t, syscall.Mkfifo(ref, 0o666))
	read()
	for _, err := range all {
		for _, word := range []string{"git", "repository", "object", "1111", "ref", "branch", f.dir} {
			assert.NotContains(t, err.Error(), word)
		}
	}
	_, err = git.OpenAmbient(f.dir, git.Options{})
	assert.ErrorContains(t, err, ref, "the host's error says which")
}
