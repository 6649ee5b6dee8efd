package wire

import (
	"errors"

	"capnproto.org/go/capnp/v3"

	schema "capd/capnp"
	"capd/vfs"
	"capd/vfs/membrane"
)

// maxRights bounds a list of rights: more than there will ever be.
const maxRights = 64

// SetRights writes r as a list, which it allocates with make. A right's number on the wire
// is that of its bit.
func SetRights(r membrane.Rights, make func(int32) (schema.Right_List, error)) error {
	names := r.Names()
	l, err := make(int32(len(names)))
	if err != nil {
		return err
	}
	for i, name := range names {
		l.Set(i, schema.RightFromString(name))
	}
	return nil
}

// Rights reads what SetRights wrote. It leaves out the rights that this program does not
// know. It answers invalid for more than maxRights elements.
func Rights(l schema.Right_List, err error) (r membrane.Rights, _ error) {
	if err != nil {
		return 0, Malformed(err)
	}
	if l.Len() > maxRights { // empty elements take no room in a message
		return 0, vfs.Errorf(vfs.Invalid, "a list of rights has at most %d elements", maxRights)
	}
	for i := range l.Len() {
		e := capnp.List(l).Struct(i) // At would read what is no right as the first one
		if e.Size().DataSize < 2 {
			return 0, Malformed(errNoRights)
		}
		r |= 1 << e.Uint16(0) // 0 for a number above its bits
	}
	return r & membrane.EveryRight, nil
}

var errNoRights = errors.New("a list of something else")
