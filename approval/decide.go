package approval

import (
	"strings"
	"time"

	"capd/database"
	"capd/operator"
	"capd/vfs"
)

// An Approval is a yes. One that was given once is used up.
type Approval struct {
	desk *Desk
	ask  *ask
}

// Verdict returns what was decided about a wish.
func (p *Approval) Verdict() operator.Verdict { return p.ask.verdict }

// ID returns the id of the request that was answered, or "" for an approval that was given with always before.
func (p *Approval) ID() string {
	if p.ask == nil {
		return ""
	}
	return p.ask.id.String()
}

// Use says that the change is made now. The function that it returns waits until that is on disk: then the yes is
// used up. Writes of the desk's database that begin later are on disk later.
func (p *Approval) Use() (wait func() error) {
	if p.ask == nil {
		return func() error { return nil }
	}
	id, at := p.ask.id, time.Now()
	return p.desk.db.Begin(func(tx *database.Tx) error { return spend(tx, id, at) })
}

// Drop gives back a yes that was not used, for an equal change.
func (p *Approval) Drop() {
	if p.ask == nil {
		return
	}
	d := p.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	p.ask.used = false
	if d.bound[p.ask.binding] == nil {
		d.add(p.ask)
	}
}

// take returns what was decided about q. Of several calls one gets the yes. d.mu is held.
func (d *Desk) take(q *ask) (*Approval, error) {
	switch {
	case q.verdict.Answer == operator.Deny:
		return nil, refusal(q.verdict.Reason)
	case q.request != nil && q.verdict.Answer != "":
		return &Approval{d, q}, nil
	}
	switch q.verdict.Answer {
	case operator.Always:
		return &Approval{}, nil
	case operator.Once:
		if q.place.operation == Read {
			return &Approval{}, nil
		}
		if q.used {
			return nil, vfs.Errorf(vfs.Conflict, "an equal change was approved once, and another call makes it; look at what is there now")
		}
		q.used = true
		delete(d.bound, q.binding)
		return &Approval{d, q}, nil
	}
	return nil, vfs.Errorf(vfs.AskDenied, "the request for an approval was dropped; try again")
}

func refusal(reason string) error {
	if reason == "" {
		return vfs.Errorf(vfs.Denied, "the host's operator said no")
	}
	return vfs.Errorf(vfs.Denied, "the host's operator said no: %s", vfs.Printable(reason))
}

// Decide decides about the request that ref names: its id, or the first 6 digits of it or more, if only one begins so. by
// says who decides. The first decision is the one that counts: a second answers conflict. Decide returns when it is on
// disk.
func (d *Desk) Decide(ref string, v operator.Verdict, by string) (id string, err error) {
	if err := v.Check(); err != nil {
		return "", err
	}
	q, err := d.find(ref)
	if err != nil {
		return "", err
	}
	if <-q.written; q.failed != nil {
		return "", errNoAsk
	}
	if err := q.suits(v); err != nil {
		return "", err
	}
	if err := d.begin(q); err != nil {
		return "", err
	}
	defer d.follow(q.root) // what it approves besides
	at := time.Now()
	s, err := q.standing(v, at)
	if err == nil {
		write := d.db.Write
		if v.Answer == operator.Deny {
			write = d.db.Urgent // with a full disk, too
		}
		err = write(func(tx *database.Tx) error { return d.decide(tx, q, v, by, at, s) })
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		q.deciding = false
		return "", err
	}
	if s != nil {
		s.by = by
		d.standing[q.root] = append(d.standing[q.root], s)
	}
	q.end(v, by, at)
	time.AfterFunc(Holds, d.sweep)
	return q.id.String(), nil
}

// end has the calls that wait for q go on with that decision. d.mu is held.
func (q *ask) end(v operator.Verdict, by string, at time.Time) {
	q.deciding, q.verdict, q.by, q.decided = false, v, by, at
	close(q.over)
}

var errNoAsk = vfs.Errorf(vfs.NotFound, "no request for an approval has that id; asks() lists what waits")

// minRef is the shortest beginning of an id that names a request, in digits.
const minRef = 6

func (d *Desk) find(ref string) (found *ask, err error) {
	ref = strings.ToLower(ref)
	if len(ref) < minRef {
		return nil, vfs.Errorf(vfs.Invalid, "a request is named by at least the first %d digits of its id; asks() lists what waits", minRef)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, q := range d.asks {
		if !strings.HasPrefix(id.String(), ref) {
			continue
		}
		if found != nil {
			return nil, vfs.Errorf(vfs.Invalid, "several requests begin so; write more of the id")
		}
		found = q
	}
	if found == nil {
		return nil, errNoAsk
	}
	return found, nil
}

// begin begins a decision about q, unless somebody was faster.
func (d *Desk) begin(q *ask) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case q.deciding:
		return vfs.Errorf(vfs.Conflict, "somebody else decides about it just now")
	case q.pending():
		q.deciding = true
		return nil
	case q.verdict.Answer == "":
		return errNoAsk
	}
	return vfs.Errorf(vfs.Conflict, "it was decided already: %s, by %s", q.verdict.Answer, q.by)
}
