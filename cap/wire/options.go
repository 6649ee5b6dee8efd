package wire

import (
	"errors"

	schema "capd/capnp"
	"capd/operator"
	"capd/vfs"
)

// SetCommit writes c.
func SetCommit(w schema.Commit, c operator.Commit) error {
	return errors.Join(w.SetMessage_(c.Message), w.SetAuthor(c.Author), w.SetEmail(c.Email), w.SetRef(c.Ref), w.SetOld(c.Old), SetReview(c.If, w.SetReview))
}

// Commit reads what SetCommit wrote.
func Commit(w schema.Commit) (c operator.Commit, err error) {
	text := Keep[string](&err)
	c = operator.Commit{
		Message: text(Param(w.Message_())), Author: text(Param(w.Author())), Email: text(Param(w.Email())),
		Ref: text(Param(w.Ref())), Old: text(Param(w.Old())), If: Keep[operator.Review](&err)(Review(Param(w.Review()))),
	}
	return c, err
}

// SetSnapshot writes s.
func SetSnapshot(w schema.Snapshot, s operator.Snapshot) error {
	w.SetSizeBytes(uint64(s.Size))
	w.SetFiles(uint64(s.Files))
	w.SetBytes(uint64(s.Bytes))
	w.SetNewBytes(uint64(s.New))
	return w.SetDigest(s.Digest)
}

// Snapshot reads what SetSnapshot wrote.
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

// Bounds reads what SetBounds wrote.
func Bounds(w schema.Bounds) (b operator.Bounds, err error) {
	number := Keep[int64](&err)
	b = operator.Bounds{Entries: number(count(w.Entries())), Bytes: number(count(w.Bytes()))}
	return b, err
}

// SetReview writes r with set. It writes nothing for the zero Review.
func SetReview(r operator.Review, set func([]byte) error) error {
	if r == (operator.Review{}) {
		return nil
	}
	return set(r[:])
}

// Review reads what SetReview wrote.
func Review(b []byte, err error) (r operator.Review, _ error) {
	if err != nil {
		return r, err
	}
	if n := copy(r[:], b); n != len(b) || n != 0 && n != len(r) {
		return operator.Review{}, vfs.Errorf(vfs.Invalid, "a review is %d bytes, as diff answers it", len(r))
	}
	return r, nil
}
