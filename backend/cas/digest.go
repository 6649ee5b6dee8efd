package cas

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"capd/vfs"
)

// Digest identifies a blob: the SHA-256 of its bytes, and their number.
type Digest struct {
	Hash [sha256.Size]byte
	Size int64 // bytes; -1 if it was parsed without a size
}

// DigestOf returns the digest of b.
func DigestOf(b []byte) Digest { return Digest{sha256.Sum256(b), int64(len(b))} }

// Empty is the digest of no bytes: the empty file and the empty directory. Every store
// has it.
var Empty = DigestOf(nil)

// String returns the hash in 64 hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d.Hash[:]) }

// MarshalText returns the hash in 64 hexadecimal digits, followed by "/" and the size
// if it is known.
func (d Digest) MarshalText() ([]byte, error) {
	if d.Size < 0 {
		return []byte(d.String()), nil
	}
	return strconv.AppendInt([]byte(d.String()+"/"), d.Size, 10), nil
}

// UnmarshalText parses 64 lower-case hexadecimal digits, optionally followed by "/" and
// the size in bytes. Without a size it sets Size to -1. It answers invalid.
func (d *Digest) UnmarshalText(text []byte) error {
	digits, size, sized := strings.Cut(string(text), "/")
	parsed := Digest{Size: -1}
	if !parseHash(&parsed.Hash, digits) {
		return errDigest
	}
	if sized {
		n, err := strconv.ParseInt(size, 10, 64)
		if err != nil || n < 0 || strconv.FormatInt(n, 10) != size {
			return errDigest
		}
		parsed.Size = n
	}
	*d = parsed
	return nil
}

var errDigest = vfs.Errorf(vfs.Invalid, "a digest is 64 lower-case hexadecimal digits, and may be followed by \"/\" and a size in bytes")

func parseHash(hash *[sha256.Size]byte, digits string) bool {
	if len(digits) != hex.EncodedLen(len(hash)) || strings.ToLower(digits) != digits {
		return false
	}
	_, err := hex.Decode(hash[:], []byte(digits))
	return err == nil
}
