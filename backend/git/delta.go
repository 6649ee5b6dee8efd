package git

import "encoding/binary"

// patch applies a delta to base (gitformat-pack(5), "Deltified representation"). The
// result may be most bytes long.
func patch(base, delta []byte, most int64) ([]byte, error) {
	from, n := binary.Uvarint(delta)
	if n <= 0 || from != uint64(len(base)) {
		return nil, errMalformed
	}
	delta = delta[n:]
	size, n := binary.Uvarint(delta)
	if n <= 0 {
		return nil, errMalformed
	}
	if size > uint64(most) {
		return nil, errTooLarge
	}
	delta = delta[n:]
	out := make([]byte, 0, size)
	for len(delta) > 0 {
		op := delta[0]
		delta = delta[1:]
		var piece []byte
		switch {
		case op == 0:
			return nil, errMalformed
		case op&0x80 == 0:
			if int(op) > len(delta) {
				return nil, errMalformed
			}
			piece, delta = delta[:op], delta[op:]
		default:
			off, length, rest, ok := copyOp(op, delta)
			if !ok || off+length > len(base) {
				return nil, errMalformed
			}
			piece, delta = base[off:off+length], rest
		}
		if uint64(len(out)+len(piece)) > size {
			return nil, errMalformed
		}
		out = append(out, piece...)
	}
	if uint64(len(out)) != size {
		return nil, errMalformed
	}
	return out, nil
}

// copyOp reads the offset and the length of a copy instruction. op says which of their
// bytes are present.
func copyOp(op byte, delta []byte) (off, length int, rest []byte, ok bool) {
	for i := range 7 {
		if op&(1<<i) == 0 {
			continue
		}
		if len(delta) == 0 {
			return 0, 0, nil, false
		}
		if i < 4 {
			off |= int(delta[0]) << (8 * i)
		} else {
			length |= int(delta[0]) << (8 * (i - 4))
		}
		delta = delta[1:]
	}
	if length == 0 {
		length = 0x10000
	}
	return off, length, delta, true
}
