package virtualfs

import (
	"errors"
	"strings"
	"unicode/utf8"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/diff"
)

// setPath writes a path: as text if it is UTF-8, and otherwise as raw bytes with a
// printable text.
func setPath(path string, text func(string) error, raw func([]byte) error) error {
	if utf8.ValidString(path) {
		return text(path)
	}
	return errors.Join(text(vfs.Printable(path)), raw([]byte(path)))
}

// pathOf reads what setPath wrote.
func pathOf(text func() (string, error), raw func() ([]byte, error)) (string, error) {
	if b, err := raw(); err != nil || len(b) > 0 {
		return string(b), err
	}
	return text()
}

func setState(s diff.State, make func() (schema.State, error)) error {
	w, err := make()
	if err != nil {
		return err
	}
	switch s.Kind {
	case vfs.Other:
		w.SetAbsent()
	case vfs.FileKind:
		f, err := w.NewFile()
		if err != nil {
			return err
		}
		f.SetExecutable(s.Exec)
		if s.Version.IsZero() {
			return nil
		}
		return f.SetVersion(s.Version[:])
	case vfs.DirKind:
		w.SetDirectory()
	case vfs.LinkKind:
		return w.SetSymlink([]byte(s.Target))
	default:
		w.SetOther()
	}
	return nil
}

func state(w schema.State, err error) (diff.State, error) {
	if err != nil {
		return diff.State{}, err
	}
	switch w.Which() {
	case schema.State_Which_absent:
		return diff.State{}, nil
	case schema.State_Which_file:
		f, err := w.File()
		if err != nil {
			return diff.State{}, err
		}
		b, err := f.Version()
		if err != nil {
			return diff.State{}, err
		}
		v, err := wire.Version(b)
		return diff.State{Kind: vfs.FileKind, Version: v, Exec: f.Executable()}, err
	case schema.State_Which_directory:
		return diff.State{Kind: vfs.DirKind}, nil
	case schema.State_Which_symlink:
		target, err := w.Symlink()
		return diff.State{Kind: vfs.LinkKind, Target: string(target)}, err
	}
	return diff.State{Kind: diff.Foreign}, nil
}

func setChanges(alloc func(int32) (schema.Change_List, error), all []diff.Change) error {
	l, err := alloc(int32(len(all)))
	if err != nil {
		return err
	}
	for i, c := range all {
		if err := setChange(l.At(i), c); err != nil {
			return err
		}
	}
	return nil
}

func setChange(w schema.Change, c diff.Change) error {
	w.SetKind(schema.Change_KindFromString(string(c.Kind)))
	return errors.Join(
		setPath(c.Path, w.SetPath, w.SetRawPath), setPath(c.From, w.SetRenamedFrom, w.SetRawFrom),
		setState(c.Was, w.NewWas), setState(c.Is, w.NewNow), w.SetText(strings.ToValidUTF8(c.Text, "\uFFFD")), w.SetLacks(c.Lacks),
	)
}

// Change reads a change in results.
func Change(w schema.Change) (c diff.Change, err error) {
	c.Kind = diff.Kind(w.Kind().String())
	if c.Path, err = pathOf(w.Path, w.RawPath); err != nil {
		return c, err
	}
	if c.From, err = pathOf(w.RenamedFrom, w.RawFrom); err != nil {
		return c, err
	}
	if c.Was, err = state(w.Was()); err != nil {
		return c, err
	}
	if c.Is, err = state(w.Now()); err != nil {
		return c, err
	}
	if c.Text, err = w.Text(); err != nil {
		return c, err
	}
	c.Lacks, err = w.Lacks()
	return c, err
}

func setSkipped(alloc func(int32) (schema.Skipped_List, error), all []operator.Skipped) error {
	l, err := alloc(int32(len(all)))
	if err != nil {
		return err
	}
	for i, s := range all {
		w := l.At(i)
		if err := errors.Join(setPath(s.Path, w.SetPath, w.SetRawPath), w.SetWhy(s.Why)); err != nil {
			return err
		}
	}
	return nil
}

// Skipped reads a skipped path in results.
func Skipped(w schema.Skipped) (s operator.Skipped, err error) {
	if s.Path, err = pathOf(w.Path, w.RawPath); err != nil {
		return s, err
	}
	s.Why, err = w.Why()
	return s, err
}

func setConflict(w schema.Conflict, c diff.Conflict) error {
	return errors.Join(setPath(c.Path, w.SetPath, w.SetRawPath), setState(c.Was, w.NewWas),
		setState(c.Becomes, w.NewBecomes), setState(c.Is, w.NewNow), w.SetWhy(c.Why))
}

// Conflict reads a conflict in results.
func Conflict(w schema.Conflict) (c diff.Conflict, err error) {
	if c.Path, err = pathOf(w.Path, w.RawPath); err != nil {
		return c, err
	}
	if c.Was, err = state(w.Was()); err != nil {
		return c, err
	}
	if c.Becomes, err = state(w.Becomes()); err != nil {
		return c, err
	}
	if c.Is, err = state(w.Now()); err != nil {
		return c, err
	}
	c.Why, err = w.Why()
	return c, err
}
