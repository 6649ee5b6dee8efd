package wire

import (
	"capnproto.org/go/capnp/v3"

	"capd/vfs"
)

// SetAll writes a list, which it allocates with make. set writes one element.
func SetAll[T any, W ~capnp.StructKind](all []T, make func(int32) (capnp.StructList[W], error), set func(W, T) error) error {
	l, err := make(int32(len(all)))
	if err != nil {
		return err
	}
	for i, v := range all {
		if err := set(l.At(i), v); err != nil {
			return err
		}
	}
	return nil
}

// One returns a function that reads a struct, as read does.
func One[T any, W ~capnp.StructKind](read func(W) (T, error)) func(W, error) (T, error) {
	return func(w W, err error) (v T, _ error) {
		if err != nil {
			return v, err
		}
		return read(w)
	}
}

// All returns a function that reads a list; read reads one element. It returns nil for
// an empty list.
func All[T any, W ~capnp.StructKind](read func(W) (T, error)) func(capnp.StructList[W], error) ([]T, error) {
	return func(l capnp.StructList[W], err error) (all []T, _ error) {
		if err != nil {
			return nil, err
		}
		for i := range l.Len() {
			v, err := read(l.At(i))
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		return all, nil
	}
}

// Keep returns a function that passes a field on, and keeps the first error in err.
func Keep[T any](err *error) func(T, error) T {
	return func(v T, e error) T {
		if *err == nil {
			*err = e
		}
		return v
	}
}

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

// Texts reads what SetTexts wrote, if it fits into one message. It returns nil for an
// empty list. An empty text in the list is an error.
func Texts(l capnp.TextList, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	return texts(l, MaxWhole)
}

// texts is Texts for a list that [TextsSize] estimates at most bytes at the most.
func texts(l capnp.TextList, most int) (all []string, err error) {
	for n, i := 0, 0; i < l.Len(); i++ {
		s, err := Param(l.At(i))
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

// CheckTexts answers tooLarge for a list of texts that is too large for one call.
func CheckTexts(all []string) error { return checkTexts(TextsSize(all), MaxWhole) }

func checkTexts(n, most int) error {
	if n > most {
		return vfs.Errorf(vfs.TooLarge, "a list is larger than the %d KiB of one call; use fewer, wider entries, such as a directory above", most>>10)
	}
	return nil
}

// Generous estimates of what a struct takes of a message beside its texts, in bytes.
const (
	mountBytes    = 192
	changeBytes   = 320
	conflictBytes = 384
	skippedBytes  = 64
	textBytes     = 16
)

// TextsSize estimates how many bytes of a message SetTexts needs for all.
func TextsSize(all []string) (n int) {
	for _, s := range all {
		n += textBytes + len(s)
	}
	return n
}
