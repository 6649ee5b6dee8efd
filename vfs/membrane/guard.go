package membrane

import (
	"context"
	"slices"
	"sync"

	"capd/meter"
	"capd/vfs"
)

// OpKind names an operation of the waist.
type OpKind uint8

// The operations. Each one either reads or changes, never both.
const (
	OpStat OpKind = iota
	OpLookup
	OpList
	OpRead // also of a content held open, and of a version
	OpTarget
	OpSync
	OpArchive // of a directory, which is also listed and read
	OpWatch   // be told of what changes at Path
	OpCreate  // the first that changes something
	OpMkdir
	OpReplace
	OpRemove
	OpRename
	OpWrite
	OpTruncate
	OpAppend
	OpSymlink
	OpAttributes
	OpChange // of many paths, in the directory at Path; see [Together]
	OpCopy   // of a directory with everything in it, to Path; see [Copied]
)

var opNames = [...]string{"stat", "lookup", "list", "read", "target", "sync", "archive", "watch",
	"create", "mkdir", "replace", "remove", "rename", "write", "truncate", "append", "symlink", "attributes", "change", "copy"}

func (k OpKind) String() string { return opNames[k] }

// Whole reports whether the operation is made of others, which are parts of it.
func (k OpKind) Whole() bool { return k == OpChange || k == OpCopy }

// Changes reports whether the operation changes what is stored.
func (k OpKind) Changes() bool { return k >= OpCreate }

// Op is one operation as a guard sees it. Paths are relative to the guarded root.
type Op struct {
	Kind OpKind
	Path string
	To   string // OpRename: the new path; "" when the target is in another guarded tree

	Offset, Length int64 // OpWrite: where, and how many bytes; OpAppend: how many; OpTruncate: Offset is the new size

	Batch Batch // whether it belongs to a batch; see [Hold]

	targets []target // that it changes
	stored  *stored  // what its meter has counted; nil if there is no guard
	asks    bool     // it needs an approval, for which nobody was asked yet
}

// By returns the meter of the capability that the change comes through: it tells a share from what it was shared from. It is
// nil for a capability without a meter.
func (o Op) By() *meter.Meter {
	if len(o.targets) == 0 {
		return nil
	}
	return o.targets[0].view.base.meter
}

// Stored returns by how much stored data has grown so far through the operation, as the meter of By counts it. A move to
// another guarded tree takes away here what it adds there.
func (o Op) Stored() vfs.Effect {
	if o.stored == nil {
		return vfs.Effect{}
	}
	return vfs.Effect{Bytes: o.stored.bytes.Load(), Nodes: o.stored.nodes.Load()}
}

