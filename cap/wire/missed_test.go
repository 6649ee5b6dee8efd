package wire_test

import (
	"testing"

	"capnproto.org/go/capnp/v3"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vfs"
)

// What a search missed arrives as it was sent, whatever its name, without the cause.
func TestMissed(t *testing.T) {
	for _, path := range []string{"a/b", "\xff/b", "a\nb"} {
		for why, want := range map[error]string{
			vfs.Errorf(vfs.Busy, "later"): "later",
			vfs.Stale:                     "this node is no longer where it was opened; look it up again",
			vfs.Hide(vfs.NotFound):        "the host could not look at this",
		} {
			_, seg := capnp.NewSingleSegmentMessage(nil)
			m, err := schema.NewRootMissed(seg)
			if err == nil {
				err = wire.SetMissed(m, path, why)
			}
			if err != nil {
				t.Fatal(err)
			}
			got, read, err := wire.Missed(m)
			if text := string(vfs.CodeOf(why)) + ": " + vfs.Printable(path) + ": " + want; got != path || err != nil || read.Error() != text {
				t.Errorf("%q, %v, %v; want %q, %s", got, read, err, path, text)
			}
		}
	}
}
