package unified

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" // git's ids of contents
	"fmt"
	"strings"
)

// binary writes two contents as git does for binary files. It writes both whole, so
// that the patch can be reversed, and their ids, by which git apply checks that it has
// the right file.
func binary(from, to Side) string {
	var b strings.Builder
	fmt.Fprintf(&b, "index %s..%s\nGIT binary patch\n", from.id(), to.id())
	literal(&b, to.Data)
	literal(&b, from.Data)
	return b.String()
}

// id returns git's id of the side's content.
func (s *Side) id() string {
	if s.Mode == Nothing {
		return strings.Repeat("0", 2*sha1.Size)
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(s.Data))
	h.Write(s.Data)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// lineBytes is how many bytes one line of a literal may hold.
const lineBytes = 52

// literal writes data compressed with deflate, in lines of base 85. Each line begins
// with a letter for its number of bytes. An empty line ends the literal.
func literal(b *strings.Builder, data []byte) {
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	_, _ = w.Write(data) // never fails on a buffer
	_ = w.Close()
	fmt.Fprintf(b, "literal %d\n", len(data))
	for packed.Len() > 0 {
		line := packed.Next(lineBytes)
		if n := byte(len(line)); n <= 26 {
			b.WriteByte('A' + n - 1)
		} else {
			b.WriteByte('a' + n - 27)
		}
		base85(b, line)
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
}

// digits are those of git's base 85.
const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// base85 writes every four bytes as five digits. It fills the last group with zeros.
func base85(b *strings.Builder, line []byte) {
	for len(line) > 0 {
		var four [4]byte
		line = line[copy(four[:], line):]
		n := uint32(four[0])<<24 | uint32(four[1])<<16 | uint32(four[2])<<8 | uint32(four[3])
		var five [5]byte
		for i := range five {
			five[4-i] = digits[n%85]
			n /= 85
		}
		b.Write(five[:])
	}
}
