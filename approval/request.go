package approval

import (
	"crypto/sha256"
	"encoding/json"
	"slices"

	"capd/database"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Request is a wish: what a subject without a grant asks for.
type Request struct {
	Subject operator.Subject
	Root    string // id of the root that it names
	At      string // the path in what the subject gets of the root
	File    bool   // a file is there, and not a directory
	Access  membrane.Rights
	Invite  int64  // by which it asks
	Words   string // why, in the subject's words
}

// Binding returns the same for wishes that are equal in all but Invite and Words.
func (r *Request) Binding() [sha256.Size]byte {
	text, err := json.Marshal([]any{r.Subject, r.Root, []byte(r.At), r.File, r.Access})
	if err != nil {
		panic(err) // never: these are texts and a number
	}
	return sha256.Sum256(text)
}

// roomFor makes room for one more wish of a subject: one about another matter in the same root gives way, or the oldest of
// [MaxPending], if no call waits for it. d.mu is held.
func (d *Desk) roomFor(r *Request) (gone *ask, err error) {
	pending := d.pendingOf(func(q *ask) bool { return q.request != nil && q.request.Subject == r.Subject })
	i := slices.IndexFunc(pending, func(q *ask) bool { return q.request.Root == r.Root })
	switch {
	case i >= 0 && !pending[i].idle():
		return nil, vfs.Errorf(vfs.Limit, "another request for this root waits for a decision; wait for that")
	case i < 0 && len(pending) < MaxPending:
		return nil, nil
	case i < 0:
		i = slices.IndexFunc(pending, (*ask).idle)
	}
	if i < 0 {
		return nil, vfs.Errorf(vfs.Limit, "%d requests wait for a decision already, which is the most; wait for one", MaxPending)
	}
	d.remove(pending[i])
	return pending[i], nil
}

// suits answers invalid for a verdict that says what cannot be said about q.
func (q *ask) suits(v operator.Verdict) error {
	switch {
	case q.request == nil && v.Rights != 0:
		return vfs.Errorf(vfs.Invalid, "this is about a change, which has no rights to choose from")
	case q.request != nil && v.Pattern != "":
		return vfs.Errorf(vfs.Invalid, "this is about a grant, which has no pattern; choose rights")
	case q.request != nil && v.Rights&^q.request.Access != 0:
		return vfs.Errorf(vfs.Invalid, "%s was not asked for; give less, not more", v.Rights&^q.request.Access)
	}
	return nil
}

// given returns the rights that a verdict about q gives.
func (q *ask) given(v operator.Verdict) membrane.Rights {
	switch {
	case q.request == nil || v.Answer == operator.Deny:
		return 0
	case v.Rights != 0:
		return v.Rights
	}
	return q.request.Access
}

// Bytes returns the id of the request that was answered, as rows have it.
func (p *Approval) Bytes() []byte { return p.ask.id[:] }

// Made writes that a grant was made of a yes, in the transaction that makes it.
func (p *Approval) Made(tx *database.Tx, grant int64) error {
	id := p.ask.id
	_, err := tx.Exec(`UPDATE asks SET spent = decided, result = ? WHERE id = ?`, grant, id[:])
	return err
}

// want is a wish as a row has it.
type want struct {
	Subject operator.Subject `json:"subject"`
	Root    string           `json:"root"`
	At      []byte           `json:"at,omitempty"`
	File    bool             `json:"file,omitempty"`
	Access  uint8            `json:"access"`
}

func insertRequest(tx *database.Tx, a *Asked, q *ask) error {
	r := a.Request
	text, err := json.Marshal(want{r.Subject, r.Root, []byte(r.At), r.File, uint8(r.Access)})
	if err != nil {
		return vfs.Hide(err)
	}
	_, err = tx.Exec(`INSERT INTO asks(id, binding, kind, invite, subject, op, path, to_path, why, want, words, asked) VALUES(?, ?, 'request', ?, ?, ?, ?, x'', '[]', ?, ?, ?)`,
		q.id[:], q.binding[:], r.Invite, a.Guest, a.Operation, []byte(a.Path), string(text), r.Words, q.asked.UnixMilli())
	return err
}

// requestOf reads the wish in a row, or returns nil for the row of a change.
func requestOf(text string) (*Request, error) {
	if text == "" {
		return nil, nil
	}
	var w want
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return nil, vfs.Errorf(vfs.Corrupt, "a request of a subject cannot be read: %v", err)
	}
	return &Request{Subject: w.Subject, Root: w.Root, At: string(w.At), File: w.File, Access: membrane.Rights(w.Access)}, nil
}
