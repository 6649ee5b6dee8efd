package physical

import (
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A directory that nobody asks for does not stay open, and one in use does.
func TestIdleDescriptors(t *testing.T) {
	f, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	synctest.Test(t, func(t *testing.T) {
		c := newDescriptors(8)
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
