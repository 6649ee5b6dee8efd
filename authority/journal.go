package authority

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"capd/database"
	"capd/history"
	"capd/record"
	"capd/vfs"
	"capd/vfs/membrane"
)

// maxCopied is the size, in bytes, of the largest file that is copied before it is changed where its store cannot keep it. Larger ones are
// changed all the same, and that cannot be undone.
const maxCopied = 64 << 20

// keeping is what is kept of one change, so that it can be undone. It implements [vfs.Keep]. Only the goroutine of the change uses it, but
// for a span, whose writes wait for each other where it begins.
type keeping struct {
	host   *Host
	row    history.Row
	parts  []history.Row // of a change of many paths, instead of row
	group  *undoing      // of an undo; nil for any other change
	links  atomic.Bool
	linked atomic.Bool

	reserved atomic.Int64 // bytes, for copies; see history.Journal.Reserve
	flushed  sync.Once
}

// undoing is the undo that a change is a part of: its changes are one entry.
type undoing struct {
	entry   int64 // the number of the first; 0 before it
	rows    int   // that it has made
	holders []int64
	turn    string
	release func() // its entry; nil before it has one
}

func (u *undoing) end() {
	if u.release != nil {
		u.release()
	}
}

type undoingKey struct{}

// keeping returns what keeps what op displaces, or nil if that is not kept.
func (h *Host) keeping(ctx context.Context, op membrane.Op) *keeping {
	if h.past == nil || h.record == nil {
		return nil
	}
	k := &keeping{host: h, row: history.Row{AtMs: time.Now().UnixMilli(), Turn: op.Turn(), Op: op.Kind.String(), Path: op.Path, To: op.To}}
	if k.group, _ = ctx.Value(undoingKey{}).(*undoing); k.group != nil {
		k.row.Undoes, k.row.Turn, k.row.Holders = true, k.group.turn, k.group.holders
	}
	if k.row.Holders == nil {
		h.mu.Lock()
		for g := h.residents.byMeter[op.By()]; g != nil; g = g.parent {
			k.row.Holders = append(k.row.Holders, g.id)
		}
		h.mu.Unlock()
	}
	if len(k.row.Holders) == 0 {
		return nil // the host's own
	}
	return k
}

// Near implements [vfs.Keep].
func (k *keeping) Near(mount uint64) bool { return k.host.past.Shelf().Near(mount) }

// Link implements [vfs.Keep]. Without a link what is displaced is lost to history, and the change is made all the same.
func (k *keeping) Link(link func(fd int, name string) error) {
	if !k.links.Load() {
		return
	}
	shelf := k.host.past.Shelf()
	if k.linked.Swap(false) {
		shelf.Remove(k.row.Kept)
	}
	if shelf.Link(k.row.Kept, link) == nil {
		k.linked.Store(true)
	}
}

// extra admits a look at a tree that a call of the same tree waits for: it has a slot in the bulkhead there.
type extra struct{}

func (extra) UnderWay() bool { return true }

// ready notes what is there before the change, of which the store says s, and copies it if the store does not keep it.
func (k *keeping) ready(ctx context.Context, op membrane.Op, s vfs.Staged) {
	h, r := k.host, &k.row
	ctx = vfs.WithCall(context.WithoutCancel(ctx), vfs.Call{Batch: extra{}})
	switch op.Kind {
	case membrane.OpChange:
		k.readyParts(ctx, s.Parts)
		return
	case membrane.OpCreate:
		r.Now = history.State{Kind: vfs.FileKind, Version: hex.EncodeToString(emptySum[:])}
		return
	case membrane.OpCopy:
		if n := len(s.Parts); 0 < n && n <= maxUndone {
			k.readyParts(ctx, s.Parts)
			return
		}
		r.Now = history.State{Kind: vfs.DirKind}
		return
	case membrane.OpMkdir:
		r.Now = history.State{Kind: vfs.DirKind}
		return
	case membrane.OpSymlink:
		r.Now = history.State{Kind: vfs.LinkKind}
		return
	case membrane.OpRename:
		if r.Outside = op.To == ""; r.Outside {
			return
		}
		r.Now = h.look(ctx, op.Path)
		r.Was = h.look(ctx, op.To)
	case membrane.OpReplace:
		if r.Outside = s.Content == nil; r.Outside {
			return
		}
		r.Now = history.State{Kind: vfs.FileKind, Size: s.Content.Size(), Version: s.Content.Version().String()}
		r.Was = was(s.Was)
		if r.Was.Absent() && s.Grows.Nodes == 0 {
			r.Was = h.look(ctx, op.Path)
		}
	default:
		if r.Was = was(s.Was); r.Was.Kind != vfs.FileKind {
			r.Was = h.look(ctx, op.Path)
		}
	}
	if r.Was.Kind != vfs.FileKind || op.Kind == membrane.OpAttributes {
		return
	}
	if s.Keeps {
		r.Kept = h.past.Shelf().Name(true)
		k.links.Store(true)
		return
	}
	k.copy(ctx, r)
}

var emptySum = sha256.Sum256(nil)

func was(i vfs.Info) history.State {
	if i.Kind != vfs.FileKind {
		return history.State{}
	}
	return history.State{Kind: i.Kind, Size: i.Size, Modified: i.ModifiedMs, Exec: i.Exec}
}

