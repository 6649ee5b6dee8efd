package namespace_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// held is a Change that waits until it is answered.
type held struct{ answer chan error }

func (held) Asks(string) error { return nil }

func (held) Stands() bool { return false }

func (h held) Ready(context.Context, vfs.Staged) (func() error, error) { return nil, <-h.answer }

// TestMoveCountsItsPlan: what a move between two mounts keeps of its source while it waits counts in the grant, with all that it
// shared. A move for which there is no room is refused, and one that has ended counts nothing.
func TestMoveCountsItsPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := vfstest.Tree{}
		for i := range 1000 {
			tree[fmt.Sprintf("d/%0200d", i)] = vfstest.Node{}
		}
		for i, link := range []string{"l/a", "l/b"} {
			tree[link] = vfstest.Node{Link: strings.Repeat(fmt.Sprint(i), 200)}
		}
		w := trees(t, tree, nil)
		grant := meter.NewHost(nil).Grant("guest", meter.Limits{meter.CallBytes: 1 << 20})
		answer := make(chan error)
		move := func(m *meter.Meter, name string) error {
			call := vfs.Call{}
			call.OnChange(held{answer})
			ctx, turn, err := m.Begin(vfs.WithCall(t.Context(), call), meter.Work)
			check.OK(t, err)
			defer turn.End()
			return check.DirAt(t, w.root, "a").Rename(ctx, name, check.DirAt(t, w.root, "b"), name, vfs.If{}, vfs.If{})
		}
		first, small := make(chan error), make(chan error)
		go func() { first <- move(grant, "d") }()
		synctest.Wait()
		if n := grant.Used(meter.CallBytes); n < 1000*400 || n > 1<<20 {
			t.Errorf("a move that waits counts %d bytes", n)
		}
		for whose, m := range map[string]*meter.Meter{"the grant": grant, "a share": grant.Part("share")} {
			was := grant.Used(meter.CallBytes)
			done := make(chan error, 1)
			go func() { done <- move(m, "d") }()
			synctest.Wait()
			select {
			case err := <-done:
				check.Is(t, "a second move of "+whose, err, vfs.Limit)
				if !strings.HasSuffix(vfs.Message(err), ", or move a smaller part") {
					t.Errorf("a second move of %s is told: %v", whose, err)
				}
				t.Log(err)
			default:
				t.Errorf("a second move of %s waits too, and %d bytes are counted", whose, grant.Used(meter.CallBytes))
				answer <- vfs.AskDenied
				<-done
			}
			if n := grant.Used(meter.CallBytes); n != was {
				t.Errorf("after a second move of %s %d bytes are counted, before it %d", whose, n, was)
			}
		}
		go func() { small <- move(grant, "l") }()
		synctest.Wait()
		answer <- vfs.AskDenied
		answer <- vfs.AskDenied
		check.Is(t, "the first move", <-first, vfs.AskDenied)
		check.Is(t, "a small move beside it", <-small, vfs.AskDenied)
		if n := grant.Used(meter.CallBytes); n != 0 {
			t.Errorf("%d bytes are counted in the end", n)
		}
		go func() { first <- move(grant, "d") }()
		answer <- nil
		check.OK(t, <-first)
		if n := grant.Used(meter.CallBytes); n != 0 {
			t.Errorf("%d bytes are counted after a move", n)
		}
	})
}
