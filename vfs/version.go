package vfs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"capd/meter"
)

// Version identifies a file's content: the sha256 of all its bytes. The zero
// Version is no version.
type Version [sha256.Size]byte

// IsZero reports whether v is no version.
func (v Version) IsZero() bool { return v == Version{} }

// String returns 64 hexadecimal digits, or "" for no version.
func (v Version) String() string {
	if v.IsZero() {
		return ""
	}
	return hex.EncodeToString(v[:])
}

// ParseVersion reads what String wrote. It answers invalid.
func ParseVersion(s string) (Version, error) {
	var v Version
	if len(s) != hex.EncodedLen(len(v)) {
		return Version{}, Errorf(Invalid, "a version is 64 hexadecimal digits, as stat and every write answer it")
	}
	if _, err := hex.Decode(v[:], []byte(s)); err != nil || v.IsZero() {
		return Version{}, Errorf(Invalid, "a version is 64 hexadecimal digits, as stat and every write answer it")
	}
	return v, nil
}

// If is a condition on a change; the zero If is no condition. A change whose
// condition does not hold answers conflict and changes nothing. The check and
// the change are one step: of two writers with the same condition one wins.
type If struct {
	Absent bool    // nothing may be there
	Is     Version // a file with this content must be there
}

// IsZero reports whether c is no condition.
func (c If) IsZero() bool { return !c.Absent && c.Is.IsZero() }

// Check answers conflict when c does not hold for a place where there is
// nothing (exists false) or a file whose version is have.
func (c If) Check(exists bool, have Version) error {
	switch {
	case c.Absent && exists:
		return Errorf(Conflict, "it exists already; drop the condition or choose another name")
	case !c.Is.IsZero() && !exists:
		return Errorf(Conflict, "it is gone; read the directory again")
	case !c.Is.IsZero() && have != c.Is:
		return Errorf(Conflict, "its content changed since that version; read it again and redo the change")
	}
	return nil
}

// Versioner is a File that knows its version without being read, as a rule.
type Versioner interface {
	Version(ctx context.Context) (Version, error)
}

// MaxVersioned is how long a file may be, in bytes, that has a version: holes
// cost nothing to make and as much as anything else to read.
const MaxVersioned = 64 << 30

// CheckVersioned answers tooLarge for a size above [MaxVersioned].
func CheckVersioned(size int64) error {
	if size > MaxVersioned {
		return Errorf(TooLarge, "a file above %d GiB has no version; change it without a condition", MaxVersioned>>30)
	}
	return nil
}

// VersionOf returns f's version, reading f whole when it is no [Versioner]. It
// answers tooLarge for a file above [MaxVersioned].
func VersionOf(ctx context.Context, f File) (Version, error) {
	if v, ok := f.(Versioner); ok {
		return v.Version(ctx)
	}
	c, err := Open(ctx, f)
	if err != nil {
		return Version{}, err
	}
	defer c.Close()
	v, _, err := hash(ctx, c)
	return v, err
}

// hash reads c whole: its version, and how long it is. It stops when ctx ends.
func hash(ctx context.Context, c Content) (v Version, size int64, err error) {
	if err := CheckVersioned(c.Size()); err != nil {
		return Version{}, 0, err
	}
	h := sha256.New()
	r := io.NewSectionReader(c, 0, c.Size())
	for err == nil {
		if err = meter.Yield(ctx); err == nil {
			var n int64
			n, err = io.CopyN(h, r, 1<<20)
			size += n
		}
	}
	if err != io.EOF {
		return Version{}, 0, err
	}
	return Version(h.Sum(nil)), size, nil
}
