package approval

import (
	"context"
	"crypto/rand"
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
	for root := range d.standing {
		d.follow(root) // the host may have been killed before it did
	}
	return d, nil
}

// ask is a request that waits, or whose decision still holds. The desk's mu guards it.
type ask struct {
	id      ID
	binding binding
	root    int64    // 0 for a wish
	grant   int64    // the root grant, or the share of it that asked; likewise
	guest   string   // who holds grant, as grants lists it
	request *Request // nil for a change
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
	ended    bool // the grant that asked has ended, and there is no row any more
}

func newAsk(a *Asked) *ask {
	q := &ask{binding: a.binding(), root: a.Root, grant: a.Grant, guest: a.Guest, request: a.Request, place: a.place(), grants: a.Grants, asked: time.Now(), written: make(chan struct{}), over: make(chan struct{})}
	_, _ = rand.Read(q.id[:]) // never fails
	return q
}

func (q *ask) pending() bool { return q.decided.IsZero() }

// holds reports whether the decision about q still says something about an equal change.
func (q *ask) holds(now time.Time) bool {
	return !q.pending() && !q.used && now.Sub(q.decided) < Holds && (q.verdict.Answer != operator.Always || q.request != nil) // that stands by itself
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
	if d.listens() || d.stands(a.Root, at, now) != nil {
		return nil
	}
	for _, q := range d.asks {
		if q.root == a.Root && q.place == at && q.holds(now) {
			return nil
		}
	}
	return errNobody
}

// Waiting returns the first digits of the id of the newest request of the grant about a change or a read at path that nobody has decided about; "" for none.
func (d *Desk) Waiting(grant int64, path string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var last *ask
	for _, q := range d.asks {
		if q.grant == grant && q.pending() && q.request == nil && (q.place.path == path || q.place.to == path) && (last == nil || q.asked.After(last.asked)) {
			last = q
		}
	}
	if last == nil {
		return ""
	}
	return last.id.String()[:shown]
}

// Ask waits until somebody has decided about a, and returns the approval. While it waits, the call of ctx holds nothing; see [vfs.Aside].
// It answers denied after a no, askDenied if nobody listens or what stood has ended, askTimeout after [Patience], limit if too many
// requests of the grant wait, and conflict for one of several equal changes that waited for one yes. The request
// stays when ctx ends, and an equal change finds it, unless the cause is that the grant has ended.
func (d *Desk) Ask(ctx context.Context, a Asked) (*Approval, error) {
	if got, err := d.known(&a); got != nil || err != nil {
		return got, err
	}
	var got *Approval
	var err error
	late := vfs.Aside(ctx, func() { got, err = d.wait(ctx, &a) })
	if err == nil && late != nil {
		if got != nil {
			got.Drop()
		}
		return nil, late
	}
	return got, err
}

// known answers a without waiting, if that is possible.
func (d *Desk) known(a *Asked) (*Approval, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if d.stands(a.Root, a.place(), now) != nil {
		return &Approval{}, nil
	}
	if a.Stands {
		return nil, errOver
	}
	if q := d.bound[a.binding()]; q != nil && q.holds(now) {
		return d.take(q)
	}
	if !d.listens() {
		return nil, errNobody
	}
	return nil, nil
}

var errOver = vfs.Errorf(vfs.AskDenied, "the approval for this ended before it was done; try again")

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
		return nil, vfs.Errorf(vfs.AskTimeout, "nobody has decided about this within %v; request %s stays, so ask the host's operator to decide, and try again", Patience, q.id.String()[:shown])
	case <-ctx.Done():
		return nil, d.abandon(ctx, q)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.take(q)
}

// shown is how many digits of a request's id people are shown.
const shown = 8

// join returns the request about a, which it makes if there is none, with one more call that waits for it.
func (d *Desk) join(a *Asked) (*ask, error) {
	d.mu.Lock()
	if q := d.bound[a.binding()]; q != nil && (q.pending() || q.holds(time.Now())) {
		q.waiting++
		q.ended = false // if its grant had ended, nobody would ask
		d.mu.Unlock()
		if <-q.written; q.failed != nil {
			d.leave(q)
			return nil, q.failed
		}
		return q, nil
	}
	gone, err := d.room(a)
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
	d.follow(q.root) // it may be approved since known looked
	return q, q.failed
}
