package file

import (
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

func (s *server) setAttributes(c vat.Call[schema.File_setAttributes_Params, schema.File_setAttributes_Results]) error {
	a, err := attributes(c.Params())
	if err != nil {
		return s.at(err)
	}
	cond, err := s.cond(c.Params())
	if err != nil {
		return err
	}
	return s.at(vfs.SetAttributes(c.Context(), s.file, a, cond))
}

// attributes reads what is to be set.
func attributes(p schema.File_setAttributes_Params) (a vfs.Attributes, err error) {
	w, err := wire.Sound[schema.Attributes](p.HasAttributes())(p.Attributes())
	if err != nil {
		return a, err
	}
	switch e := w.Executable(); e.Which() {
	case schema.Attributes_executable_Which_keep:
	case schema.Attributes_executable_Which_set:
		a.Exec = new(e.Set())
	default:
		return a, errUnknownAttribute
	}
	switch m := w.Modified(); m.Which() {
	case schema.Attributes_modified_Which_keep:
	case schema.Attributes_modified_Which_ms:
		a.ModifiedMs = new(m.Ms())
	default:
		return a, errUnknownAttribute
	}
	return a, nil
}

var errUnknownAttribute = vfs.Errorf(vfs.Invalid, "this host does not know what is to be set")
