package wire

import (
	"cmp"
	"errors"

	"capnproto.org/go/capnp/v3"

	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// SetPast writes p.
func SetPast(w schema.Past, p vfs.Past) error {
	w.SetId(uint64(p.ID))
	w.SetAtMs(p.AtMs)
	w.SetUndoes(p.Undoes)
	w.SetUndoneBy(uint64(p.UndoneBy))
	w.SetOutside(p.Outside)
	w.SetLost(p.Lost)
	w.SetMore(uint32(p.More))
	return errors.Join(w.SetTurn(p.Turn), SetAll(p.Changes, w.NewChanges, setChanged))
}

func setChanged(w schema.Past_Changed, c vfs.PastChange) error {
	w.SetType(types[c.Kind])
	w.SetExisted(c.Existed)
	w.SetBytesBefore(uint64(c.BytesBefore))
	w.SetBytesThen(uint64(c.BytesThen))
	return errors.Join(w.SetOp(c.Op), setPath(c.Path, w.SetPath, w.SetRawPath), setPath(c.To, w.SetTo, w.SetRawTo),
		setVersion(c.Before, w.SetBefore), setVersion(c.After, w.SetThen))
}

func setVersion(v vfs.Version, set func([]byte) error) error {
	if v.IsZero() {
		return nil
	}
	return set(v[:])
}

// Past reads what SetPast wrote.
func Past(w schema.Past) (p vfs.Past, err error) {
	p = vfs.Past{ID: int64(w.Id()), AtMs: w.AtMs(), Undoes: w.Undoes(), UndoneBy: int64(w.UndoneBy()), Outside: w.Outside(), Lost: w.Lost(), More: int(w.More())}
	p.Turn = Keep[string](&err)(w.Turn())
	p.Changes = Keep[[]vfs.PastChange](&err)(All(changed)(w.Changes()))
	return p, err
}

func changed(w schema.Past_Changed) (c vfs.PastChange, err error) {
	c = vfs.PastChange{Existed: w.Existed(), BytesBefore: int64(w.BytesBefore()), BytesThen: int64(w.BytesThen()), Kind: KindOf(w.Type())}
	c.Op = Keep[string](&err)(w.Op())
	c.Path = Keep[string](&err)(pathAt(w.Path, w.RawPath))
	c.To = Keep[string](&err)(pathAt(w.To, w.RawTo))
	c.Before = Keep[vfs.Version](&err)(Version(w.Before()))
	c.After = Keep[vfs.Version](&err)(Version(w.Then()))
	return c, err
}

// SetUndo writes which changes are undone.
func SetUndo(w schema.Undoing, u vfs.Undo) error {
	switch {
	case u.Last != 0:
		w.SetLast(uint32(u.Last))
	case u.Turn != "":
		return w.SetTurn(u.Turn)
	case u.SinceMs != 0:
		w.SetSinceMs(u.SinceMs)
	default:
		w.SetId(uint64(u.ID))
	}
	return nil
}

// Undo reads what SetUndo wrote. What names nothing is invalid where it is used.
func Undo(w schema.Undoing) (u vfs.Undo, err error) {
	switch w.Which() {
	case schema.Undoing_Which_id:
		u.ID = int64(w.Id())
	case schema.Undoing_Which_last:
		u.Last = int(w.Last())
	case schema.Undoing_Which_turn:
		u.Turn, err = w.Turn()
	case schema.Undoing_Which_sinceMs:
		u.SinceMs = w.SinceMs()
	}
	return u, err
}

// SetUndoStep writes s.
func SetUndoStep(w schema.UndoStep, s vfs.UndoStep) error {
	err := errors.Join(w.SetOp(s.Op), setPath(s.Path, w.SetPath, w.SetRawPath), setPath(s.To, w.SetTo, w.SetRawTo))
	if s.Err == nil {
		return err
	}
	return errors.Join(err, w.SetError(errorText(s.Err)))
}

// UndoStep reads what SetUndoStep wrote.
func UndoStep(w schema.UndoStep) (s vfs.UndoStep, err error) {
	s.Op = Keep[string](&err)(w.Op())
	s.Path = Keep[string](&err)(pathAt(w.Path, w.RawPath))
	s.To = Keep[string](&err)(pathAt(w.To, w.RawTo))
	if why := Keep[string](&err)(w.Error()); why != "" {
		s.Err = vfs.At(s.Path, Decode(&vat.Exception{Reason: why}))
	}
	return s, err
}

// SetUndone writes the entries and the steps of u.
func SetUndone(u vfs.Undone, entries func(int32) (capnp.UInt64List, error), steps func(int32) (schema.UndoStep_List, error)) error {
	ids, err := entries(int32(len(u.Entries)))
	if err != nil {
		return err
	}
	for i, id := range u.Entries {
		ids.Set(i, uint64(id))
	}
	return SetAll(u.Steps, steps, SetUndoStep)
}

// Undone reads what SetUndone wrote. id is that of the undo.
func Undone(id uint64, ids capnp.UInt64List, err error) func(schema.UndoStep_List, error) (vfs.Undone, error) {
	return func(steps schema.UndoStep_List, late error) (u vfs.Undone, _ error) {
		if err := cmp.Or(err, late); err != nil {
			return u, err
		}
		u.ID = int64(id)
		for i := range ids.Len() {
			u.Entries = append(u.Entries, int64(ids.At(i)))
		}
		u.Steps, err = All(UndoStep)(steps, nil)
		return u, err
	}
}

// PastPage reads a page of history.
func PastPage(entries schema.Past_List, err error, more bool, since int64) (page vfs.PastPage, _ error) {
	page.More, page.SinceMs = more, since
	if page.Entries, err = All(Past)(entries, err); err != nil {
		return page, err
	}
	for i, e := range page.Entries {
		if e.ID <= 0 || i > 0 && e.ID >= page.Entries[i-1].ID {
			return page, vfs.Errorf(vfs.Corrupt, "the host answered a history that is not in order")
		}
	}
	if more && len(page.Entries) == 0 {
		return page, vfs.Errorf(vfs.Corrupt, "the host answered a page of history without entries, and says that there are more")
	}
	return page, nil
}
