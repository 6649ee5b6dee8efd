package overlay_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"capd/backend/physical"
	"capd/tests/scratch"
	"capd/vfs"
	"capd/vfs/batch"
	"capd/vfs/faultfs"
	"capd/vfs/overlay"
)

// The environment of a process that kills itself before its nth change of any store.
const (
	killAt   = "CAPD_OVERLAY_KILL_AT"
	killIn   = "CAPD_OVERLAY_KILL_IN"
	killUndo = "CAPD_OVERLAY_KILL_UNDO" // the apply that it undoes; if empty, it applies
)

func TestMain(m *testing.M) {
	if at, err := strconv.Atoi(os.Getenv(killAt)); err == nil {
		if err := workAndDie(os.Getenv(killIn), os.Getenv(killUndo), at); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(scratch.Run(m))
}

// stores are a lower tree, an upper store and a journal on disk.
type stores struct{ lower, upper, journal *physical.Store }

func openStores(dir string) (s stores, err error) {
	for name, at := range map[string]**physical.Store{"lower": &s.lower, "upper": &s.upper, "journal": &s.journal} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(path, 0o700); err != nil {
			return s, err
		}
		if *at, err = physical.OpenAmbient(path, physical.Options{}); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s stores) close() {
	s.lower.Close()
	s.upper.Close()
	s.journal.Close()
}

func workAndDie(dir, undo string, at int) error {
	ctx := context.Background()
	s, err := openStores(dir)
	if err != nil {
		return err
	}
	plan := &faultfs.Plan{}
	pause := plan.Pause(faultfs.Any, faultfs.Commit, at)
	go func() {
		<-pause.Reached()
		p, _ := os.FindProcess(os.Getpid())
		p.Kill()
	}()
	o, err := overlay.New(ctx, faultfs.New(s.lower.Root(), plan), faultfs.New(s.upper.Root(), plan), overlay.Options{})
	if err != nil {
		return err
	}
	journal := faultfs.New(s.journal.Root(), plan)
	if undo != "" {
		return o.Undo(ctx, journal, undo)
	}
	_, err = o.Apply(ctx, overlay.ApplyOptions{Journal: journal})
	return err
}

// work makes changes of every kind.
func work(t *testing.T, root vfs.Dir) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(path, data string) {
		t.Helper()
		_, err := vfs.Put(ctx, root, path, strings.NewReader(data), vfs.If{})
		must(err)
	}
	must(root.Rename(ctx, "c", root, "moved", vfs.If{}, vfs.If{}))
	put("moved/a", "c's a, changed")
	put("moved/b/new", "new")
	put("a", "changed")
	must(root.Remove(ctx, "b", vfs.If{}))
	must(root.Remove(ctx, "e", vfs.If{}))
	_, err := root.Mkdir(ctx, "e")
	must(err)
	put("e/in", "where there was a link")
	must(vfs.Symlink(ctx, root, "c", "moved"))
}

// TestKilled kills the process before each change that an apply or an undo makes in any
// store. After a restart it is wholly done or wholly undone, and the overlay shows the
// result.
func TestKilled(t *testing.T) {
	for _, mode := range []string{"apply", "undo"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			at := 1
			for killed(t, at, mode == "undo") {
				at++
			}
			if at < 20 {
				t.Errorf("there were only %d changes", at-1)
			}
		})
	}
}

