package wire

import (
	"errors"
	"math"

	schema "capd/capnp"
	"capd/vfs"
	"capd/vfs/edit"
	"capd/vfs/editing"
)

// SetEdits writes edits to parameters.
func SetEdits(p interface {
	NewEdits(n int32) (schema.Edit_List, error)
}, edits []edit.Edit) error {
	list, err := p.NewEdits(int32(len(edits)))
	if err != nil {
		return err
	}
	for i, e := range edits {
		at := list.At(i)
		at.SetAll(e.All)
		err := at.SetNew(e.New)
		if e.ByLines {
			if e.Lines.First < 0 || e.Lines.Count < 0 || e.Lines.First > math.MaxUint32 || e.Lines.Count > math.MaxUint32 {
				return vfs.Errorf(vfs.Invalid, "there is no such line")
			}
			lines, lerr := at.NewLines()
			if err = errors.Join(err, lerr); err == nil {
				lines.SetFirst(uint32(e.Lines.First))
				lines.SetCount(uint32(e.Lines.Count))
			}
		} else {
			err = errors.Join(err, at.SetOld(e.Old))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Edits reads what SetEdits wrote. Their texts are the message's own memory.
func Edits(p interface {
	Edits() (schema.Edit_List, error)
	HasEdits() bool
}) ([]edit.Edit, error) {
	list, err := Sound[schema.Edit_List](p.HasEdits())(p.Edits())
	if err != nil {
		return nil, err
	}
	if list.Len() > edit.MaxEdits {
		return nil, vfs.Errorf(vfs.Limit, "%d edits are more than the %d of one call; use several", list.Len(), edit.MaxEdits)
	}
	all := make([]edit.Edit, list.Len())
	for i := range all {
		at := list.At(i)
		e := edit.Edit{All: at.All()}
		if e.New, err = Param(at.New()); err != nil {
			return nil, err
		}
		switch at.Which() {
		case schema.Edit_Which_old:
			e.Old, err = Param(at.Old())
		case schema.Edit_Which_lines:
			var lines schema.LineRange
			lines, err = Param(at.Lines())
			e.ByLines, e.Lines = true, edit.Range{First: int(lines.First()), Count: int(lines.Count())}
		default:
			err = vfs.Errorf(vfs.Invalid, "this host does not know that kind of edit")
		}
		if err != nil {
			return nil, err
		}
		all[i] = e
	}
	return all, nil
}

// SetEdited writes what an edit has done to results that make allocates for about that many bytes.
func SetEdited(make func(bytes int) (schema.File_edit_Results, error), e editing.Result) error {
	r, err := make(len(e.Diff) + 16*len(e.Changed))
	if err != nil {
		return err
	}
	r.SetReplaced(uint32(e.Replaced))
	r.SetCut(e.Cut)
	list, err := r.NewChanged(int32(len(e.Changed)))
	if err != nil {
		return err
	}
	for i, c := range e.Changed {
		list.At(i).SetFirst(uint32(c.First))
		list.At(i).SetCount(uint32(c.Count))
	}
	return errors.Join(r.SetVersion(e.Version[:]), r.SetDiff(e.Diff))
}

// Edited reads what SetEdited wrote.
func Edited(r schema.File_edit_Results) (e editing.Result, err error) {
	e.Replaced, e.Cut = int(r.Replaced()), r.Cut()
	list, err := r.Changed()
	if err != nil {
		return e, err
	}
	for i := range list.Len() {
		e.Changed = append(e.Changed, edit.Range{First: int(list.At(i).First()), Count: int(list.At(i).Count())})
	}
	diff, err := r.Diff()
	if err != nil {
		return e, err
	}
	e.Diff = append([]byte(nil), diff...)
	e.Version, err = Version(r.Version())
	return e, err
}
