package physical_test

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"capd/vfs"
)

// cloned is a content that is cloned by writing it.
type cloned struct {
	*bytes.Reader
	data  string // what the clone holds
	reads int
	fails error // of Clone, after half of it
	late  error // of Cloned
	is    vfs.Version
}

func (c *cloned) Read(p []byte) (int, error) {
	c.reads++
	return c.Reader.Read(p)
}

func (c *cloned) Clone(fd uintptr) error {
	data := c.data
	if c.fails != nil {
		data = data[:len(data)/2]
	}
	if _, err := unix.Pwrite(int(fd), []byte(data), 0); err != nil {
		return err
	}
	return c.fails
}

func (c *cloned) Cloned(v vfs.Version) error {
	c.is = v
	return c.late
}

// TestClone puts contents that can be cloned, or not.
func TestClone(t *testing.T) {
	const is = "the content"
	no := vfs.Errorf(vfs.Unsupported, "planned")
	for name, c := range map[string]struct {
		from  cloned
		want  vfs.Code
		reads bool
	}{
		"cloned":                    {from: cloned{data: is}},
		"not cloned":                {from: cloned{data: is + "and more, of which half is there", fails: no}, reads: true},
		"no right to clone":         {from: cloned{data: is, fails: vfs.Revoked}, want: vfs.Revoked},
		"not the content":           {from: cloned{data: is, late: vfs.Conflict}, want: vfs.Conflict},
		"it has grown":              {from: cloned{data: is + "!"}, want: vfs.Busy},
		"it has become shorter":     {from: cloned{data: is[1:]}, want: vfs.Busy},
		"it changed, as its reader": {from: cloned{data: "THE CONTENT", late: vfs.Conflict}, want: vfs.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, w served) {
				from := c.from
				from.Reader = bytes.NewReader([]byte(is))
				got, err := vfs.Install(w.ctx, w.root, "f", &from, false, vfs.If{})
				if c.want != "" {
					w.is("Install", err, c.want)
					if _, err := os.Lstat(w.host("f")); err == nil {
						t.Error("something is in place")
					}
					return
				}
				w.ok(err)
				if now, err := os.ReadFile(w.host("f")); string(now) != is || err != nil {
					t.Errorf("there is %q, %v", now, err)
				}
				if got != version(is) || from.reads > 0 != c.reads || !c.reads && from.is != got {
					t.Errorf("version %v, %d reads, told of %v", got, from.reads, from.is)
				}
			})
		})
	}
}