// killed reports whether the process reached its nth change.
func killed(t *testing.T, at int, undo bool) bool {
	dir := t.TempDir()
	s, err := openStores(dir)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s.lower.Root(), modelTree)
	o := laid(t, s.lower.Root(), s.upper.Root())
	work(t, o.Root())
	original, wanted := shape(t, s.lower.Root()), shape(t, o.Root())
	apply := func() string {
		t.Helper()
		a, err := o.Apply(t.Context(), overlay.ApplyOptions{Journal: s.journal.Root()})
		if err != nil {
			t.Fatalf("change %d: Apply: %v", at, err)
		}
		return a.ID
	}
	id := ""
	if undo {
		id = apply()
	}
	s.close()

	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), killAt+"="+strconv.Itoa(at), killIn+"="+dir, killUndo+"="+id)
	out, err := child.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() > 0) {
		t.Fatalf("change %d: %v: %s", at, err, out)
	}
	killed := err != nil

	if s, err = openStores(dir); err != nil {
		t.Fatal(err)
	}
	defer s.close()
	_, err = batch.Recover(t.Context(), s.journal.Root(), func(context.Context, string) (vfs.Dir, error) { return s.lower.Root(), nil })
	if err != nil {
		t.Fatalf("change %d: Recover: %v", at, err)
	}
	now := shape(t, s.lower.Root())
	fromOriginal, fromWanted := differ(original, now), differ(wanted, now)
	if fromOriginal != "" && fromWanted != "" {
		t.Fatalf("change %d: the lower tree is neither as before:%s\nnor as wanted:%s", at, fromOriginal, fromWanted)
	}
	applied := fromWanted == ""
	if !killed && applied == undo {
		t.Fatalf("nothing was done")
	}
	o = laid(t, s.lower.Root(), s.upper.Root())
	same(t, "the overlay after the restart", wanted, shape(t, o.Root()))
	if left := diffOf(t, o); (len(left) == 0) != applied {
		t.Fatalf("change %d: the lower tree is as wanted: %v, and these are pending: %v", at, applied, left)
	}
	if undo && applied {
		if err := o.Undo(t.Context(), s.journal.Root(), id); err != nil {
			t.Fatalf("change %d: Undo: %v", at, err)
		}
		same(t, "the lower tree undone at last", original, shape(t, s.lower.Root()))
	}
	apply()
	same(t, "the lower tree at last", wanted, shape(t, s.lower.Root()))
	same(t, "the overlay at last", wanted, shape(t, o.Root()))
	return killed
}

// TestTornIndex reads the index cut at every byte of its last record. The change in that
// record was made or was not.
func TestTornIndex(t *testing.T) {
	lower := lowerOf(t, modelTree)
	upper := memoryUpper(t)
	o := laid(t, lower, upper)
	ctx := t.Context()
	for i, do := range []func(vfs.Dir) error{
		func(d vfs.Dir) error { _, err := d.Create(ctx, "new"); return err },
		func(d vfs.Dir) error { return d.Rename(ctx, "c", d, "moved", vfs.If{}, vfs.If{}) },
		func(d vfs.Dir) error { return vfs.Symlink(ctx, d, "odd", "\xff\n") },
		func(d vfs.Dir) error { return d.Remove(ctx, "b", vfs.If{}) },
		func(d vfs.Dir) error {
			_, err := vfs.Put(ctx, d, "moved/b/a", strings.NewReader("changed"), vfs.If{})
			return err
		},
	} {
		before, old := shape(t, o.Root()), text(t, upper, "index")
		if err := do(o.Root()); err != nil {
			t.Fatal(err)
		}
		after, whole := shape(t, o.Root()), text(t, upper, "index")
		for cut := len(old); cut <= len(whole); cut++ {
			torn := memoryUpper(t)
			fill(t, torn, treeOf(t, upper))
			if _, err := torn.Replace(ctx, "index", strings.NewReader(whole[:cut]), vfs.If{}); err != nil {
				t.Fatal(err)
			}
			want := before
			if cut == len(whole) {
				want = after
			}
			again := laid(t, lower, torn)
			same(t, "opened with a torn index", want, shape(t, again.Root()))
			if cut%7 == 0 { // and it goes on from there
				if _, err := again.Root().Create(ctx, "later"); err != nil {
					t.Fatal(err)
				}
				want := shape(t, again.Root())
				same(t, "opened once more", want, shape(t, laid(t, lower, torn).Root()))
			}
		}
		if i == 0 { // damage elsewhere is no tear
			bad := memoryUpper(t)
			fill(t, bad, treeOf(t, upper))
			damaged := strings.Replace(whole, "Create", "create", 1)
			damaged = strings.Replace(damaged, "\n", "\n0123 rubbish\n", 1)
			if _, err := bad.Replace(ctx, "index", strings.NewReader(damaged), vfs.If{}); err != nil {
				t.Fatal(err)
			}
			if _, err := overlay.New(ctx, lower, bad, overlay.Options{}); vfs.CodeOf(err) != vfs.Corrupt {
				t.Errorf("a damaged index: %v, want corrupt", err)
			}
		}
	}
}
