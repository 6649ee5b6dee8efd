package physical

import (
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// What nobody uses does not stay open, and what is in use does.
func TestIdleDescriptors(t *testing.T) {
	f, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	synctest.Test(t, func(t *testing.T) {
		c := newDescriptors(8, false)
		defer c.close()
		c.keep("a", ident{}, 1, 1, int(f.Fd()))
		c.keep("b", ident{}, 1, 2, int(f.Fd()))
		time.Sleep(idle / 2)
		if !c.holds("a", ident{}, 1, 1) {
			t.Error("a is not kept")
		}
		time.Sleep(idle/2 + time.Second)
		if n := c.len(); n != 1 {
			t.Errorf("%d are kept, want a alone", n)
		}
		time.Sleep(2 * idle)
		if n := c.len(); n != 0 {
			t.Errorf("%d are kept, want none", n)
		}
	})
}

// A file is closed when nobody has used it for idle, and not before its last reader has
// ended.
func TestIdleFile(t *testing.T) {
	path := t.TempDir() + "/f"
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	open := func() *openFile {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return newOpenFile(nil, fd, attr{})
	}
	isOpen := func(f *openFile) bool {
		at, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(f.fd))
		return err == nil && at == path
	}
	synctest.Test(t, func(t *testing.T) {
		c := newDescriptors(8, false)
		defer c.close()
		idler, used, read := open(), open(), open()
		for name, f := range map[string]*openFile{"idler": idler, "used": used, "read": read} {
			c.keepFile(name, f, c.mark())
			f.Close()
			if !isOpen(f) {
				t.Errorf("%s is not kept", name)
			}
		}
		time.Sleep(idle - time.Second)
		if f := c.file("used"); f != used {
			t.Error("what is used is another file")
		} else {
			f.Close()
		}
		reader := c.file("read")
		time.Sleep(2 * time.Second)
		if isOpen(idler) || !isOpen(used) || c.len() != 2 {
			t.Errorf("after idle %d are kept", c.len())
		}
		time.Sleep(idle)
		if isOpen(used) || !isOpen(read) || c.len() != 0 {
			t.Errorf("after twice idle %d are kept", c.len())
		}
		if n, err := reader.ReadAt(make([]byte, 1), 0); n != 1 {
			t.Errorf("its reader is cut off: %v", err)
		}
		reader.Close()
		if isOpen(read) {
			t.Error("after its last reader it is open")
		}
	})
}

// A file that was opened before something was forgotten is not kept afterwards.
func TestKeptTooLate(t *testing.T) {
	c := newDescriptors(8, false)
	defer c.close()
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := newOpenFile(nil, fd, attr{})
	defer f.Close()
	mark := c.mark()
	c.forget("f")
	c.keepFile("f", f, mark)
	if c.file("f") != nil {
		t.Error("it is kept")
	}
	c.keepFile("f", f, c.mark())
	if got := c.file("f"); got != f {
		t.Error("it is not kept")
	} else {
		got.Close()
	}
}
