package wire

import (
	"errors"

	schema "capd/capnp"
	"capd/vfs"
	"capd/vfs/lines"
)

// SetLines writes w to results that make allocates for about that many bytes.
func SetLines(make func(bytes int) (schema.File_readLines_Results, error), w lines.Window) error {
	r, err := make(len(w.Data) + 32*len(w.Clipped))
	if err != nil {
		return err
	}
	r.SetFirst(uint64(w.First))
	r.SetCount(uint32(w.Count))
	r.SetNext(uint64(w.Next))
	r.SetMore(w.More)
	r.SetLines(uint64(w.Total))
	if len(w.Clipped) > 0 {
		list, err := r.NewClipped(int32(len(w.Clipped)))
		if err != nil {
			return err
		}
		for i, c := range w.Clipped {
			at := list.At(i)
			at.SetIndex(uint32(c.Index))
			at.SetOffset(uint64(c.Offset))
			at.SetSizeBytes(uint64(c.Size))
		}
	}
	if !w.Version.IsZero() {
		err = r.SetVersion(w.Version[:])
	}
	return errors.Join(err, r.SetData(w.Data))
}

// Lines reads what SetLines wrote. It answers corrupt for numbers that no file can have.
func Lines(r schema.File_readLines_Results) (w lines.Window, err error) {
	n := func(v uint64) int64 {
		if int64(v) < 0 {
			err = vfs.Errorf(vfs.Corrupt, "the host answered an impossible number")
		}
		return int64(v)
	}
	w = lines.Window{First: n(r.First()), Count: int(r.Count()), Next: n(r.Next()), More: r.More(), Total: n(r.Lines())}
	clipped, bad := r.Clipped()
	if bad != nil {
		return w, bad
	}
	for i := range clipped.Len() {
		at := clipped.At(i)
		w.Clipped = append(w.Clipped, lines.Clip{Index: int(at.Index()), Offset: n(at.Offset()), Size: n(at.SizeBytes())})
	}
	b, bad := r.Data()
	if bad != nil {
		return w, bad
	}
	w.Data = append([]byte(nil), b...)
	if w.Version, bad = Version(r.Version()); bad != nil {
		return w, bad
	}
	return w, err
}
