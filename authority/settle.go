package authority

import (
	"context"
	"slices"

	"capd/database"
	"capd/record"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Settle finds out how the changes ended during which the last host was killed, and writes that to the record. Nobody is
// served yet. What is at a path now says nothing about a change after which the path was changed again. Settle also answers what
// has kept Open from reading what was revoked; then nobody can be served.
func (h *Host) Settle(ctx context.Context) error {
	if h.unready != nil {
		return h.unready
	}
	if h.record == nil || len(h.record.Unsettled()) == 0 {
		return nil
	}
	open := h.record.Unsettled()
	later, err := intents(ctx, h.db, open[0].Number)
	if err != nil {
		return err
	}
	root := membrane.Guarded(h.root, nil, membrane.Guard{Bulkhead: h.bulkhead})
	for _, e := range open {
		r := h.settled(ctx, root, e, later)
		var also func(*database.Tx) error
		if r == record.Done {
			also = adding(settled(&e.Entry))
		}
		if err := h.record.Settle(e, r, both(also, h.settling(ctx, e, r))); err != nil {
			return err
		}
	}
	return nil
}

// settled finds out how e ended. later has all intents from the first on that has not ended.
func (h *Host) settled(ctx context.Context, root vfs.Dir, e record.Numbered, later []record.Numbered) record.Result {
	if h.acts != nil {
		if r, ok := h.acts(ctx, e); ok {
			return r
		}
	}
	if h.places != nil && !h.lasts(&e.Entry) {
		return record.Unknown // it ended with the host, whatever was done
	}
	r := outcome(ctx, root, &e.Entry)
	if seen := r == record.Done && e.Version != ""; !seen && slices.ContainsFunc(later, e.Precedes) {
		return record.Unknown
	}
	return r
}

// lasts reports whether all that e changes outlives the process.
func (h *Host) lasts(e *record.Entry) bool {
	if e.Op != membrane.OpChange.String() {
		return h.places.Lasting(string(e.Path))
	}
	return !slices.ContainsFunc(e.Changes, func(c record.Change) bool {
		return !h.places.Lasting(vfs.Join(string(e.Path), string(c.Path)))
	})
}

// intents returns those from the number from on.
func intents(ctx context.Context, db *database.DB, from int64) (all []record.Numbered, err error) {
	for e, err := range record.Entries(ctx, db, record.Query{From: from, Kinds: []record.Kind{record.Intended}}) {
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// maxSettled is the size, in bytes, of the largest file that is read to find out whether it was put.
const maxSettled = 64 << 20

// outcome finds out whether the change that e was to be was made, from what is at its paths now.
func outcome(ctx context.Context, root vfs.Dir, e *record.Entry) record.Result {
	if e.Op == membrane.OpChange.String() {
		return together(ctx, root, e)
	}
	n, err := vfs.WalkLink(ctx, root, string(e.Path))
	missing := vfs.CodeOf(err) == vfs.NotFound
	if err != nil && !missing {
		return record.Unknown
	}
	if !missing {
		defer n.Close()
	}
	switch e.Op {
	case membrane.OpCopy.String():
		if missing {
			return record.NotDone
		}
		return copied(ctx, root, e)
	case membrane.OpCreate.String(), membrane.OpMkdir.String(), membrane.OpSymlink.String():
		return doneIf(!missing)
	case membrane.OpRemove.String():
		return doneIf(missing)
	case membrane.OpRename.String():
		return renamed(ctx, root, e, missing)
	case membrane.OpAttributes.String():
		return record.Unknown // the record does not have what was set
	}
	f, ok := n.(vfs.File)
	switch {
	case missing && e.Op == membrane.OpReplace.String() && e.Nodes > 0:
		return record.NotDone // there was none before either
	case !ok:
		return record.Unknown
	}
	return written(ctx, f, e)
}

// together is outcome for a change of many paths, which is done or not done as a whole.
func together(ctx context.Context, root vfs.Dir, e *record.Entry) record.Result {
	done, not := true, true
	for _, c := range e.Changes {
		kind, version, err := stateAt(ctx, root, vfs.Join(string(e.Path), string(c.Path)))
		if err != nil {
			return record.Unknown
		}
		done = done && kind == c.Kind && version == c.Version
		not = not && kind == c.WasKind && version == c.Was
	}
	if done == not {
		return record.Unknown
	}
	return doneIf(done)
}

// copied is outcome for a copy of a directory, which is there. Where it could not be placed at once, a kill leaves a part of it.
func copied(ctx context.Context, root vfs.Dir, e *record.Entry) record.Result {
	for _, c := range e.Changes {
		n, err := vfs.WalkLink(ctx, root, vfs.Join(string(e.Path), string(c.Path)))
		if err != nil {
			return record.Unknown
		}
		n.Close()
	}
	if len(e.Changes) < e.Paths {
		return record.Unknown // the record has the first ones alone
	}
	return record.Done
}

// stateAt returns what is at path as the record has it.
func stateAt(ctx context.Context, root vfs.Dir, path string) (kind, version string, err error) {
	n, err := vfs.WalkLink(ctx, root, path)
	if vfs.CodeOf(err) == vfs.NotFound {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	defer n.Close()
	var v vfs.Version
	if f, ok := n.(vfs.File); ok {
		if v, err = vfs.VersionOf(ctx, f); err != nil {
			return "", "", err
		}
	}
	kind, version = stateText(vfs.KindOf(n), v)
	return kind, version, nil
}

func doneIf(done bool) record.Result {
	if done {
		return record.Done
	}
	return record.NotDone
}

// renamed is outcome for a rename. gone says that the source is not there.
func renamed(ctx context.Context, root vfs.Dir, e *record.Entry, gone bool) record.Result {
	if !gone {
		return record.NotDone
	}
	if e.To == "" { // the target is in another guest's tree
		return record.Done
	}
	to, err := vfs.WalkLink(ctx, root, string(e.To))
	if err != nil {
		return record.Unknown
	}
	to.Close()
	return record.Done
}

// written is outcome for a change of the content of f.
func written(ctx context.Context, f vfs.File, e *record.Entry) record.Result {
	info, err := f.Stat(ctx)
	if err != nil {
		return record.Unknown
	}
	if e.Version != "" && info.Size == e.Size && info.Size <= maxSettled {
		if v, err := vfs.VersionOf(ctx, f); err == nil && v.String() == e.Version {
			return record.Done
		}
	}
	if e.Was != nil && *e.Was == (record.Was{Size: info.Size, Modified: info.ModifiedMs}) {
		return record.NotDone
	}
	return record.Unknown
}
