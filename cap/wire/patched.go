package wire

import (
	"errors"

	schema "capd/capnp"
	"capd/vfs"
	"capd/vfs/patch"
)

// Named returns err as an error with a code, and with the path that it has already.
func Named(err error) error {
	if e, ok := errors.AsType[*vfs.Error](err); ok {
		return vfs.At(e.Path, err)
	}
	return vfs.At("", err)
}

// SetPatched fills in what a patch has made of one path.
func SetPatched(w schema.PatchedFile, r patch.Result) error {
	err := errors.Join(w.SetPath(r.Path), w.SetSource(r.From), w.SetDiff(r.Diff))
	if err == nil && !r.Version.IsZero() {
		err = w.SetVersion(r.Version[:])
	}
	if err == nil && !r.Was.IsZero() {
		err = w.SetWas(r.Was[:])
	}
	if err != nil {
		return err
	}
	return SetAll(r.Changed, w.NewChanged, func(w schema.LineRange, r patch.Range) error {
		w.SetFirst(uint32(r.First)) //nolint:gosec // a file that is patched has fewer lines
		w.SetCount(uint32(r.Count)) //nolint:gosec // as above
		return nil
	})
}

// Patched reads what SetPatched wrote.
func Patched(w schema.PatchedFile) (r patch.Result, err error) {
	r.Path, err = w.Path()
	r.From = Keep[string](&err)(w.Source())
	r.Diff = Keep[string](&err)(w.Diff())
	r.Version = Keep[vfs.Version](&err)(versionIn(w.Version()))
	r.Was = Keep[vfs.Version](&err)(versionIn(w.Was()))
	r.Changed = Keep[[]patch.Range](&err)(All(func(w schema.LineRange) (patch.Range, error) {
		return patch.Range{First: int(w.First()), Count: int(w.Count())}, nil
	})(w.Changed()))
	return r, err
}

// versionIn reads a version; none is the zero Version.
func versionIn(b []byte, err error) (v vfs.Version, _ error) {
	switch {
	case err != nil || len(b) == 0:
		return v, err
	case len(b) != len(v):
		return v, vfs.Errorf(vfs.Corrupt, "the host sent a version of %d bytes", len(b))
	}
	return vfs.Version(b), nil
}
