package virtualfs

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"

	"capd/operator"
	"capd/vfs/diff"
)

// reviewOf returns the Review of those changes that paths choose, which are in the order of a diff. It
// ignores their text, since the versions determine it.
func reviewOf(all []diff.Change, paths []string) operator.Review {
	h := sha256.New()
	for _, c := range all {
		if chosen(paths, c) {
			for _, field := range []string{c.Path, c.From, string(c.Kind), state(c.Was), state(c.Is)} {
				h.Write(binary.AppendUvarint(nil, uint64(len(field))))
				_, _ = io.WriteString(h, field)
			}
		}
	}
	return operator.Review(h.Sum(nil))
}

func state(s diff.State) string {
	return fmt.Sprintf("%d %v %v %s", s.Kind, s.Exec, s.Version, s.Target)
}
