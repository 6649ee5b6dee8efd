package batch_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/batch"
	"capd/vfs/faultfs"
)

var errFault = vfs.Errorf(vfs.Busy, "planned")

var stages = map[string]faultfs.Stage{"before": faultfs.Before, "commit": faultfs.Commit, "after": faultfs.After}

// place is a target or a journal, whose faults are those of plan.
type place struct {
	dir   vfs.Dir // with faults
	store *memory.Store
	plan  faultfs.Plan
}

func newPlace(t testing.TB, tr tree) *place {
	t.Helper()
	p := &place{store: memory.New(memory.Limits{})}
	p.dir = faultfs.New(p.store.Root(), &p.plan)
	fill(t, p.sound(), tr)
	return p
}

// sound is the place without its faults, until it is closed.
func (p *place) sound() vfs.Dir { return p.store.Root() }

// recovered checks that a restart makes what it finds wholly done or wholly undone. It
// returns the state from before, if that was already so.
func recovered(t *testing.T, target, journal *place, after tree) {
	t.Helper()
	opened := false
	all, err := batch.Recover(t.Context(), journal.sound(), func(_ context.Context, name string) (vfs.Dir, error) {
		opened = true
		if name != "target" {
			t.Errorf("Recover opens %q", name)
		}
		return target.sound(), nil
	})
	ok(t, err)
	want := before
	got := read(t, target.sound())
	if maps.Equal(got, after) && !opened {
		want = after
	}
	for _, r := range all {
		if r.Done {
			want = after
		}
		if len(r.Left) > 0 {
			t.Errorf("Recover leaves %v", r.Left)
		}
	}
	holds(t, target.sound(), want)
	empty(t, journal.sound())
	if all, err := batch.Recover(t.Context(), journal.sound(), nil); len(all) > 0 || err != nil {
		t.Errorf("the second Recover: %v, %v", all, err)
	}
}

// faultEdit has every kind of step, with short contents.
var faultEdit = maps.Collect(func(yield func(string, string) bool) {
	for path, node := range edits["all of it"] {
		if node == big {
			node = "file:new"
		}
		if !yield(path, node) {
			return
		}
	}
})

// everyPoint calls at for each point at which a fault of plan may stop an operation of a
// or b, until at reports that the point was not reached.
func everyPoint(t *testing.T, at func(t *testing.T, ofTarget bool, stage faultfs.Stage, n int) (reached bool)) {
	for _, ofTarget := range []bool{true, false} {
		for name, stage := range stages {
			t.Run(fmt.Sprintf("%s target=%t", name, ofTarget), func(t *testing.T) {
				n := 1
				for ; at(t, ofTarget, stage, n); n++ {
					if t.Failed() {
						t.Fatalf("at operation %d", n)
					}
				}
				if n < 3 {
					t.Errorf("only %d operations were there to be stopped", n-1)
				}
			})
		}
	}
}

// crash runs do until it reaches operation n, and leaves it there until the test ends.
// For everybody else its process has died.
func crash(t *testing.T, plan *faultfs.Plan, stage faultfs.Stage, n int, do func()) (reached bool) {
	pause, over := plan.Pause(faultfs.Any, stage, n), make(chan struct{})
	go func() {
		defer close(over)
		do()
	}()
	select {
	case <-over:
		plan.Clear()
		return false
	case <-pause.Reached():
		t.Cleanup(func() {
			pause.Resume()
			<-over
		})
		return true
	}
}

// The process dies at any operation, of the target or of the journal.
func TestEveryCrash(t *testing.T) {
	after := before.with(faultEdit)
	everyPoint(t, func(t *testing.T, ofTarget bool, stage faultfs.Stage, n int) bool {
		target, journal := newPlace(t, before), newPlace(t, tree{})
		reached := crash(t, target.or(journal, ofTarget), stage, n, func() {
			batch.Run(context.Background(), journal.dir, target.dir, changes(before, after), batch.Options{Name: "target"})
		})
		recovered(t, target, journal, after)
		return reached
	})
}

func (p *place) or(other *place, this bool) *faultfs.Plan {
	if this {
		return &p.plan
	}
	return &other.plan
}

// halfDone returns a target and a journal as a process leaves them that dies after half
// of the steps.
func halfDone(t *testing.T, after tree) (target, journal *place) {
	target, journal = newPlace(t, before), newPlace(t, tree{})
	steps, over, stay := 0, make(chan struct{}), make(chan struct{})
	there := make(chan struct{})
	go func() {
		defer close(over)
		batch.Run(context.Background(), journal.sound(), target.sound(), changes(before, after), batch.Options{Name: "target", Step: func(step string) {
			if steps++; steps == 15 {
				close(there)
				<-stay
			}
		}})
	}()
	<-there
	t.Cleanup(func() {
		close(stay)
		<-over
	})
	return target, journal
}

// The process dies in the middle of a batch, and the next one in the middle of recovering
// it.
func TestCrashInRecover(t *testing.T) {
	after := before.with(faultEdit)
	everyPoint(t, func(t *testing.T, ofTarget bool, stage faultfs.Stage, n int) bool {
		target, journal := halfDone(t, after)
		reached := crash(t, target.or(journal, ofTarget), stage, n, func() {
			batch.Recover(context.Background(), journal.dir, func(context.Context, string) (vfs.Dir, error) { return target.dir, nil })
		})
		recovered(t, target, journal, after)
		return reached
	})
}

