package wire

import (
	"errors"
	"strings"
	"unicode/utf8"

	schema "capd/capnp"
	"capd/vfs"
	"capd/vfs/diff"
)

// setPath writes a name or a path: as text if it is UTF-8, and otherwise as raw bytes
// with a printable text.
func setPath(path string, text func(string) error, raw func([]byte) error) error {
	if utf8.ValidString(path) {
		return text(path)
	}
	return errors.Join(text(vfs.Printable(path)), raw([]byte(path)))
}

// pathAt reads what setPath wrote.
func pathAt(text func() (string, error), raw func() ([]byte, error)) (string, error) {
	if b, err := raw(); err != nil || len(b) > 0 {
		return string(b), err
	}
	return text()
}

// setState writes s to a struct that it allocates with make.
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

// state reads what setState wrote.
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
		v, err := Version(f.Version())
		return diff.State{Kind: vfs.FileKind, Version: v, Exec: f.Executable()}, err
	case schema.State_Which_directory:
		return diff.State{Kind: vfs.DirKind}, nil
	case schema.State_Which_symlink:
		target, err := w.Symlink()
		return diff.State{Kind: vfs.LinkKind, Target: string(target)}, err
	}
	return diff.State{Kind: diff.Foreign}, nil
}

// version is Version for a field.
// SetChange writes c, apart from its contents. What is not UTF-8 in its texts becomes
// U+FFFD.
func SetChange(w schema.Change, c diff.Change) error {
	w.SetKind(schema.Change_KindFromString(string(c.Kind)))
	return errors.Join(
		setPath(c.Path, w.SetPath, w.SetRawPath), setPath(c.From, w.SetRenamedFrom, w.SetRawFrom),
		setState(c.Was, w.NewWas), setState(c.Is, w.NewNow), w.SetText(strings.ToValidUTF8(c.Text, "\uFFFD")), w.SetLacks(c.Lacks),
	)
}

// Change reads what SetChange wrote.
func Change(w schema.Change) (c diff.Change, err error) {
	text, node := Keep[string](&err), Keep[diff.State](&err)
	c = diff.Change{
		Kind: diff.Kind(w.Kind().String()),
		Path: text(pathAt(w.Path, w.RawPath)), From: text(pathAt(w.RenamedFrom, w.RawFrom)),
		Was: node(state(w.Was())), Is: node(state(w.Now())),
		Text: text(w.Text()), Lacks: text(w.Lacks()),
	}
	return c, err
}

// ChangeSize estimates how many bytes of a message SetChange needs for c.
func ChangeSize(c diff.Change) int {
	return changeBytes + 2*len(c.Path) + 2*len(c.From) + len(c.Text) + len(c.Lacks) + len(c.Was.Target) + len(c.Is.Target)
}

// SetSkipped writes s.
func SetSkipped(w schema.Skipped, s diff.Skipped) error {
	return errors.Join(setPath(s.Path, w.SetPath, w.SetRawPath), w.SetWhy(s.Why))
}

// Skipped reads what SetSkipped wrote.
func Skipped(w schema.Skipped) (s diff.Skipped, err error) {
	text := Keep[string](&err)
	s = diff.Skipped{Path: text(pathAt(w.Path, w.RawPath)), Why: text(w.Why())}
	return s, err
}

// SkippedSize estimates how many bytes of a message SetSkipped needs for s.
func SkippedSize(s diff.Skipped) int { return skippedBytes + 2*len(s.Path) + len(s.Why) }

// SetConflict writes c.
func SetConflict(w schema.Conflict, c diff.Conflict) error {
	return errors.Join(setPath(c.Path, w.SetPath, w.SetRawPath), setState(c.Was, w.NewWas),
		setState(c.Becomes, w.NewBecomes), setState(c.Is, w.NewNow), w.SetWhy(c.Why))
}

// Conflict reads what SetConflict wrote.
func Conflict(w schema.Conflict) (c diff.Conflict, err error) {
	text, node := Keep[string](&err), Keep[diff.State](&err)
	c = diff.Conflict{
		Path: text(pathAt(w.Path, w.RawPath)), Why: text(w.Why()),
		Was: node(state(w.Was())), Becomes: node(state(w.Becomes())), Is: node(state(w.Now())),
	}
	return c, err
}

// ConflictSize estimates how many bytes of a message SetConflict needs for c.
func ConflictSize(c diff.Conflict) int {
	return conflictBytes + 2*len(c.Path) + len(c.Why) + len(c.Was.Target) + len(c.Becomes.Target) + len(c.Is.Target)
}