// OnRevoke calls f when a right that the change needs is taken back; see the function OnRevoke. It is for a guard that waits.
// It may call f more than once.
func (o Op) OnRevoke(f func(error)) (stop func()) {
	stops := make([]func(), len(o.targets))
	for i, t := range o.targets {
		stops[i] = t.watch(context.Background(), f)
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// Batch says whether an operation belongs to a batch of changes; see [Hold].
type Batch uint8

// The values of Batch.
const (
	Alone   Batch = iota // belongs to no batch
	Ahead                // asked before the batch begins: may it be made? do changes nothing
	InBatch              // was allowed Ahead, and is made now
)

// Guard is a policy. A nil field has no effect.
type Guard struct {
	// Hides matches the paths that policy withholds. Listings leave them out, and a
	// call that names one is denied before the store is asked. The Matcher is that
	// of the root.
	Hides Matcher

	// Asks matches the paths at which a change needs an approval; see [vfs.Asks]. The change waits for it when
	// everything else allows it, and is made only if nothing else has changed there meanwhile. The
	// Matcher is that of the root.
	Asks Matcher

	// Why says what asks, or what hides, for an operator, where at, which comes from Asks or Hides, has matched:
	// "project: **/.git/**". A guard that asks has one.
	Why func(at Matcher) string

	// AskRead is called before a file is read where Policy asks before reads, once to learn whether that could be approved and once
	// with the version that is read. It returns when that is approved, or an error. It may wait for a human; see [vfs.Aside].
	// Nil: such reads are askDenied.
	AskRead func(ctx context.Context, r AskedRead) error

	// Stands reports whether a change was approved for now, whatever is there; see [vfs.Stands]. It is for a guard whose Around
	// answers for changes. Nil: none was.
	Stands func(op Op) bool

	// Waits returns the number of the newest request for an approval of a change at path, through the capability with the meter by, that nobody
	// has decided about; "" for none. It is for explanations. Nil: none waits.
	Waits func(by *meter.Meter, path string) string

	// Around runs around an operation. It calls do at most once, before it returns, and
	// returns do's error or one of its own. The context it gives to do must descend
	// from ctx.
	Around func(ctx context.Context, op Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error)

	// On matches the paths for which Around runs. The Matcher is that of the root. Nil
	// matches every path.
	On Matcher

	// Changes limits Around to operations that change something. Reads then skip it and
	// are faster.
	Changes bool

	// Meter, if not nil, counts what is open and what is stored. Beyond its limits a
	// change answers quota, and opening one more node answers limit.
	Meter *meter.Meter

	// ReadOnly refuses every change, as [ReadOnlyDir] does.
	ReadOnly bool

	// Policy, if not nil, has rules that decide by the rights which an operation needs. Only
	// one guard of a tree has one.
	Policy Policy

	// Denied, if not nil, is told of calls that were refused; see [Denied]. It must not wait. Only one of a tree's guards
	// has one.
	Denied func(Denial)

	// Reads, if not nil, counts what is read and listed. Only one of a tree's guards has one.
	Reads *Reads

	// Rested, if not nil, is told when a file that was written in place through the capability with the meter by was
	// synced or closed. It must not wait. Only one of a tree's guards has one.
	Rested func(by *meter.Meter, path string)

	// Staged, if not nil, is told what the capability with the meter by has counted when a staged directory is placed
	// at path, or is dropped: no Around runs then. It must not wait.
	Staged func(by *meter.Meter, path string, e vfs.Effect)

	// Journal, if not nil, is where batches of changes are written; see [JournalOf]. Nothing of the tree outlives the process.
	// Only one of a tree's guards has one.
	Journal vfs.Dir

	// History, if not nil, knows what was changed, and undoes it. Only one of a tree's guards has one.
	History History

	// Feed, if not nil, tells what changed. Only one of a tree's guards has one.
	Feed Feed

	// Temps, if not nil, makes temporary directories. Only one of a tree's guards has one.
	Temps *Temps

	// Bulkhead, if not nil, bounds how many calls are inside the store at once. Only
	// one of a tree's guards has one. A [capd/vfs/namespace.Namespace] needs none, since
	// each mount has its own.
	Bulkhead *Bulkhead
}

// guardSet is the guards of one tree, which all its views share.
type guardSet struct {
	mask        mode                   // of the view at the root
	root        *rules                 // of the guards
	hiding      int                    // how many of the rules hide
	hidden      []func(Matcher) string // the Why of those; each may be nil
	asking      []func(Matcher) string // the Why of the rules after those, which ask
	arounds     []around               // all
	readArounds []around               // those that also run around reads
	meters      []*meter.Meter

	policy   Policy                                 // nil for none
	waits    func(*meter.Meter, string) string      // nil: no request waits
	stands   func(Op) bool                          // nil: none was approved
	askRead  func(context.Context, AskedRead) error // nil: nobody is asked before reads
	denied   func(Denial)                           // nil for none
	reads    *Reads                                 // nil for none
	rested   func(*meter.Meter, string)             // nil for none
	staged   func(*meter.Meter, string, vfs.Effect) // nil for none
	history  History                                // nil for none
	feed     Feed                                   // nil for none
	temps    *Temps                                 // nil for none
	temp     bool                                   // the tree is a temporary directory
	bulkhead *Bulkhead                              // nil for none
	journal  vfs.Dir                                // nil for none
	links    linkLock
}

type around struct {
	run func(context.Context, Op, func(context.Context) (vfs.Effect, error)) (vfs.Effect, error)
	on  int // index of its On among the rules; below 0 for every path
}

func newGuardSet(guards []Guard) *guardSet {
	s := &guardSet{root: &rules{}, links: newLinkLock()}
	for _, g := range guards {
		if g.Hides != nil {
			s.root.at = append(s.root.at, g.Hides)
			s.hidden = append(s.hidden, g.Why)
		}
	}
	s.hiding = len(s.root.at)
	for _, g := range guards {
		if g.Asks != nil {
			s.root.at = append(s.root.at, g.Asks)
			s.asking = append(s.asking, g.Why)
		}
	}
	for _, g := range guards {
		if g.Around != nil {
			a := around{g.Around, -1}
			if g.On != nil {
				a.on = len(s.root.at)
				s.root.at = append(s.root.at, g.On)
			}
			s.arounds = append(s.arounds, a)
			if !g.Changes {
				s.readArounds = append(s.readArounds, a)
			}
		}
		if g.ReadOnly {
			s.mask = changes
		}
		if g.Meter != nil {
			s.meters = append(s.meters, g.Meter)
		}
		if g.AskRead != nil {
			s.askRead = g.AskRead
		}
		if g.Stands != nil {
			s.stands = g.Stands
		}
		if g.Waits != nil {
			s.waits = g.Waits
		}
		if g.Policy != nil {
			s.policy = g.Policy
		}
		if g.Denied != nil {
			s.denied = g.Denied
		}
		if g.Rested != nil {
			s.rested = g.Rested
		}
		if g.Staged != nil {
			s.staged = g.Staged
		}
		if g.Reads != nil {
			s.reads = g.Reads
		}
		if g.History != nil {
			s.history = g.History
		}
		if g.Feed != nil {
			s.feed = g.Feed
		}
		if g.Temps != nil {
			s.temps = g.Temps
		}
		if g.Bulkhead != nil {
			s.bulkhead = g.Bulkhead
		}
		if g.Journal != nil {
			s.journal = g.Journal
		}
	}
	if s.policy != nil {
		s.root.root = s.policy.Judge()
		s.root.judge = s.root.root
	}
	return s
}

var errTwice = vfs.Errorf(vfs.Internal, "a guard ran an operation twice or too late")

// around runs do inside the Around of every guard that applies to op, the first
// outermost, and then inside the bulkhead. Operations that pause, such as a listing or
// a whole-file write, enter the bulkhead themselves. ends are the rules at op.Path, and
// at op.To if it has one.
func (s *guardSet) around(ctx context.Context, op Op, ends []*rules, do func(context.Context) error) error {
	arounds := s.readArounds
	switch {
	case op.Kind.Changes():
		arounds = s.arounds
	case restores(ctx):
		arounds = nil
	}
	arounds = standing(arounds, ends)
	if s.bulkhead != nil && op.Kind != OpList && op.Kind != OpReplace && !op.Kind.Whole() {
		bare := do
		do = func(ctx context.Context) error { return s.inside(ctx, bare) }
	}
	if op.asks {
		do = askFirst(op.targets, do)
	}
	if len(arounds) == 0 {
		return do(ctx)
	}
	vfs.Forget(ctx) // a guard may take time, or change what is there
	if restores(ctx) {
		return s.surely(ctx, op, arounds, do)
	}
	_, err := step(ctx, op, arounds, do)
	return err
}

// standing returns those of all that apply to an operation on ends.
func standing(all []around, ends []*rules) []around {
	passes := func(a around) bool {
		return a.on >= 0 && !slices.ContainsFunc(ends, func(r *rules) bool { return r.at[a.on].Matched() })
	}
	if !slices.ContainsFunc(all, passes) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), passes)
}

// bare reports whether no guard stands around a read at r. Such a read needs no closure.
func (s *guardSet) bare(r *rules) bool {
	return !slices.ContainsFunc(s.readArounds, func(a around) bool { return a.on < 0 || r.at[a.on].Matched() })
}

func step(ctx context.Context, op Op, arounds []around, do func(context.Context) error) (vfs.Effect, error) {
	if len(arounds) == 0 {
		var total vfs.Effect
		ctx = vfs.OnCommit(ctx, func(e vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
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
	e, err := arounds[0].run(ctx, op, func(ctx context.Context) (vfs.Effect, error) {
		if !mu.TryLock() {
			return vfs.Effect{}, errTwice
		}
		defer mu.Unlock()
		if ran || over {
			return vfs.Effect{}, errTwice
		}
		ran = true
		var e vfs.Effect
		e, inner = step(ctx, op, arounds[1:], do)
		return e, inner
	})
	mu.Lock() // a guard returned before do did: wait, so that nothing happens later
	over = true
	mu.Unlock()
	switch {
	case err != nil:
		return e, err
	case !ran:
		return e, vfs.Errorf(vfs.Internal, "a guard reported success without the operation")
	}
	return e, inner
}
