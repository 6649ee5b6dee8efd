package wire

import (
	"bytes"
	"errors"
	"strings"

	"capnproto.org/go/capnp/v3"

	"capd/vfs"
)

// Malformed is the error for parameters that cannot be read: a pointer that
// leads out of the message, or of another type.
func Malformed(cause error) error {
	return &vfs.Error{Code: vfs.Invalid, Msg: "a parameter is malformed", Cause: cause}
}

// Path reads a path or a pattern. It answers limit for one that is longer than any can
// be, of which nothing is copied: a message may hold megabytes.
func Path(b []byte, err error) (string, error) {
	if err != nil {
		return "", Malformed(err)
	}
	if len(b) > vfs.MaxPath {
		return "", vfs.At("", vfs.CheckPathSize(string(b[:vfs.MaxPath+1])))
	}
	return string(b), nil
}

// EntryName is Path for one name; for one that is too long it answers invalid.
func EntryName(b []byte, err error) (string, error) {
	if err == nil && len(b) > vfs.MaxName {
		return "", vfs.CheckName(string(b[:vfs.MaxName+1]))
	}
	return Path(b, err)
}

// Text passes on a text parameter of the host's own. For a guest's there is [Path].
func Text(s string, err error) (string, error) {
	if err != nil {
		return "", Malformed(err)
	}
	return s, nil
}

// Data passes on a data parameter. It is the message's own memory.
func Data(b []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, Malformed(err)
	}
	return b, nil
}

// CheckWhole answers tooLarge for a whole file of n bytes that does not go into
// one message.
func CheckWhole(n int) error {
	if n > MaxWhole {
		return vfs.Errorf(vfs.TooLarge, "%d bytes are more than the %d of one message; use stage", n, MaxWhole)
	}
	return nil
}

// CheckChunk answers tooLarge for a part of n bytes that is larger than one
// call takes.
func CheckChunk(n int) error {
	if n > MaxChunk {
		return vfs.Errorf(vfs.TooLarge, "%d bytes are more than the %d of one call; use several, or stage", n, MaxChunk)
	}
	return nil
}

// Offset answers invalid for an offset that no file has.
func Offset(off uint64) (int64, error) {
	if int64(off) < 0 {
		return 0, vfs.Errorf(vfs.Invalid, "an offset is past the end of any file")
	}
	return int64(off), nil
}

// heavyNames and heavyPath are how many names, and bytes, a path may have whose walk costs little.
const heavyNames, heavyPath = 32, 1 << 10

// Pathed is parameters with a path.
type Pathed interface {
	~capnp.StructKind
	PathBytes() ([]byte, error)
}

// Deep reports whether parameters have a path that costs much to walk.
func Deep[P Pathed](p P) bool {
	path, err := p.PathBytes()
	return err == nil && (len(path) > heavyPath || bytes.Count(path, []byte{'/'}) >= heavyNames)
}

// Base is the last name of a path.
func Base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// Help answers a help method.
func Help[R interface{ SetText(string) error }](text func(iface, method string) (string, error), iface string,
	method func() ([]byte, error), results func() (R, error)) error {
	m, err := Path(method())
	if err != nil {
		return err
	}
	t, err := text(iface, m)
	if err != nil {
		return vfs.At(m, err)
	}
	r, err := results()
	if err != nil {
		return err
	}
	return r.SetText(t)
}

// Sound passes on a struct or a list that has a pointer. One that points to
// something else is malformed, though it reads as if it were empty: which would ask
// for all where a part was meant, or take nothing away where something was.
func Sound[T interface{ IsValid() bool }](has bool) func(T, error) (T, error) {
	return func(v T, err error) (T, error) {
		if err == nil && has && !v.IsValid() {
			err = errPointer
		}
		if err != nil {
			return v, Malformed(err)
		}
		return v, nil
	}
}

var errPointer = errors.New("a pointer to something else")
