package wire

import (
	"bytes"
	"errors"
	"strings"

	"capnproto.org/go/capnp/v3"

	"capd/vat"
	"capd/vfs"
)

// Malformed is the error for parameters that cannot be read: a pointer leads out of the
// message, or has another type.
func Malformed(cause error) error {
	return &vfs.Error{Code: vfs.Invalid, Msg: "a parameter is malformed", Cause: cause}
}

// Path reads a path or a pattern. It answers limit if it is longer than any path can
// be, without copying it: a message may contain megabytes.
func Path(b []byte, err error) (string, error) {
	if err != nil {
		return "", Malformed(err)
	}
	if len(b) > vfs.MaxPath {
		return "", vfs.At("", vfs.CheckPathSize(string(b[:vfs.MaxPath+1])))
	}
	return string(b), nil
}

// EntryName reads one name. It answers invalid if the name is too long.
func EntryName(b []byte, err error) (string, error) {
	if err == nil && len(b) > vfs.MaxName {
		return "", vfs.CheckName(string(b[:vfs.MaxName+1]))
	}
	return Path(b, err)
}

// Param reads a parameter. A slice is the message's own memory. For a guest's texts use
// [Path].
func Param[T any](v T, err error) (T, error) {
	if err != nil {
		var none T
		return none, Malformed(err)
	}
	return v, nil
}

// CheckWhole answers tooLarge if a whole file of n bytes does not fit into one message.
func CheckWhole(n int) error {
	if n > MaxWhole {
		return vfs.Errorf(vfs.TooLarge, "%d bytes are more than the %d of one message; use stage", n, MaxWhole)
	}
	return nil
}

// CheckChunk answers tooLarge if n bytes are more than one read, write or append takes.
func CheckChunk(n int) error {
	if n > MaxChunk {
		return vfs.Errorf(vfs.TooLarge, "%d bytes are more than the %d of one call; use several, or stage", n, MaxChunk)
	}
	return nil
}

// Offset answers invalid for an offset that no file can have.
func Offset(off uint64) (int64, error) {
	if int64(off) < 0 {
		return 0, vfs.Errorf(vfs.Invalid, "an offset is past the end of any file")
	}
	return int64(off), nil
}

// heavyNames and heavyPath bound the names and the bytes of a path that is cheap to
// walk.
const heavyNames, heavyPath = 32, 1 << 10

// Pathed is parameters with a path.
type Pathed interface {
	~capnp.StructKind
	PathBytes() ([]byte, error)
}

// OnPath returns a handler that reads the path in the parameters of a call for handle.
func OnPath[S any, P Pathed, R ~capnp.StructKind](handle func(S, vat.Call[P, R], string) error) func(S, vat.Call[P, R]) error {
	return func(s S, c vat.Call[P, R]) error {
		path, err := Path(c.Params().PathBytes())
		if err != nil {
			return err
		}
		return handle(s, c, path)
	}
}

// Deep reports whether the path in parameters is expensive to walk.
func Deep[P Pathed](p P) bool {
	path, err := p.PathBytes()
	return err == nil && (len(path) > heavyPath || bytes.Count(path, []byte{'/'}) >= heavyNames)
}

// Base returns the last name of a path.
func Base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// Sound returns a check of a struct or list field; has says whether its pointer is set.
// The field is malformed if the pointer leads to something else. Otherwise it would
// read as empty, which may mean everything, or nothing.
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