// A batch that is being undone is done or undone after a restart, and so is the undoing.
func TestCrashInUndo(t *testing.T) {
	after := before.with(faultEdit)
	everyPoint(t, func(t *testing.T, ofTarget bool, stage faultfs.Stage, n int) bool {
		target, journal := newPlace(t, before), newPlace(t, tree{})
		id, err := batch.Run(t.Context(), journal.sound(), target.sound(), changes(before, after), batch.Options{Name: "target", Keep: true})
		ok(t, err)
		reached := crash(t, target.or(journal, ofTarget), stage, n, func() {
			batch.Undo(context.Background(), journal.dir, id, target.dir)
		})
		_, err = batch.Recover(t.Context(), journal.sound(), func(context.Context, string) (vfs.Dir, error) { return target.sound(), nil })
		ok(t, err)
		got := read(t, target.sound())
		if !maps.Equal(got, before) && !maps.Equal(got, after) {
			t.Errorf("half undone: %v", got)
		}
		if err := batch.Undo(t.Context(), journal.sound(), id, target.sound()); err != nil && vfs.CodeOf(err) != vfs.NotFound {
			t.Error(err)
		}
		holds(t, target.sound(), before)
		empty(t, journal.sound())
		return reached
	})
}

// One operation fails, or its answer is lost. The batch is done or undone, as Run
// answers, at once or after a restart.
func TestEveryFault(t *testing.T) {
	after := before.with(faultEdit)
	everyPoint(t, func(t *testing.T, ofTarget bool, stage faultfs.Stage, n int) bool {
		target, journal := newPlace(t, before), newPlace(t, tree{})
		plan := target.or(journal, ofTarget)
		plan.Fail(faultfs.Any, stage, n, errFault)
		_, err := batch.Run(t.Context(), journal.dir, target.dir, changes(before, after), batch.Options{Name: "target"})
		plan.Clear()
		if err == nil {
			holds(t, target.sound(), after)
		}
		recovered(t, target, journal, after)

		target, journal = newPlace(t, before), newPlace(t, tree{})
		return crash(t, target.or(journal, ofTarget), stage, n, func() {
			batch.Run(context.Background(), journal.dir, target.dir, changes(before, after), batch.Options{Name: "target"})
		})
	})
}

// From some operation on everything fails: the disk is full, or gone.
func TestEveryFaultThatStays(t *testing.T) {
	after := before.with(faultEdit)
	everyPoint(t, func(t *testing.T, ofTarget bool, stage faultfs.Stage, n int) bool {
		target, journal := newPlace(t, before), newPlace(t, tree{})
		plan := target.or(journal, ofTarget)
		pause := plan.Pause(faultfs.Any, stage, n)
		over := make(chan error, 1)
		go func() {
			_, err := batch.Run(context.Background(), journal.dir, target.dir, changes(before, after), batch.Options{Name: "target"})
			over <- err
		}()
		reached := false
		var err error
		select {
		case <-pause.Reached():
			reached = true
			plan.Fail(faultfs.Any, stage, 0, errFault)
			pause.Resume()
			err = <-over
		case err = <-over:
		}
		plan.Clear()
		switch {
		case err == nil:
			holds(t, target.sound(), after)
		case !reached:
			t.Errorf("without a fault: %v", err)
		}
		recovered(t, target, journal, after)
		return reached
	})
}

// A batch can make any tree of any other and undo that, and is all or nothing wherever it
// is interrupted.
func TestRandom(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		from, to := randomTree(rnd), randomTree(rnd)
		all := changes(from, to)
		rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })

		d, j := store(t, from), journal()
		id, err := batch.Run(t.Context(), j, d, all, batch.Options{Keep: true})
		ok(t, err)
		holds(t, d, to)
		if id != "" {
			ok(t, batch.Undo(t.Context(), j, id, d))
		}
		holds(t, d, from)
		empty(t, j)

		target, jplace := newPlace(t, from), newPlace(t, tree{})
		plan := target.or(jplace, rnd.IntN(2) == 0)
		plan.Fail(faultfs.Any, faultfs.Stage(rnd.IntN(3)), 1+rnd.IntN(200), errFault)
		_, err = batch.Run(t.Context(), jplace.dir, target.dir, all, batch.Options{})
		plan.Clear()
		done := err == nil
		recovered, err := batch.Recover(t.Context(), jplace.sound(), func(context.Context, string) (vfs.Dir, error) { return target.sound(), nil })
		ok(t, err)
		for _, r := range recovered {
			done = r.Done
		}
		if done {
			holds(t, target.sound(), to)
		} else {
			holds(t, target.sound(), from)
		}
		if t.Failed() {
			t.Fatalf("with seed %d, from %v to %v", seed, from, to)
		}
	}
}

func randomTree(rnd *rand.Rand) tree {
	tr := tree{}
	var grow func(at string, depth int)
	grow = func(at string, depth int) {
		for _, name := range []string{"a", "a-", "b", "c"} {
			path := vfs.Join(at, name)
			switch rnd.IntN(6) {
			case 0:
				tr[path] = fmt.Sprintf("file:%d", rnd.IntN(3))
			case 1:
				tr[path] = fmt.Sprintf("exec:%d", rnd.IntN(3))
			case 2:
				tr[path] = fmt.Sprintf("link:%d", rnd.IntN(2))
			case 3, 4:
				tr[path] = "dir"
				if depth < 3 {
					grow(path, depth+1)
				}
			}
		}
	}
	grow("", 1)
	return tr
}
