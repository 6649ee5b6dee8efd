package namespace_test

import (
	"context"
	"testing"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// counting is a Change that counts how often it is asked.
type counting struct {
	asked *int
	err   error
}

func (counting) Asks(string) error { return nil }

func (counting) Stands() bool { return false }

func (c counting) Ready(context.Context, vfs.Staged) (func() error, error) {
	*c.asked++
	return nil, c.err
}

// A move between two mounts is answered for once, before anything of it shows.
func TestCarryReady(t *testing.T) {
	_, from := check.Store(t, vfstest.Tree{"d/a": {Data: "a"}, "d/e/b": {Data: "b"}})
	to := memory.New(memory.Limits{})
	ns := check.Compose(t, map[string]vfs.Dir{"from": from, "to": to.Root()})
	src, dst := check.DirAt(t, ns.Root(), "from"), check.DirAt(t, ns.Root(), "to")
	move := func(err error) (int, error) {
		asked := 0
		call := vfs.Call{}
		call.OnChange(counting{&asked, err})
		err = src.Rename(vfs.WithCall(t.Context(), call), "d", dst, "d", vfs.If{}, vfs.If{})
		return asked, err
	}
	before := check.Picture(t, ns.Root())
	asked, err := move(vfs.AskDenied)
	check.Is(t, "a move that is refused", err, vfs.AskDenied)
	if now := check.Picture(t, ns.Root()); asked != 1 || now != before {
		t.Errorf("asked %d times, and now there is\n%s", asked, now)
	}
	if bytes, nodes := to.Usage(); bytes != 0 || nodes != 0 {
		t.Errorf("%d bytes and %d nodes are left of it", bytes, nodes)
	}
	if asked, err = move(nil); asked != 1 || err != nil {
		t.Errorf("a move: asked %d times, %v", asked, err)
	}
	if got := check.Read(t, ns.Root(), "to/d/e/b"); got != "b" {
		t.Errorf("what was moved says %q", got)
	}
}
