package worktree_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/vfstest/check"
	"capd/worktree"
)

// picture is what a tree holds, by path.
func picture(t testing.TB, d vfs.Dir, at string, all map[string]string) map[string]string {
	t.Helper()
	ctx := t.Context()
	for e, err := range d.List(ctx) {
		check.OK(t, err)
		path := vfs.Join(at, e.Name)
		n, err := d.Lookup(ctx, e.Name)
		check.OK(t, err)
		switch n := n.(type) {
		case vfs.Dir:
			all[path] = "dir"
			picture(t, n, path, all)
		case vfs.Link:
			target, err := n.Target(ctx)
			check.OK(t, err)
			all[path] = "link " + target
		case vfs.File:
			info, err := n.Stat(ctx)
			check.OK(t, err)
			data := make([]byte, info.Size)
			_, _ = n.ReadAt(ctx, data, 0)
			all[path] = fmt.Sprintf("file %v %s", info.Exec, data)
		}
		check.OK(t, n.Close())
	}
	return all
}

// tracked leaves out the directories in which there is no file.
func tracked(all map[string]string) map[string]string {
	kept := map[string]string{}
	for path, is := range all {
		if is == "dir" {
			continue
		}
		kept[path] = is
		for up := path; strings.Contains(up, "/"); {
			up = up[:strings.LastIndexByte(up, '/')]
			kept[up] = "dir"
		}
	}
	return kept
}

// change makes one change at random. It may be refused.
func change(ctx context.Context, tree *worktree.Tree, random *rand.Rand, all map[string]string) error {
	root := tree.Root()
	paths := append(slices.Sorted(maps.Keys(all)), "new")
	pick := func() (vfs.Dir, string, error) {
		path := paths[random.IntN(len(paths))]
		if random.IntN(4) == 0 {
			path += "/" + string("abc"[random.IntN(3)])
		}
		d, name, _, err := vfs.WalkParent(ctx, root, path)
		return d, name, err
	}
	d, name, err := pick()
	if err != nil {
		return err
	}
	switch random.IntN(8) {
	case 0, 1:
		_, err = vfs.Install(ctx, d, name, strings.NewReader(fmt.Sprint(random.IntN(5))), random.IntN(2) == 0, vfs.If{})
	case 2:
		_, err = d.Mkdir(ctx, name)
	case 3:
		err = vfs.Symlink(ctx, d, name, "x")
	case 4, 5:
		err = d.Remove(ctx, name, vfs.If{})
	default:
		to, newName, late := pick()
		if late != nil {
			return late
		}
		err = d.Rename(ctx, name, to, newName, vfs.If{}, vfs.If{})
	}
	return err
}

// Whatever is changed, a commit has just that, and the tree stays as it was.
func TestRandom(t *testing.T) {
	seeds := uint64(12)
	if os.Getenv("CAPD_CI") != "" {
		seeds = 300
	}
	dir := repository(t)
	commits, made := 0, 0
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 1))
		tree := open(t, dir, t.TempDir())
		for range 4 {
			for range 1 + random.IntN(25) {
				if change(t.Context(), tree, random, picture(t, tree.Root(), "", map[string]string{})) == nil {
					made++
				}
			}
			before := picture(t, tree.Root(), "", map[string]string{})
			old, err := git.OpenAmbient(dir, git.Options{Revision: "work"})
			check.OK(t, err)
			same := maps.Equal(tracked(before), tracked(picture(t, old.Root(), "", map[string]string{})))
			if got, want := len(changes(t, tree)) > 0, !same; got != want {
				t.Fatalf("seed %d: there are changes = %v, want %v", seed, got, want)
			}
			_, err = commit(t.Context(), tree)
			if got := vfs.CodeOf(err) == vfs.Invalid; got != same {
				t.Fatalf("seed %d: nothing to commit = %v (%v), want %v", seed, got, err, same)
			}
			if !same {
				check.OK(t, err)
				commits++
			}
			if got := picture(t, tree.Root(), "", map[string]string{}); !reflect.DeepEqual(got, before) {
				t.Fatalf("seed %d: the tree after the commit: %v, want %v", seed, got, before)
			}
			now, err := git.OpenAmbient(dir, git.Options{Revision: "work"})
			check.OK(t, err)
			if got, want := picture(t, now.Root(), "", map[string]string{}), tracked(before); !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: the commit: %v, want %v", seed, got, want)
			}
			check.OK(t, old.Close())
			check.OK(t, now.Close())
		}
		check.OK(t, tree.Close())
	}
	if commits <= int(seeds) {
		t.Fatalf("commits = %d, want more than %d", commits, int(seeds))
	}
	if made <= 10*int(seeds) {
		t.Fatalf("made = %d, want more than %d", made, 10*int(seeds))
	}
	t.Logf("%d changes in %d commits", made, commits)
	listed(t, dir)
}
