package wire

import (
	"errors"

	schema "capd/capnp"
	"capd/vfs"
	"capd/vfs/step"
)

// SetStep fills in a step of a change.
func SetStep(w schema.Step, s step.Step) error {
	if s.Exec != nil {
		return vfs.Errorf(vfs.Unsupported, "a remote host knows no such step; set the attributes of the file afterwards")
	}
	err := errors.Join(w.SetPath(s.Path), SetIf(s.If, w.NewIfVersion))
	switch s.Verb {
	case step.Put:
		return errors.Join(err, w.SetPut(s.Data))
	case step.Edit:
		w.SetEdit()
		return errors.Join(err, SetEdits(w.Edit(), s.Edits))
	case step.Remove:
		w.SetRemove()
	case step.Mkdir:
		w.SetCreateDir()
	case step.Move:
		w.SetMove()
		err = errors.Join(err, w.Move().SetTo(s.To))
		if !s.IfTarget.Is.IsZero() {
			err = errors.Join(err, w.Move().SetOver(s.IfTarget.Is[:]))
		}
	}
	return err
}

// Step reads what SetStep wrote. Its texts are the message's own memory.
func Step(w schema.Step) (s step.Step, err error) {
	s.Path, err = Param(w.Path())
	s.If = Keep[vfs.If](&err)(If(w))
	switch w.Which() {
	case schema.Step_Which_put:
		s.Data = Keep[[]byte](&err)(Param(w.Put()))
	case schema.Step_Which_edit:
		s.Verb, s.Edits = step.Edit, nil
		edits, late := Edits(w.Edit())
		s.Edits, err = edits, errors.Join(err, late)
	case schema.Step_Which_remove:
		s.Verb = step.Remove
	case schema.Step_Which_createDir:
		s.Verb = step.Mkdir
	case schema.Step_Which_move:
		s.Verb = step.Move
		s.To = Keep[string](&err)(Param(w.Move().To()))
		s.IfTarget.Is = Keep[vfs.Version](&err)(Version(Param(w.Move().Over())))
	default:
		err = vfs.Errorf(vfs.Invalid, "this host does not know that kind of step")
	}
	return s, err
}
