package authority_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"capd/backend/physical"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

func hurried() bool { return os.Getenv("CAPD_CI") == "" }

// anyChange makes a random change, which may fail.
func anyChange(ctx context.Context, rng *rand.Rand, d vfs.Dir) error {
	name := func() string { return string(rune('a' + rng.IntN(4))) }
	in := d
	if n, err := d.Lookup(ctx, "dir"); err == nil {
		defer n.Close()
		if sub, ok := n.(vfs.Dir); ok && rng.IntN(3) == 0 {
			in = sub
		}
	}
	file := func(do func(vfs.File) error) error {
		f, err := vfs.LookupAs[vfs.File](ctx, in, name(), vfs.NotRegular)
		if err != nil {
			return err
		}
		defer f.Close()
		return do(f)
	}
	text := strings.Repeat(name(), rng.IntN(30))
	switch rng.IntN(10) {
	case 0:
		return closed(in.Create(ctx, name()))
	case 1:
		return closed(d.Mkdir(ctx, "dir"))
	case 2:
		return in.Remove(ctx, name(), vfs.If{})
	case 3:
		return d.Remove(ctx, "dir", vfs.If{})
	case 4:
		to := d
		if rng.IntN(2) == 0 {
			to = in
		}
		return in.Rename(ctx, name(), to, name(), vfs.If{}, vfs.If{Over: rng.IntN(2) == 0})
	case 5:
		return d.Rename(ctx, "dir", d, name(), vfs.If{}, vfs.If{})
	case 6:
		return file(func(f vfs.File) error { _, err := vfs.Append(ctx, f, []byte(text), vfs.If{}); return err })
	case 7:
		return file(func(f vfs.File) error {
			exec := rng.IntN(2) == 0
			return vfs.SetAttributes(ctx, f, vfs.Attributes{Exec: &exec}, vfs.If{})
		})
	}
	_, err := in.Replace(ctx, name(), strings.NewReader(text), vfs.If{})
	return err
}

// TestRandomUndo makes random histories, undoes a random number of the last changes, and compares the tree with what it was then. It also
// kills the process that makes them, and undoes all: what was answered is undone, and nothing comes back that was not there.
func TestRandomUndo(t *testing.T) {
	if dir := os.Getenv("CAPD_UNDO_DIR"); dir != "" {
		changesUntilKilled(t, dir)
		return
	}
	histories, kills := 40, 40
	if hurried() {
		histories, kills = 4, 2
	}
	compared, lost, back := 0, 0, 0
	for i := range histories {
		rng := rand.New(rand.NewPCG(uint64(i), 15))
		k := keep(t, physical.Options{Portable: i%4 == 3})
		states := []string{treeOf(t, k.dir)}
		for range 60 {
			before := len(k.history().Entries)
			_ = anyChange(t.Context(), rng, k.root)
			if n := len(k.history().Entries); n > before {
				states = append(states, treeOf(t, k.dir))
			}
		}
		{
			n := 1 + rng.IntN(len(states)-1)
			done, err := vfs.UndoIn(t.Context(), k.root, vfs.Undo{Last: n})
			if err != nil {
				t.Fatalf("history %d: the last %d of %d: %v", i, n, len(states)-1, err)
			}
			k.shows(states[len(states)-1-n])
			if done.ID != 0 { // else it was no change
				k.undo(vfs.Undo{ID: done.ID})
				k.shows(states[len(states)-1])
			}
			compared += 2
		}
	}
	for i := range kills {
		l, b := killedAt(t, i)
		lost, back, compared = lost+l, back+b, compared+1
	}
	fmt.Printf("undo: %d random histories undone, %d states compared, killed %d times: %d lost, %d resurrected\n", histories, compared, kills, lost, back)
	if lost+back > 0 {
		t.Errorf("%d were lost, and %d came back", lost, back)
	}
}

// changesUntilKilled makes random changes below dir until this process is killed. After each that was made it prints the tree.
func changesUntilKilled(t *testing.T, dir string) {
	k := &kept{t: t, dir: filepath.Join(dir, "t"), state: dir}
	k.open(physical.Options{})
	_, secret, err := k.Grant(t.Context(), "agent", "", false)
	check.OK(t, err)
	k.secret = secret[:]
	k.restore()
	seed, err := strconv.ParseUint(os.Getenv("CAPD_UNDO_SEED"), 10, 64)
	check.OK(t, err)
	rng := rand.New(rand.NewPCG(seed, 16))
	for {
		if anyChange(t.Context(), rng, k.root) == nil {
			fmt.Printf("tree %q\n", treeOf(t, k.dir))
		}
	}
}

// killedAt kills a process that changes something, starts the host again, and undoes everything.
func killedAt(t *testing.T, seed int) (lost, back int) {
	t.Helper()
	dir, err := os.MkdirTemp("", "u")
	check.OK(t, err)
	defer os.RemoveAll(dir)
	check.OK(t, os.Mkdir(filepath.Join(dir, "t"), 0o700))
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRandomUndo$")
	child.Env = append(os.Environ(), "CAPD_UNDO_DIR="+dir, "CAPD_UNDO_SEED="+strconv.Itoa(seed))
	out, err := child.StdoutPipe()
	check.OK(t, err)
	check.OK(t, child.Start())
	last := ""
	lines, n := bufio.NewScanner(out), 0
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "tree "); ok {
			last = text
			if n++; n == 5+seed%40 {
				check.OK(t, child.Process.Kill())
			}
		}
	}
	_ = child.Wait() // it was killed
	if n < 5 {
		t.Fatalf("it made %d changes: %s", n, last)
	}
	k := &kept{t: t, dir: filepath.Join(dir, "t"), state: dir}
	k.open(physical.Options{})
	defer k.close()
	_, err = k.UndoOf(t.Context(), "agent", vfs.Undo{SinceMs: 1})
	if err != nil {
		t.Errorf("seed %d, after %d changes, with %s: %v", seed, n, last, err)
		lost++
	} else if got := treeOf(t, k.dir); got != "" {
		t.Errorf("seed %d: everything was undone, and there is %q", seed, got)
		back++
	}
	return lost, back
}
