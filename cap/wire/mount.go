package wire

import (
	"errors"
	"math"

	"capnproto.org/go/capnp/v3"

	schema "capd/capnp"
	"capd/operator"
	"capd/vfs"
)

// maxMountBytes bounds the URL and the patterns of a mount, in bytes.
const maxMountBytes = 256 << 10

// SetAttenuation writes a, apart from its guards.
func SetAttenuation(w schema.Attenuation, a operator.Attenuation) error {
	w.SetReadOnly(a.ReadOnly)
	w.SetNoLinks(a.NoLinks)
	w.SetBytes(uint64(a.Bytes))
	w.SetNodes(uint64(a.Nodes))
	return errors.Join(setPatterns(a.Deny, w.NewDeny), setPatterns(a.Ask, w.NewAsk))
}

// Attenuation reads what SetAttenuation wrote.
func Attenuation(w schema.Attenuation) (a operator.Attenuation, err error) {
	number, list := Keep[int64](&err), Keep[[]string](&err)
	a = operator.Attenuation{
		ReadOnly: w.ReadOnly(), NoLinks: w.NoLinks(),
		Bytes: number(count(w.Bytes())), Nodes: number(count(w.Nodes())),
		Deny: list(patterns(Sound[schema.Patterns](w.HasDeny())(w.Deny()))),
		Ask:  list(patterns(Sound[schema.Patterns](w.HasAsk())(w.Ask()))),
	}
	return a, err
}

// setPatterns writes patterns. It writes nothing for nil, which reads as the default.
func setPatterns(all []string, make func() (schema.Patterns, error)) error {
	if all == nil {
		return nil
	}
	w, err := make()
	if err != nil {
		return err
	}
	return SetTexts(all, w.NewList)
}

// patterns reads what setPatterns wrote.
func patterns(w schema.Patterns, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	switch w.Which() {
	case schema.Patterns_Which_default:
		return nil, nil
	case schema.Patterns_Which_list:
		l, err := Sound[capnp.TextList](w.HasList())(w.List())
		if err != nil {
			return nil, err
		}
		all, err := texts(l, maxMountBytes)
		if all == nil {
			all = []string{} // an empty list is not the default
		}
		return all, err
	}
	return nil, vfs.Errorf(vfs.Invalid, "this host does not know that kind of patterns")
}

// count reads a number of bytes or of nodes.
func count(n uint64) (int64, error) {
	if n > math.MaxInt64 {
		return 0, vfs.Errorf(vfs.Invalid, "a number of bytes or nodes is too large; 0 is no bound")
	}
	return int64(n), nil
}

// SetMount writes m.
func SetMount(w schema.Mount, m operator.Mount) error {
	w.SetChanges(m.Changes)
	w.SetKept(m.Kept)
	a, err := w.NewAttenuation()
	if err != nil {
		return err
	}
	return errors.Join(w.SetPath(m.Path), w.SetUrl(m.URL), w.SetKind(m.Kind), w.SetDetail(m.Detail), SetAttenuation(a, m.Attenuation))
}

// Mount reads what SetMount wrote.
func Mount(w schema.Mount) (m operator.Mount, err error) {
	text := Keep[string](&err)
	m = operator.Mount{Path: text(w.Path()), URL: text(w.Url()), Kind: text(w.Kind()), Detail: text(w.Detail()), Changes: w.Changes(), Kept: w.Kept()}
	m.Attenuation = Keep[operator.Attenuation](&err)(One(Attenuation)(w.Attenuation()))
	return m, err
}

// MountSize estimates how many bytes of a message SetMount needs for m.
func MountSize(m operator.Mount) int {
	return mountBytes + len(m.Path) + len(m.Kind) + len(m.Detail) + givenSize(m.URL, m.Attenuation)
}

// givenSize estimates the bytes of what the caller of mount chooses.
func givenSize(url string, a operator.Attenuation) int {
	return textBytes + len(url) + TextsSize(a.Deny) + TextsSize(a.Ask)
}

// CheckMount answers tooLarge for a URL and patterns that are too large for one mount.
func CheckMount(url string, a operator.Attenuation) error {
	if givenSize(url, a) > maxMountBytes {
		return vfs.Errorf(vfs.TooLarge, "the URL and the patterns are more than the %d KiB of one mount; use fewer and wider patterns", maxMountBytes>>10)
	}
	return nil
}
