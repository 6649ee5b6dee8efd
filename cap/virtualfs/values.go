package virtualfs

import (
	"errors"
	"math"

	"capnproto.org/go/capnp/v3"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/operator"
	"capd/vfs"
)

// The functions here translate values. Those that the client needs, to write parameters
// and to read results, are exported.

// SetTexts writes a list of texts, which it allocates with make.
func SetTexts(all []string, make func(int32) (capnp.TextList, error)) error {
	l, err := make(int32(len(all)))
	if err != nil {
		return err
	}
	for i, s := range all {
		if err := l.Set(i, s); err != nil {
			return err
		}
	}
	return nil
}

// texts reads a list of texts of at most most bytes in all; each counts some bytes
// more. It returns nil for an empty list. An empty text in the list is an error.
func texts(l capnp.TextList, most int) (all []string, err error) {
	for n, i := 0, 0; i < l.Len(); i++ {
		s, err := wire.Text(l.At(i))
		if err != nil {
			return nil, err
		}
		if s == "" {
			return nil, vfs.Errorf(vfs.Invalid, "a text in the list is empty; leave it out, or the list")
		}
		n += textBytes + len(s)
		if err := checkTexts(n, most); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Texts reads a list of texts that fits into one message.
func Texts(l capnp.TextList, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	return texts(l, wire.MaxWhole)
}

// sizeOf estimates how many bytes of a message SetTexts needs for all.
func sizeOf(all []string) (n int) {
	for _, s := range all {
		n += textBytes + len(s)
	}
	return n
}

// SetAttenuation writes a. Attenuation reads it.
func SetAttenuation(w schema.Attenuation, a operator.Attenuation) error {
	w.SetReadOnly(a.ReadOnly)
	w.SetNoLinks(a.NoLinks)
	w.SetBytes(uint64(a.Bytes))
	w.SetNodes(uint64(a.Nodes))
	return errors.Join(setPatterns(a.Deny, w.NewDeny), setPatterns(a.Ask, w.NewAsk))
}

// Attenuation reads what SetAttenuation wrote.
func Attenuation(w schema.Attenuation) (a operator.Attenuation, err error) {
	a.ReadOnly, a.NoLinks = w.ReadOnly(), w.NoLinks()
	if a.Bytes, err = count(w.Bytes()); err != nil {
		return a, err
	}
	if a.Nodes, err = count(w.Nodes()); err != nil {
		return a, err
	}
	if a.Deny, err = patterns(wire.Sound[schema.Patterns](w.HasDeny())(w.Deny())); err != nil {
		return a, err
	}
	a.Ask, err = patterns(wire.Sound[schema.Patterns](w.HasAsk())(w.Ask()))
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

func patterns(w schema.Patterns, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	switch w.Which() {
	case schema.Patterns_Which_default:
		return nil, nil
	case schema.Patterns_Which_list:
		l, err := wire.Sound[capnp.TextList](w.HasList())(w.List())
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
		return 0, vfs.Errorf(vfs.Invalid, "a number of bytes or nodes is more than there can be; 0 is no bound")
	}
	return int64(n), nil
}

func setMount(w schema.Mount, m operator.Mount) error {
	w.SetChanges(m.Changes)
	a, err := w.NewAttenuation()
	if err != nil {
		return err
	}
	return errors.Join(w.SetPath(m.Path), w.SetUrl(m.URL), w.SetKind(m.Kind), w.SetDetail(m.Detail), SetAttenuation(a, m.Attenuation))
}

// Mount reads a mount in results.
func Mount(w schema.Mount) (m operator.Mount, err error) {
	m.Changes = w.Changes()
	if m.Path, err = w.Path(); err != nil {
		return m, err
	}
	if m.URL, err = w.Url(); err != nil {
		return m, err
	}
	if m.Kind, err = w.Kind(); err != nil {
		return m, err
	}
	if m.Detail, err = w.Detail(); err != nil {
		return m, err
	}
	a, err := w.Attenuation()
	if err != nil {
		return m, err
	}
	m.Attenuation, err = Attenuation(a)
	return m, err
}

// SetCommit writes c.
func SetCommit(w schema.Commit, c operator.Commit) error {
	return errors.Join(w.SetMessage_(c.Message), w.SetAuthor(c.Author), w.SetEmail(c.Email), w.SetRef(c.Ref), w.SetOld(c.Old))
}

func commit(w schema.Commit) (c operator.Commit, err error) {
	for _, f := range []struct {
		to   *string
		read func() (string, error)
	}{{&c.Message, w.Message_}, {&c.Author, w.Author}, {&c.Email, w.Email}, {&c.Ref, w.Ref}, {&c.Old, w.Old}} {
		if *f.to, err = wire.Text(f.read()); err != nil {
			return c, err
		}
	}
	return c, nil
}

func setSnapshot(w schema.Snapshot, s operator.Snapshot) error {
	w.SetSizeBytes(uint64(s.Size))
	w.SetFiles(uint64(s.Files))
	w.SetBytes(uint64(s.Bytes))
	w.SetNewBytes(uint64(s.New))
	return w.SetDigest(s.Digest)
}

// Snapshot reads a snapshot in results.
func Snapshot(w schema.Snapshot) (s operator.Snapshot, err error) {
	s.Size, s.Files, s.Bytes, s.New = int64(w.SizeBytes()), int64(w.Files()), int64(w.Bytes()), int64(w.NewBytes())
	s.Digest, err = w.Digest()
	return s, err
}

// SetBounds writes b.
func SetBounds(w schema.Bounds, b operator.Bounds) {
	w.SetEntries(uint64(b.Entries))
	w.SetBytes(uint64(b.Bytes))
}

func bounds(w schema.Bounds) (b operator.Bounds, err error) {
	if b.Entries, err = count(w.Entries()); err != nil {
		return b, err
	}
	b.Bytes, err = count(w.Bytes())
	return b, err
}

// Review reads a review. No bytes are no review.
func Review(b []byte) (r operator.Review, err error) {
	if n := copy(r[:], b); n != len(b) || n != 0 && n != len(r) {
		return operator.Review{}, vfs.Errorf(vfs.Invalid, "a review is %d bytes, as diff answers it", len(r))
	}
	return r, nil
}
