package approval

import (
	"context"
	"encoding/hex"
	"slices"
	"time"

	"capd/database"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/search"
)

// place is where a change is made, and which.
type place struct{ operation, path, to string }

func (a *Asked) place() place { return place{a.Operation, a.Path, a.To} }

// standing is an approval that holds for a time.
type standing struct {
	id int64
	place
	pattern *search.Pattern // in place of the path and where it goes; may be nil
	text    string          // of pattern
	until   time.Time
	by      string // who gave it
}

// standing returns what v approves from now on, or nil.
func (q *ask) standing(v operator.Verdict, now time.Time) (*standing, error) {
	if v.Answer != operator.Always || q.request != nil {
		return nil, nil
	}
	if q.place.operation == Change || q.place.operation == Copy {
		return nil, vfs.Errorf(vfs.Invalid, "a change of several paths is approved once, for what it shows; always does not suit it")
	}
	if v.For == 0 {
		v.For = operator.StandingFor
	}
	s := &standing{place: q.place, text: v.Pattern, until: now.Add(v.For)}
	if err := s.compile(); err != nil {
		return nil, err
	}
	if !s.covers(q.place) {
		return nil, vfs.Errorf(vfs.Invalid, "the pattern does not match the path that was asked about")
	}
	return s, nil
}

func (s *standing) compile() (err error) {
	if s.text != "" {
		s.pattern, err = search.Compile(s.text)
	}
	return err
}

// covers reports whether s approves a change at that place.
func (s *standing) covers(at place) bool {
	if s.pattern == nil {
		return s.place == at
	}
	return s.operation == at.operation && s.pattern.Match(at.path) && (at.to == "" || s.pattern.Match(at.to))
}

// stands returns what approves changes at that place for now, or nil. Of several it is the last to end. d.mu is held.
func (d *Desk) stands(root int64, at place, now time.Time) (last *standing) {
	for _, s := range d.standing[root] {
		if now.Before(s.until) && s.covers(at) && (last == nil || s.until.After(last.until)) {
			last = s
		}
	}
	return last
}

// Stands reports whether a change of a's operation and place through its root grant is approved for now, and until when.
func (d *Desk) Stands(a Asked) (until time.Time, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.stands(a.Root, a.place(), time.Now()); s != nil {
		return s.until, true
	}
	return time.Time{}, false
}

// Standing lists the approvals that were given with always and hold now, the oldest first.
func (d *Desk) Standing(ctx context.Context) (list []operator.Standing, err error) {
	err = d.db.Read(ctx, func(r *database.Rows) error {
		list = nil
		return eachStanding(r, time.Now(), func(root int64, s *standing, ask []byte) {
			list = append(list, operator.Standing{ID: s.id, Ask: hex.EncodeToString(ask), Grant: grantID(root),
				Operation: s.operation, Path: s.path, To: s.to, Pattern: s.text, Until: s.until})
		})
	})
	return list, err
}

// End ends one of Standing. It holds no more when End returns, and it is written that it has ended, with a full disk too.
func (d *Desk) End(id int64) error {
	d.mu.Lock()
	for root, all := range d.standing {
		d.standing[root] = slices.DeleteFunc(all, func(s *standing) bool { return s.id == id })
	}
	d.mu.Unlock()
	return d.db.Urgent(func(tx *database.Tx) error {
		if err := end(tx, id, time.Now()); err != nil {
			return err
		}
		d.noteEnd(tx, id)
		return nil
	})
}
