//go:build unix

package batch_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"capd/backend/physical"
	"capd/tests/scratch"
	"capd/vfs"
	"capd/vfs/batch"
	"capd/vfs/faultfs"
	"capd/vfs/membrane"
)

// The environment of a child process says what to do, where, and after how many steps or
// operations to die.
const (
	childDoes = "CAPD_BATCH_CHILD"
	childDir  = "CAPD_BATCH_DIR"
	childDies = "CAPD_BATCH_DIES"
)

func TestMain(m *testing.M) {
	if does := os.Getenv(childDoes); does != "" {
		if err := child(does, os.Getenv(childDir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(scratch.Run(m))
}

func kill() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // until it arrives
}

// child runs the batch, or recovers it, until it dies.
func child(does, dir string) error {
	ctx := context.Background()
	target, journal, done, err := stores(dir)
	if err != nil {
		return err
	}
	defer done()
	dies, err := strconv.Atoi(os.Getenv(childDies))
	if err != nil {
		return err
	}
	switch does {
	case "run":
		_, err = batch.Run(ctx, journal, target, changes(before, before.with(faultEdit)), batch.Options{Name: "target", Step: func(string) {
			if dies--; dies == 0 {
				kill()
			}
		}})
	case "durable":
		err = runAndUndo(ctx, journal, target)
	case "recover":
		plan := new(faultfs.Plan) // of both
		pause := plan.Pause(faultfs.Any, faultfs.After, dies)
		go func() {
			<-pause.Reached()
			kill()
		}()
		_, err = batch.Recover(ctx, faultfs.New(journal, plan), func(context.Context, string) (vfs.Dir, error) {
			return faultfs.New(target, plan), nil
		})
		if err == nil {
			fmt.Println("recovered")
		}
	}
	return err
}

// stores opens the target and the journal in dir.
func stores(dir string) (target, journal vfs.Dir, done func(), err error) {
	t, err := physical.OpenAmbient(filepath.Join(dir, "target"), physical.Options{})
	if err != nil {
		return nil, nil, nil, err
	}
	j, err := physical.OpenAmbient(filepath.Join(dir, "journal"), physical.Options{})
	if err != nil {
		return nil, nil, nil, err
	}
	return t.Root(), j.Root(), func() { t.Close(); j.Close() }, nil
}

// start runs a child and reports whether it was killed before it was done.
func start(t *testing.T, does, dir string, dies int) (killed bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDoes+"="+does, childDir+"="+dir, childDies+"="+strconv.Itoa(dies))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !s.Signaled() || s.Signal() != syscall.SIGKILL {
		t.Fatalf("%v: %s", err, out)
	}
	return true
}

func newStores(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"target", "journal"} {
		ok(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	target, _, done, err := stores(dir)
	ok(t, err)
	defer done()
	fill(t, target, before)
	return dir
}

// whole recovers what is in dir, and checks that the batch is done or undone.
func whole(t *testing.T, dir string) (isDone bool) {
	t.Helper()
	target, journal, done, err := stores(dir)
	ok(t, err)
	defer done()
	all, err := batch.Recover(t.Context(), journal, func(context.Context, string) (vfs.Dir, error) {
		return membrane.Guarded(target, nil), nil // which closes its own
	})
	ok(t, err)
	for _, r := range all {
		if len(r.Left) > 0 {
			t.Errorf("left: %v", r.Left)
		}
	}
	again, _, doneAgain, err := stores(dir)
	ok(t, err)
	defer doneAgain()
	got, want := read(t, again), before
	if after := before.with(faultEdit); maps.Equal(got, after) {
		isDone, want = true, after
	}
	holds(t, again, want)
	empty(t, journal)
	return isDone
}

// A process is killed after every step.
func TestKilled(t *testing.T) {
	done := false
	for n := 1; ; n++ {
		dir := newStores(t)
		killed := start(t, "run", dir, n)
		isDone := whole(t, dir)
		if done && !isDone {
			t.Errorf("undone after step %d, and done after the one before", n)
		}
		done = isDone
		if t.Failed() {
			t.Fatalf("killed after step %d", n)
		}
		if !killed {
			if !done || n < 15 {
				t.Errorf("after %d steps it is done: %t", n, done)
			}
			return
		}
	}
}

// A process is killed in the middle, and the recovering process at every fourth
// operation; TestCrashInRecover has all of them.
func TestKilledInRecover(t *testing.T) {
	for n := 1; ; n += 4 {
		dir := newStores(t)
		if !start(t, "run", dir, 12) {
			t.Fatal("it was done before the 12th step")
		}
		killed := start(t, "recover", dir, n)
		if whole(t, dir) {
			t.Errorf("killed at operation %d it is done", n)
		}
		if t.Failed() || !killed {
			return
		}
	}
}

// runAndUndo makes a batch that is kept, undoes it, and makes it again. It prints when
// each has answered and when the next begins.
func runAndUndo(ctx context.Context, journal, target vfs.Dir) error {
	after := before.with(faultEdit)
	id, err := batch.Run(ctx, journal, target, changes(before, after), batch.Options{Name: "target", Keep: true})
	if err != nil {
		return err
	}
	fmt.Println("done")
	fmt.Println("undoing")
	if err := batch.Undo(ctx, journal, id, target); err != nil {
		return err
	}
	fmt.Println("undone")
	fmt.Println("again")
	if _, err = batch.Run(ctx, journal, target, changes(before, after), batch.Options{Name: "target"}); err != nil {
		return err
	}
	fmt.Println("done again")
	return nil
}
