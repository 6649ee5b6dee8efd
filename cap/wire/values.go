package wire

import (
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
	"math"
	"time"
)

// Bounds on one message. They are part of the contract of the interfaces.
const (
	MaxWhole = 4 << 20   // bytes of a whole file in one message
	MaxChunk = 1 << 20   // bytes of one read, write or append
	Chunk    = 256 << 10 // bytes of one write to a sink
	Window   = 4 << 20   // unanswered bytes of a stream

	DefaultPage = 1000   // entries of a page if none are asked for
	MaxPage     = 10_000 // most entries of a page
)

// PageSize returns how many entries to answer if limit were asked for.
func PageSize(limit uint32) int {
	if limit == 0 {
		return DefaultPage
	}
	return int(min(limit, MaxPage))
}

var types = map[vfs.Kind]schema.Type{
	vfs.Other: schema.Type_other, vfs.FileKind: schema.Type_file,
	vfs.DirKind: schema.Type_directory, vfs.LinkKind: schema.Type_symlink,
}

// KindOf returns the kind for a type, or Other for an unknown type.
func KindOf(t schema.Type) vfs.Kind {
	k, _ := keyOf(types, t)
	return k
}

// SetName fills in the name in a stat, and its raw bytes if it is not UTF-8.
func SetName(s schema.Stat, name string) error { return setPath(name, s.SetName, s.SetRawName) }

// Name returns the raw name in a stat.
func Name(s schema.Stat) (string, error) { return pathAt(s.Name, s.RawName) }

// SetMissed fills in the path of a directory that a search could not list, and why.
func SetMissed(m schema.Missed, path string, why error) error {
	if err := setPath(path, m.SetName, m.SetRawName); err != nil {
		return err
	}
	return m.SetError(errorText(why))
}

// errorText returns the text of an error that results carry.
func errorText(why error) string {
	if vfs.CodeOf(why) == vfs.Internal {
		why = vfs.Errorf(vfs.Internal, "the host could not look at this")
	}
	return Encode(vfs.At("", why)).Reason
}

// Missed reads what SetMissed wrote. why has the path.
func Missed(m schema.Missed) (path string, why error, err error) {
	if path, err = pathAt(m.Name, m.RawName); err != nil {
		return "", nil, err
	}
	text, err := m.Error()
	return path, vfs.At(path, Decode(&vat.Exception{Reason: text})), err
}

// SetFoundName fills in the path of a file in which something matches.
func SetFoundName(f schema.Found, path string) error { return setPath(path, f.SetName, f.SetRawName) }

// FoundName returns the raw path of such a file.
func FoundName(f schema.Found) (string, error) { return pathAt(f.Name, f.RawName) }

// SetKind fills in the type in a stat.
func SetKind(s schema.Stat, k vfs.Kind) { s.SetType(types[k]) }

// SetInfo fills in what info says.
func SetInfo(s schema.Stat, info vfs.Info) {
	SetKind(s, info.Kind)
	s.SetSizeBytes(uint64(max(info.Size, 0)))
	s.SetModifiedMs(info.ModifiedMs)
	s.SetExecutable(info.Exec)
	s.SetLooked(true)
}

// Info reads what SetInfo wrote. It answers corrupt for a size that no file can have.
func Info(s schema.Stat) (vfs.Info, error) {
	size := int64(s.SizeBytes())
	if size < 0 {
		return vfs.Info{}, vfs.Errorf(vfs.Corrupt, "the host answered an impossible size")
	}
	return vfs.Info{Kind: KindOf(s.Type()), Size: size, ModifiedMs: s.ModifiedMs(), Exec: s.Executable()}, nil
}

// Version reads a version. No bytes are no version.
func Version(b []byte, err error) (v vfs.Version, _ error) {
	if err != nil {
		return v, err
	}
	if len(b) != 0 && copy(v[:], b) != len(b) || len(b) != 0 && len(b) != len(v) {
		return vfs.Version{}, vfs.Errorf(vfs.Invalid, "a version is %d bytes, as stat and every write answer it", len(v))
	}
	return v, nil
}

// Conditional is the parameters of a change that may have a condition.
type Conditional interface {
	IfVersion() (schema.IfVersion, error)
	HasIfVersion() bool
}

// If reads a condition. An unknown or malformed condition is invalid: to ignore it
// could overwrite what the sender wanted to keep.
func If(p Conditional) (vfs.If, error) {
	c, err := Sound[schema.IfVersion](p.HasIfVersion())(p.IfVersion())
	if err != nil {
		return vfs.If{}, err
	}
	switch c.Which() {
	case schema.IfVersion_Which_any:
		return vfs.If{}, nil
	case schema.IfVersion_Which_absent:
		return vfs.If{Absent: true}, nil
	case schema.IfVersion_Which_equals:
		v, err := Version(Param(c.Equals()))
		if err == nil && v.IsZero() {
			err = vfs.Errorf(vfs.Invalid, "ifVersion.equals holds no version")
		}
		return vfs.If{Is: v}, err
	}
	return vfs.If{}, vfs.Errorf(vfs.Invalid, "this host does not know that condition")
}

// OnVersion reports whether parameters have a condition on a version, which may be
// expensive to compute.
func OnVersion[P Conditional](p P) bool {
	c, err := p.IfVersion()
	return err == nil && c.Which() == schema.IfVersion_Which_equals
}

// SetIf writes a condition. It calls make only if there is one.
func SetIf(c vfs.If, make func() (schema.IfVersion, error)) error {
	switch {
	case c.NoFile:
		return vfs.Errorf(vfs.Unsupported, "a remote host does not know this condition")
	case c.IsZero():
		return nil
	}
	w, err := make()
	if err != nil {
		return err
	}
	if c.Absent {
		w.SetAbsent()
		return nil
	}
	return w.SetEquals(c.Is[:])
}

// Milliseconds returns a duration of ms milliseconds, or the longest one if ms is more.
func Milliseconds(ms int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(max(min(ms, most), -most)) * time.Millisecond
}

// InMilliseconds returns d in milliseconds, rounded up, since 0 stands for no time at all.
func InMilliseconds(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > 0 && d%time.Millisecond != 0 {
		ms++
	}
	return ms
}