// look returns what is at path now; nothing if that cannot be found out.
func (h *Host) look(ctx context.Context, path string) history.State {
	n, err := vfs.WalkLink(ctx, h.root, path)
	if err != nil {
		return history.State{}
	}
	defer n.Close()
	s, err := history.StateOf(ctx, n, false)
	if err != nil {
		return history.State{}
	}
	return s
}

// copy copies the file of r to the shelf, if it is not too large and there is room.
func (k *keeping) copy(ctx context.Context, r *history.Row) {
	h := k.host
	n, err := vfs.WalkLink(ctx, h.root, r.Place())
	if err != nil {
		return
	}
	defer n.Close()
	f, ok := n.(vfs.File)
	if !ok {
		return
	}
	c, err := vfs.Open(ctx, f)
	if err != nil {
		return
	}
	defer c.Close()
	size := c.Size()
	if size > maxCopied || !k.reserve(r.Top(), size) {
		return
	}
	name, lasting := h.past.Shelf().Name(false), h.places == nil || h.places.Lasting(r.Place())
	if h.past.Shelf().Copy(ctx, name, c, lasting) == nil {
		r.Kept, r.Bytes = name, size
	}
}

// reserve takes room for a copy. What has ended may not be counted yet.
func (k *keeping) reserve(top, bytes int64) bool {
	past := k.host.past
	ok := past.Reserve(top, bytes)
	if !ok {
		k.flushed.Do(func() { _ = past.Flush() }) // on an error there is no room
		if ok = past.Reserve(top, bytes); !ok {
			past.Crowded(top)
			return false
		}
	}
	k.reserved.Add(bytes)
	return true
}

// free gives the room for copies back.
func (k *keeping) free() {
	if n := k.reserved.Swap(0); n > 0 {
		k.host.past.Free(k.row.Top(), n)
	}
}

// rows returns the rows of the change.
func (k *keeping) rows() []history.Row {
	if k.parts != nil {
		return k.parts
	}
	return []history.Row{k.row}
}

// intend begins the intent e, with the rows of k if k is not nil.
func (h *Host) intend(e record.Entry, k *keeping) *record.Intent {
	if k == nil {
		return h.record.Intend(e)
	}
	rows := k.rows()
	if k.group != nil {
		for i := range rows {
			rows[i].Entry = k.group.entry
		}
	}
	return h.record.IntendWith(e, func(tx *database.Tx, id int64) error {
		for i := range rows {
			if err := h.past.Begin(tx, id, &rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// ended returns what notes how the change with the number id ended, in the transaction of the outcome. It may be nil.
func (k *keeping) ended(id int64, err error, also func(*database.Tx) error) func(*database.Tx) error {
	if k == nil {
		return also
	}
	h, rows := k.host, k.rows()
	if err != nil {
		k.forget()
		return both(also, func(tx *database.Tx) error { return h.past.Drop(tx, id) })
	}
	if g := k.group; g != nil {
		if g.entry == 0 {
			g.entry, g.release = id, h.past.HoldOwn(k.row.Top(), id)
		}
		g.rows += len(rows)
	}
	if k.linked.Load() { // it may have grown until it was displaced
		rows[0].Bytes, _, _ = h.past.Shelf().Kept(rows[0].Kept)
	}
	return both(also, func(tx *database.Tx) error {
		tx.OnCommit(k.free)
		for i := range rows {
			r := &rows[i]
			if err := h.past.End(tx, id, r, r.Now, r.Bytes, r.Kept != "" && (!k.links.Load() || k.linked.Load())); err != nil {
				return err
			}
		}
		return h.past.Bound(tx, &rows[0])
	})
}

// forget removes what was kept of a change that was not made.
func (k *keeping) forget() {
	k.free()
	for _, r := range k.rows() {
		if r.Kept != "" {
			k.host.past.Shelf().Remove(r.Kept)
		}
	}
}

// settling returns what notes in the journal how e ended, during which the last host was killed.
func (h *Host) settling(ctx context.Context, e record.Numbered, r record.Result) func(*database.Tx) error {
	if h.past == nil {
		return nil
	}
	var is history.State
	if n, err := vfs.WalkLink(ctx, h.root, string(e.Path)); err == nil {
		info, err := n.Stat(ctx)
		is, _ = history.StateOf(ctx, n, err == nil && info.Size <= maxSettled) // what cannot be found out is not known
		n.Close()
	}
	return func(tx *database.Tx) error {
		return h.past.Settle(tx, e.Number, e.Op == membrane.OpChange.String(), r == record.Done, r != record.Unknown, is)
	}
}

func both(a, b func(*database.Tx) error) func(*database.Tx) error {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(tx *database.Tx) error {
		if err := a(tx); err != nil {
			return err
		}
		return b(tx)
	}
}

// left notes what a change of attributes, a link, or a directory that was made is now. Only then is it known.
func (k *keeping) left(op membrane.Op) {
	if op.Kind == membrane.OpCopy && k.parts != nil {
		k.leftParts()
		return
	}
	switch op.Kind {
	case membrane.OpRename: // between two stores a file is copied, and gets another time
		if is := k.host.look(context.Background(), op.To); !k.row.Outside && is.Kind == vfs.FileKind && k.row.Now.Kind == vfs.FileKind &&
			is.Size == k.row.Now.Size && is.Modified != k.row.Now.Modified {
			k.row.Now, k.row.Late = is, true
		}
	case membrane.OpAttributes, membrane.OpMkdir, membrane.OpCopy, membrane.OpSymlink, membrane.OpWrite, membrane.OpAppend, membrane.OpTruncate:
		k.row.Now = k.host.look(context.Background(), op.Path)
	}
}
