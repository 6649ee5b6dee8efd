package vfs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
)

// Version identifies a file's content: the SHA-256 of all its bytes. The zero Version
// means none.
type Version [sha256.Size]byte

// IsZero reports whether v is the zero Version.
func (v Version) IsZero() bool { return v == Version{} }

// String returns 64 hexadecimal digits, or "" for the zero Version.
func (v Version) String() string {
	if v.IsZero() {
		return ""
	}
	return hex.EncodeToString(v[:])
}

// ParseVersion parses what String returns. It answers invalid.
func ParseVersion(s string) (Version, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(Version{}) || Version(b).IsZero() {
		return Version{}, Errorf(Invalid, "a version is 64 hexadecimal digits, as stat and every write answer it")
	}
	return Version(b), nil
}

// If is a condition on a change. The zero If always holds. A change whose condition
// does not hold answers conflict and changes nothing. The check and the change are one
// step: of two writers with the same condition one wins.
type If struct {
	Absent bool    // nothing may be there
	Is     Version // there must be a file with this content

	// NoFile is a condition of a Remove: no file may be there. Who has seen a directory
	// or a link there does not remove a file that took its place meanwhile. It is for
	// the host; the wire does not have it.
	NoFile bool

	// Over is for the target of a Rename: what is there is replaced, as rename(2) does. It
	// is no condition, and may be set beside one. See [If.Displaces].
	Over bool
}

// IsZero reports whether c is no condition that only a file or nothing can meet.
func (c If) IsZero() bool { return !c.Absent && c.Is.IsZero() }

// Check answers conflict when c does not hold. exists says whether there is a file, and
// have is its version.
func (c If) Check(exists bool, have Version) error {
	switch {
	case c.Absent && exists:
		return Errorf(Conflict, "it exists already; drop the condition or choose another name")
	case c.NoFile && exists:
		return Errorf(Conflict, "a file is there now; look at it first")
	case !c.Is.IsZero() && !exists:
		return Errorf(Conflict, "it is gone; read the directory again")
	case !c.Is.IsZero() && have != c.Is:
		return Errorf(Conflict, "its content changed since that version; read it again and redo the change")
	}
	return nil
}

// Displaces returns the error for a [Dir].Rename of a node of one kind to where a node of the
// kind there is, under the condition c on the target, and nil if it may take that place.
// With Over a file or a link replaces a file or a link, and a directory replaces an empty
// directory; the store answers notEmpty. Without it only a file may be replaced, whose version
// c has, and not by a directory.
func (c If) Displaces(there, by Kind) error {
	switch {
	case c.Absent, !c.Over && (c.Is.IsZero() || there != FileKind || by == DirKind):
		return Exists
	case there == Other:
		return NotRegular
	case there == DirKind && by != DirKind:
		return IsDir
	case there != DirKind && by == DirKind:
		return NotDir
	case there != FileKind && !c.Is.IsZero():
		return ErrNoVersion
	}
	return nil
}

// Versioner is a File that usually knows its version without being read.
type Versioner interface {
	Version(ctx context.Context) (Version, error)
}

// MaxVersioned is the size, in bytes, of the largest file that has a version. There is a
// bound because a huge file of holes costs nothing to make, but as much to read as data.
const MaxVersioned = 64 << 30

// CheckVersioned answers tooLarge for a size above [MaxVersioned].
func CheckVersioned(size int64) error {
	if size > MaxVersioned {
		return Errorf(TooLarge, "a file above %d GiB has no version; change it without a condition", MaxVersioned>>30)
	}
	return nil
}

// VersionOf returns f's version. It reads all of f when f is not a [Versioner]. It
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
	v, _, err := Hash(ctx, c)
	return v, err
}

// Verified reads a content, and compares it with a version at the end.
type Verified struct {
	Differs bool // the content was read to its end, and has another version

	r     io.Reader
	sum   hash.Hash
	want  Version
	wrong error
}

// NewVerified returns a reader of r. It ends in the error wrong unless all of r has the
// version want.
func NewVerified(r io.Reader, want Version, wrong error) *Verified {
	return &Verified{r: r, sum: sha256.New(), want: want, wrong: wrong}
}

// Read implements io.Reader.
func (v *Verified) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.sum.Write(p[:n])
	if err == io.EOF && Version(v.sum.Sum(nil)) != v.want {
		v.Differs = true
		return n, v.wrong
	}
	return n, err
}

// Hash reads all of c and returns its version and size. It stops when ctx ends.
func Hash(ctx context.Context, c Sized) (v Version, size int64, err error) {
	if err := CheckVersioned(c.Size()); err != nil {
		return Version{}, 0, err
	}
	h := sha256.New()
	size, err = Copy(ctx, h, c)
	if err != nil && err != io.ErrUnexpectedEOF {
		return Version{}, 0, err
	}
	return Version(h.Sum(nil)), size, nil
}
