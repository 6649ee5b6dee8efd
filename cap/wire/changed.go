package wire

import (
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// MaxKnown is the most paths of one call of changedSince.
const MaxKnown = 1000

// Known is a path, and the version of the file that was there; the zero Version stands for nothing.
type Known struct {
	Path    string
	Version vfs.Version
}

// KnownFit returns how many of known, which is not empty, go into one call: at least one.
func KnownFit(known []Known) (n int) {
	room := MaxWhole
	for n < min(len(known), MaxKnown) {
		room -= knownBytes + len(known[n].Path)
		if room < 0 && n > 0 {
			break
		}
		n++
	}
	return n
}

// knownBytes is a generous estimate of what SetKnown needs of a message beside the path.
const knownBytes = 80

// SetKnown fills in what is known of a path.
func SetKnown(w schema.Known, k Known) error {
	if err := w.SetPath(k.Path); err != nil || k.Version.IsZero() {
		return err
	}
	return w.SetVersion(k.Version[:])
}

// Differing is a path, by its index, at which another file is than was known, or none: Err
// says why there is no version.
type Differing struct {
	Index   int
	Version vfs.Version
	Err     error
}

// Bytes estimates what SetDiffering needs of a message.
func (Differing) Bytes() int { return 256 }

// SetDiffering fills in a path that differs.
func SetDiffering(w schema.Differing, d Differing) error {
	w.SetIndex(uint32(d.Index))
	if d.Err != nil {
		return w.SetError(errorText(d.Err))
	}
	return w.SetVersion(d.Version[:])
}

// DifferingOf reads what SetDiffering wrote for known. It answers corrupt for an index that is
// not in known, and for a version that is missing.
func DifferingOf(w schema.Differing, known []Known) (d Differing, err error) {
	if d.Index = int(w.Index()); d.Index >= len(known) {
		return d, vfs.Errorf(vfs.Corrupt, "the host answered path %d of %d", d.Index, len(known))
	}
	text, err := w.Error()
	if err != nil {
		return d, err
	}
	if text != "" {
		d.Err = vfs.At(known[d.Index].Path, Decode(&vat.Exception{Reason: text}))
		return d, nil
	}
	if d.Version, err = Version(w.Version()); err == nil && d.Version.IsZero() {
		err = vfs.Errorf(vfs.Corrupt, "the host answered a file without a version")
	}
	return d, err
}
