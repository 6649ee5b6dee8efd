package wire

import (
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// MaxMany is the most files that one call reads. Their contents have at most MaxWhole bytes
// together.
const MaxMany = 256

// Content is a whole file that was read together with others, or the error for it. Data is
// the message's own memory where it was received.
type Content struct {
	Data    []byte
	Version vfs.Version
	Err     error
}

// Bytes estimates what SetContent needs of a message.
func (c Content) Bytes() int { return 160 + len(c.Data) }

// SetContent fills in a content.
func SetContent(w schema.Content, c Content) error {
	if c.Err != nil {
		return w.SetError(errorText(c.Err))
	}
	if err := w.SetData(c.Data); err != nil {
		return err
	}
	return w.SetVersion(c.Version[:])
}

// ContentAt reads what SetContent wrote for path. It answers corrupt for a content without a
// version.
func ContentAt(path string, w schema.Content) (c Content, err error) {
	text, err := w.Error()
	if err != nil {
		return c, err
	}
	if text != "" {
		c.Err = vfs.At(path, Decode(&vat.Exception{Reason: text}))
		return c, nil
	}
	if c.Data, err = w.Data(); err != nil {
		return c, err
	}
	c.Version, err = Version(w.Version())
	if err == nil && c.Version.IsZero() {
		err = vfs.Errorf(vfs.Corrupt, "the host answered a content without a version")
	}
	return c, err
}
