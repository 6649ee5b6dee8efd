package tests

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"capd/client"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/step"
)

// TestAttackMadeLinks: guests make links, and move them and what holds them, by every method that could, at once. No link on the disk leads
// out of its mount, at any time.
func TestAttackMadeLinks(t *testing.T) {
	t.Parallel()
	w := moveEstate(t)
	ok(t, os.MkdirAll(w.path("disk/a/b/c"), 0o755))
	ok(t, os.MkdirAll(w.path("other/x"), 0o755))
	h := w.serve()
	con := h.console()
	ctx := t.Context()
	var dirs []*client.Dir
	for i, path := range []string{"", "disk", "disk/a", ""} {
		_, loc, ctl, err := con.GrantOn(ctx, fmt.Sprint("linker", i), path, operator.Terms{Links: true})
		ok(t, err)
		defer ctl.Close()
		c, d := guestOf(loc)
		defer c.Close()
		dirs = append(dirs, d)
	}
	shared := dirs[2].SubDir("b")
	defer shared.Close()
	dirs = append(dirs, shared)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	var made, moved, refused atomic.Int64
	for g, d := range dirs {
		below := []string{""}
		if g == 0 || g == 3 {
			below = []string{"disk/", "other/"}
		}
		all.Go(func() { makeLinks(ctx, rand.New(rand.NewPCG(uint64(g), 9)), d, below, &made, &moved, &refused) })
	}
	looks := 0
	enough := func() bool { return made.Load() >= 100 && moved.Load() >= 100 && refused.Load() >= 100 }
	for end := time.Now().Add(2 * patience); !enough() && time.Now().Before(end); {
		looks++
		for _, mount := range []string{"disk", "other"} {
			linksWithin(t, w.path(mount))
		}
		time.Sleep(20 * time.Millisecond)
	}
	cancel()
	all.Wait()
	left := linksWithin(t, w.path("disk")) + linksWithin(t, w.path("other"))
	t.Logf("made links: %d made, %d moves, %d refused as outside, looked %d times, %d links left: 0 lead out", made.Load(), moved.Load(), refused.Load(), looks, left)
	if !enough() {
		t.Error("too little was tried")
	}
}

// makeLinks does what could bring a link to where it leads out, at paths with one of the prefixes below, until ctx ends.
func makeLinks(ctx context.Context, rnd *rand.Rand, d *client.Dir, below []string, made, moved, refused *atomic.Int64) {
	dirs, leaves := []string{"a", "b", "c"}, []string{"a", "b", "c", "l", "m", "n"}
	path := func() string {
		text := below[rnd.IntN(len(below))]
		for range rnd.IntN(3) {
			text += dirs[rnd.IntN(len(dirs))] + "/"
		}
		return text + leaves[rnd.IntN(len(leaves))]
	}
	target := func() string {
		up := strings.Repeat("../", rnd.IntN(4))
		switch rnd.IntN(6) {
		case 0:
			return "/" + path()
		case 1:
			return path() + "/../../../" + path()
		}
		return up + leaves[rnd.IntN(len(leaves))]
	}
	for ctx.Err() == nil {
		var err error
		switch rnd.IntN(9) {
		case 0, 1, 2:
			if err = d.MakeLink(ctx, path(), target()); err == nil {
				made.Add(1)
			}
		case 3, 4:
			if err = d.Move(ctx, path(), d, path(), vfs.If{}, vfs.If{Over: rnd.IntN(2) == 0}); err == nil {
				moved.Add(1)
			}
		case 5:
			_, err = d.CreateDir(ctx, path())
		case 6:
			_, err = d.Copy(ctx, path(), d, path(), vfs.If{}, vfs.If{})
		case 7:
			if rnd.IntN(3) > 0 {
				err = d.RemovePath(ctx, path(), vfs.If{})
				break
			}
			_, err = d.Undo(ctx, vfs.Undo{Last: 1 + rnd.IntN(3)})
		case 8:
			err = d.Change(ctx, []step.Step{{Verb: step.Move, Path: path(), To: path()}, {Verb: step.Remove, Path: path()}}, false)
			if rnd.IntN(3) == 0 {
				tmp := d.Temp()
				if d.Move(ctx, path(), tmp, "t", vfs.If{}, vfs.If{}) == nil {
					err = tmp.Move(ctx, "t", d, path(), vfs.If{}, vfs.If{})
				}
				tmp.Close()
			}
		}
		if vfs.CodeOf(err) == vfs.Outside {
			refused.Add(1)
		}
	}
}

// linksWithin checks that no link below root leads out of it, by its text and as the system follows it, and returns how many there are.
func linksWithin(t *testing.T, root string) (links int) {
	t.Helper()
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Type()&fs.ModeSymlink == 0 {
			return nil // removed meanwhile
		}
		target, err := os.Readlink(path)
		if err != nil {
			return nil
		}
		links++
		below := strings.Count(strings.TrimPrefix(path, root+"/"), "/")
		if !vfs.Within(below, target) {
			if again, err := os.Readlink(path); err == nil && again == target { // the walk may have been overtaken
				t.Errorf("%s leads out: %s", strings.TrimPrefix(path, root), target)
			}
		}
		if real, err := filepath.EvalSymlinks(path); err == nil && real != root && !strings.HasPrefix(real, root+"/") {
			t.Errorf("%s leads to %s", strings.TrimPrefix(path, root), real)
		}
		return nil
	})
	return links
}
