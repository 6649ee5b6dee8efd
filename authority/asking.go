package authority

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"capd/approval"
	"capd/meter"
	"capd/vfs"
	"capd/vfs/membrane"
)

var errNoDesk = vfs.Errorf(vfs.AskDenied, "this needs an approval, and nobody can be asked here")

// Asks implements [vfs.Change].
func (c *change) Asks(why string) error {
	if c.host.asks == nil {
		return errNoDesk
	}
	if !slices.Contains(c.why, why) {
		c.why = append(c.why, why)
	}
	a, err := c.asked()
	if err != nil {
		return err
	}
	return c.host.asks.Expect(a)
}

// Stands implements [vfs.Change].
func (c *change) Stands() bool { return c.host.stands(c.op) }

// stands reports whether an approval that was given with always covers op.
func (h *Host) stands(op membrane.Op) bool {
	a, err := (&change{host: h, op: op}).asked()
	if h.asks == nil || err != nil {
		return false
	}
	_, ok := h.asks.Stands(a)
	return ok
}

// waits returns the id of the newest request about path that waits for the capability with the meter by.
func (h *Host) waits(by *meter.Meter, path string) string {
	a, err := h.askedBy(by)
	if err != nil {
		return ""
	}
	return h.asks.Waiting(a.Grant, path)
}

// asked returns what is known about a change before anything is staged.
func (c *change) asked() (approval.Asked, error) {
	a, err := c.host.askedBy(c.op.By())
	a.Operation, a.Path, a.To, a.Why = c.op.Kind.String(), c.op.Path, c.op.To, c.why
	return a, err
}

// askedBy returns who asks through the capability with the meter by.
func (h *Host) askedBy(by *meter.Meter) (a approval.Asked, err error) {
	holders := h.lineage(by)
	if len(holders) == 0 {
		return a, errNoDesk // it is no guest's
	}
	a = approval.Asked{Guest: holders[0].Name, Grants: holders}
	a.Grant, _ = strconv.ParseInt(strings.TrimPrefix(holders[0].ID, "g"), 10, 64)
	a.Root, _ = strconv.ParseInt(strings.TrimPrefix(holders[len(holders)-1].ID, "g"), 10, 64)
	return a, nil
}

// askRead waits for the approval of a read. It implements membrane.Guard.AskRead.
func (h *Host) askRead(ctx context.Context, r membrane.AskedRead) error {
	a, err := h.askedBy(r.By)
	if err != nil {
		return err
	}
	a.Operation, a.Path, a.Why = approval.Read, r.Path, []string{r.Why}
	if r.Version.IsZero() {
		return h.asks.Expect(a)
	}
	a.Found, a.Size = vfs.If{Is: r.Version}, r.Size
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer r.OnRevoke(cancel)()
	_, err = h.asks.Ask(waiting, a)
	return err
}

// approved waits for the approval of a change that needs one. If the change cannot be made anyway, nobody is asked. id is that of the
// request, if there was one, and used returns when it is on disk that the approval is used up.
func (c *change) approved(ctx context.Context, s vfs.Staged) (id string, used func() error, err error) {
	if len(c.why) == 0 {
		return "", nil, nil
	}
	got, err := c.wait(ctx, s)
	if err != nil {
		return "", nil, err
	}
	return got.ID(), got.Use(), nil
}

func (c *change) wait(ctx context.Context, s vfs.Staged) (*approval.Approval, error) {
	if s.Late || s.Bound == nil {
		return nil, vfs.Errorf(vfs.AskDenied, "this needs an approval, and what is stored here cannot wait for one")
	}
	if err := vfs.Probe(ctx, s.Grows); err != nil {
		return nil, err
	}
	a, err := c.asked()
	if err != nil {
		return nil, err
	}
	a.Found, a.FoundTo, a.Exec, a.Stands = s.Bound.Found, s.Bound.FoundTo, s.Bound.Exec, s.Bound.Stands
	a.Digest, a.Size = toWrite(s)
	a.Diff = func() string { return c.shown(ctx, s) }
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer c.op.OnRevoke(cancel)()
	got, err := c.host.asks.Ask(waiting, a)
	if err != nil {
		return nil, err
	}
	if err := vfs.Probe(ctx, s.Grows); err != nil { // that was some time ago
		got.Drop()
		return nil, err
	}
	return got, nil
}

// toWrite returns the digest and the size of what a change writes: of the whole file, or of what is written in place and where.
func toWrite(s vfs.Staged) (vfs.Version, int64) {
	b := s.Bound
	if b.Parts != nil {
		return bindingOf(b.Parts), 0
	}
	if s.Content != nil {
		return s.Content.Version(), s.Content.Size()
	}
	if b.Attributes != nil {
		return sha256.Sum256([]byte(b.Attributes.String())), 0
	}
	if b.Data == nil && b.Offset == 0 {
		return vfs.Version{}, 0
	}
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(b.Offset)))
	h.Write(b.Data)
	return vfs.Version(h.Sum(nil)), int64(len(b.Data))
}
