package approval

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"capd/database"
	"capd/operator"
	"capd/record"
	"capd/vfs"
)

// Desk is where changes wait for a decision. Safe for concurrent use.
type Desk struct {
	db      *database.DB
	log     *record.Log // nil for none
	patient bool

	mu       sync.Mutex // not held while the database is used
	asks     map[ID]*ask
	bound    map[binding]*ask      // those of asks that an equal change finds
	standing map[int64][]*standing // by root grant
	watches  int
	left     time.Time // when the last watch ended
}

// Options configures a Desk.
type Options struct {
	// Patient lets changes wait although nobody listens: somebody will look.
	Patient bool
	// Record gets an entry of each request and each decision. It may be nil.
	Record *record.Log
}

// Open returns the desk of the host whose state is db. What waited or was decided before is
// there again.
func Open(ctx context.Context, db *database.DB, o Options) (*Desk, error) {
	d := &Desk{db: db, log: o.Record, patient: o.Patient, asks: map[ID]*ask{}, bound: map[binding]*ask{}, standing: map[int64][]*standing{}}
	if err := d.load(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// ask is a request that waits, or whose decision still holds. The desk's mu guards it.
type ask struct {
	id      ID
	binding binding
	root    int64
	place   place
	grants  []record.Holder
	asked   time.Time
	waiting int // calls that wait for the decision

	written chan struct{} // closed when the row is on disk, or failed
	failed  error         // why it is not there; read after written is closed

	over     chan struct{} // closed when it was decided or dropped
	deciding bool          // a decision is being written
	decided  time.Time
	verdict  operator.Verdict // zero if it was dropped
	by       string
	used     bool // the yes was taken by a call
}

func newAsk(a *Asked) *ask {
	q := &ask{binding: a.binding(), root: a.Root, place: a.place(), grants: a.Grants, asked: time.Now(), written: make(chan struct{}), over: make(chan struct{})}
	_, _ = rand.Read(q.id[:]) // never fails
	return q
}

func (q *ask) pending() bool { return q.decided.IsZero() }

// holds reports whether the decision about q still says something about an equal change.
func (q *ask) holds(now time.Time) bool {
	return !q.pending() && !q.used && now.Sub(q.decided) < Holds && q.verdict.Answer != operator.Always // that stands by itself
}

// Listen says that somebody sees what waits, until stop is called.
func (d *Desk) Listen() (stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watches++
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.watches--
		d.left = time.Now()
	})
}

// listens reports whether somebody would see a new request. d.mu is held.
func (d *Desk) listens() bool {
	return d.patient || d.watches > 0 || time.Since(d.left) < listening
}

var errNobody = vfs.Errorf(vfs.AskDenied, "this needs an approval, and nobody at the host is listening; ask its operator to watch, and try again")

// Expect answers askDenied if a change of that operation and place through the root grant would be refused, whatever
// it writes: nobody listens, and nothing was approved there. It does not wait.
func (d *Desk) Expect(a Asked) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, at := time.Now(), a.place()
	if d.listens() || d.stands(a.Root, at, now) {
		return nil
	}
	for _, q := range d.asks {
		if q.root == a.Root && q.place == at && q.holds(now) {
			return nil
		}
	}
	return errNobody
}

// Ask waits until somebody has decided about a, and returns the approval. While it waits, the call of ctx holds nothing; see [vfs.Aside].
// It answers denied after a no, askDenied if nobody listens, askTimeout after [Patience], limit if too many
// requests of the grant wait, and conflict for one of several equal changes that waited for one yes. The request
// stays when ctx ends, and an equal change finds it, unless the cause is that the grant has ended.
func (d *Desk) Ask(ctx context.Context, a Asked) (*Approval, error) {
	if got, err := d.known(&a); got != nil || err != nil {
		return got, err
	}
	var got *Approval
	var err error
	if late := vfs.Aside(ctx, func() { got, err = d.wait(ctx, &a) }); got == nil && err == nil {
		err = late
	}
	return got, err
}

// known answers a without waiting, if that is possible.
func (d *Desk) known(a *Asked) (*Approval, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if d.stands(a.Root, a.place(), now) {
		return &Approval{}, nil
	}
	if q := d.bound[a.binding()]; q != nil && q.holds(now) {
		return d.take(q)
	}
	if !d.listens() {
		return nil, errNobody
	}
	return nil, nil
}

