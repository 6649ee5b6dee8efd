package vfs

import (
	"context"
	"slices"
	"sync"

	"capd/meter"
)

// OpKind names an operation of the waist.
type OpKind uint8

// The operations. Each either looks or changes, never both.
const (
	OpStat OpKind = iota
	OpLookup
	OpList
	OpRead // also of a content held open, and of a version
	OpTarget
	OpSync
	OpCreate // the first that changes something
	OpMkdir
	OpReplace
	OpRemove
	OpRename
	OpWrite
	OpTruncate
	OpAppend
	OpSymlink
)

var opNames = [...]string{"stat", "lookup", "list", "read", "target", "sync",
	"create", "mkdir", "replace", "remove", "rename", "write", "truncate", "append", "symlink"}

func (k OpKind) String() string { return opNames[k] }

// Changes reports whether the operation changes what is stored.
func (k OpKind) Changes() bool { return k >= OpCreate }

// Op is one operation as a guard sees it. Paths are relative to the root that
// was guarded.
type Op struct {
	Kind OpKind
	Path string
	To   string // OpRename: where to; "" when the target lies in another guarded tree

	Batch Batch // its part in a batch; see [Hold]
}

// Batch says what part an operation has in a batch of changes; see [Hold].
type Batch uint8

// The parts.
const (
	Alone   Batch = iota // none
	Ahead                // it is asked whether it may be made; do changes nothing
	InBatch              // it was asked ahead, and is made now
)

// Guard is a policy. Nil fields have no opinion.
type Guard struct {
	// Hides matches what policy withholds: enumeration leaves it out, and naming it is
	// denied before the store is asked. It stands at the root.
	Hides Matcher

	// Around stands around an operation. It calls do at most once and before
	// it returns, and returns do's error or one of its own. do's context must
	// descend from ctx.
	Around func(ctx context.Context, op Op, do func(context.Context) (Effect, error)) (Effect, error)

	// On matches what Around is for: an operation on another path passes it by. It
	// stands at the root. Nil is for every path.
	On Matcher

	// Changes says that Around is for operations that change something. Those that
	// look pass it by, and are the faster for it.
	Changes bool

	// Meter, if any, counts what is open and what is stored. Beyond its limits a change
	// answers quota, and one node open more answers limit.
	Meter *meter.Meter

	// Bulkhead, if any, bounds how many calls are inside the store at once. One of a
	// tree's guards has one; a [Namespace] needs none, since each mount has its own.
	Bulkhead *Bulkhead
}

// world is what all views of one guarded tree share.
type world struct {
	root    rules    // of the guards
	hiding  int      // how many of them hide
	arounds []around // all
	looks   []around // those that stand around what only looks
	meters  []*meter.Meter

	bulkhead *Bulkhead // nil for none
}

type around struct {
	run func(context.Context, Op, func(context.Context) (Effect, error)) (Effect, error)
	on  int // which of the rules says on what; below 0: on everything
}

func newWorld(guards []Guard) *world {
	w := &world{}
	for _, g := range guards {
		if g.Hides != nil {
			w.root = append(w.root, g.Hides)
		}
	}
	w.hiding = len(w.root)
	for _, g := range guards {
		if g.Around != nil {
			a := around{g.Around, -1}
			if g.On != nil {
				a.on = len(w.root)
				w.root = append(w.root, g.On)
			}
			w.arounds = append(w.arounds, a)
			if !g.Changes {
				w.looks = append(w.looks, a)
			}
		}
		if g.Meter != nil {
			w.meters = append(w.meters, g.Meter)
		}
		if g.Bulkhead != nil {
			w.bulkhead = g.Bulkhead
		}
	}
	return w
}

var errTwice = Errorf(Internal, "a guard ran an operation twice or too late")

// around runs do inside the Around of every guard that stands around op, the first
// outermost, and then inside the bulkhead. What waits in the midst of itself, a listing or
// a whole-file write, enters that by itself. ends are the rules at op's Path, and at its
// To if it has one.
func (w *world) around(ctx context.Context, op Op, ends []rules, do func(context.Context) error) error {
	arounds := w.looks
	if op.Kind.Changes() {
		arounds = w.arounds
	}
	arounds = standing(arounds, ends)
	if w.bulkhead != nil && op.Kind != OpList && op.Kind != OpReplace {
		bare := do
		do = func(ctx context.Context) error { return w.within(ctx, bare) }
	}
	if len(arounds) == 0 {
		return do(ctx)
	}
	forget(ctx) // a guard may take its time, or change what is there
	_, err := step(ctx, op, arounds, do)
	return err
}

// standing returns those of all that stand around an operation on ends.
func standing(all []around, ends []rules) []around {
	passes := func(a around) bool {
		return a.on >= 0 && !slices.ContainsFunc(ends, func(r rules) bool { return r[a.on].Matched() })
	}
	if !slices.ContainsFunc(all, passes) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), passes)
}

func step(ctx context.Context, op Op, arounds []around, do func(context.Context) error) (Effect, error) {
	if len(arounds) == 0 {
		var total Effect
		ctx = OnCommit(ctx, func(e Effect, change func() (Effect, error)) (Effect, error) {
			got, err := change()
			total.Bytes += got.Bytes
			total.Nodes += got.Nodes
			return got, err
		})
		err := do(ctx)
		return total, err
	}
	var (
		mu        sync.Mutex // held while do runs
		ran, over bool
		inner     error
	)
	e, err := arounds[0].run(ctx, op, func(ctx context.Context) (Effect, error) {
		if !mu.TryLock() {
			return Effect{}, errTwice
		}
		defer mu.Unlock()
		if ran || over {
			return Effect{}, errTwice
		}
		ran = true
		var e Effect
		e, inner = step(ctx, op, arounds[1:], do)
		return e, inner
	})
	mu.Lock() // a guard that went ahead of do: wait, so that nothing happens later
	over = true
	mu.Unlock()
	switch {
	case err != nil:
		return e, err
	case !ran:
		return e, Errorf(Internal, "a guard reported success without the operation")
	}
	return e, inner
}
