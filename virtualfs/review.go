package virtualfs

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"capd/operator"
	"capd/vfs/diff"
)

// reviewOf returns the Review of those changes that paths choose.
func reviewOf(all []diff.Change, paths []string) operator.Review {
	var r reviewer
	for _, c := range all {
		if chosen(paths, c) {
			r.add(c)
		}
	}
	return r.review()
}

// reviewer computes a Review from changes added in the order of a diff. The zero
// reviewer has none.
type reviewer struct{ seen []byte }

// add adds the next change. It ignores the text, since the versions determine it.
func (r *reviewer) add(c diff.Change) {
	for _, field := range []string{c.Path, c.From, string(c.Kind), state(c.Was), state(c.Is)} {
		r.seen = binary.AppendUvarint(r.seen, uint64(len(field)))
		r.seen = append(r.seen, field...)
	}
	if len(r.seen) > 64<<10 {
		r.seen = append([]byte{'+'}, r.sum()...)
	}
}

func (r *reviewer) sum() []byte {
	sum := sha256.Sum256(r.seen)
	return sum[:]
}

// review returns the Review of the added changes.
func (r *reviewer) review() operator.Review { return operator.Review(r.sum()) }

func state(s diff.State) string {
	return fmt.Sprintf("%d %v %v %s", s.Kind, s.Exec, s.Version, s.Target)
}