func (d *Desk) wait(ctx context.Context, a *Asked) (*Approval, error) {
	q, err := d.join(a)
	if err != nil {
		return nil, err
	}
	defer d.leave(q)
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case <-q.over:
	case <-late.C:
		return nil, errLate
	case <-ctx.Done():
		return nil, d.abandon(ctx, q)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.take(q)
}

var errLate = vfs.Errorf(vfs.AskTimeout, "nobody has decided about this within %v; the request stays, so ask the host's operator to decide, and try again", Patience)

// join returns the request about a, which it makes if there is none, with one more call that waits for it.
func (d *Desk) join(a *Asked) (*ask, error) {
	d.mu.Lock()
	if q := d.bound[a.binding()]; q != nil && (q.pending() || q.holds(time.Now())) {
		q.waiting++
		d.mu.Unlock()
		if <-q.written; q.failed != nil {
			d.leave(q)
			return nil, q.failed
		}
		return q, nil
	}
	gone, err := d.room(a.Root)
	if err != nil {
		d.mu.Unlock()
		return nil, err
	}
	q := newAsk(a)
	q.waiting = 1
	d.add(q)
	d.mu.Unlock()
	if q.failed = d.insert(a, q, gone); q.failed != nil {
		d.drop(q)
	}
	close(q.written)
	return q, q.failed
}

// room makes room for one more request of a root grant: it drops the oldest that no call waits for, and returns
// it. d.mu is held.
func (d *Desk) room(root int64) (gone *ask, err error) {
	pending := d.pendingOf(root)
	if len(pending) < MaxPending {
		return nil, nil
	}
	i := slices.IndexFunc(pending, func(q *ask) bool { return q.waiting == 0 && !q.deciding })
	if i < 0 {
		return nil, vfs.Errorf(vfs.Limit, "%d changes of this grant wait for an approval already, which is the most; wait for a decision", MaxPending)
	}
	d.remove(pending[i])
	return pending[i], nil
}

// pendingOf returns what waits for a decision, the oldest first. d.mu is held.
func (d *Desk) pendingOf(root int64) (all []*ask) {
	for _, q := range d.asks {
		if q.root == root && q.pending() {
			all = append(all, q)
		}
	}
	slices.SortFunc(all, func(a, b *ask) int { return cmp.Or(a.asked.Compare(b.asked), slices.Compare(a.id[:], b.id[:])) })
	return all
}

func (d *Desk) add(q *ask) { d.asks[q.id], d.bound[q.binding] = q, q }

// remove takes q out, so that nobody finds it. d.mu is held.
func (d *Desk) remove(q *ask) {
	delete(d.asks, q.id)
	if d.bound[q.binding] == q {
		delete(d.bound, q.binding)
	}
	if q.pending() {
		q.decided = time.Now()
		close(q.over)
	}
}

func (d *Desk) drop(q *ask) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.remove(q)
}

// sweep forgets what says nothing any more.
func (d *Desk) sweep() {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.asks {
		if q.pending() && q.waiting == 0 && !q.deciding && now.Sub(q.asked) >= kept || !q.pending() && now.Sub(q.decided) >= Holds {
			d.remove(q)
		}
	}
	for root, all := range d.standing {
		all = slices.DeleteFunc(all, func(s *standing) bool { return !now.Before(s.until) })
		if d.standing[root] = all; len(all) == 0 {
			delete(d.standing, root)
		}
	}
	d.db.Later(func(tx *database.Tx) error { return tidy(tx, now) })
}

func (d *Desk) leave(q *ask) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q.waiting--
}

// abandon is for a call whose ctx has ended. If its grant has ended, nobody can make the change any more.
func (d *Desk) abandon(ctx context.Context, q *ask) error {
	err := context.Cause(ctx)
	switch vfs.CodeOf(err) {
	case vfs.Revoked, vfs.Expired:
		d.mu.Lock()
		alone := q.waiting == 1 && q.pending() && !q.deciding
		if alone {
			d.remove(q)
		}
		d.mu.Unlock()
		if alone {
			d.db.Later(func(tx *database.Tx) error { return deleteAsk(tx, q.id) })
		}
	}
	return err
}
