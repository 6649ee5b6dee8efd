package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"capd/client"
	"capd/vfs"
)

func init() { others["writer"] = writeForever }

// writeForever changes everything it can below a directory, whatever the answers
// are.
func writeForever(args []string) {
	ctx := context.Background()
	c, top := guestOf(args[0])
	d := top.SubDir(args[1])
	defer c.Close()
	big := strings.Repeat("big ", 2<<20)
	for i := 0; ; i++ {
		name := fmt.Sprint("f", rand.IntN(20))
		f := d.OpenFile(name)
		switch rand.IntN(9) {
		case 0, 1:
			d.Put(ctx, name, strings.NewReader(strings.Repeat("x", rand.IntN(100_000))), vfs.If{})
		case 2:
			f.Append(ctx, []byte("appended"), vfs.If{})
		case 3:
			f.WriteAt(ctx, []byte("written"), rand.Int64N(1000), vfs.If{})
		case 4:
			d.Remove(ctx, name, vfs.If{})
		case 5:
			d.CreateDir(ctx, "d"+strconv.Itoa(i))
		case 6:
			d.Move(ctx, name, d, fmt.Sprint("moved", i%20), vfs.If{}, vfs.If{})
		case 7:
			f.Truncate(ctx, rand.Int64N(1000), vfs.If{})
		case 8:
			if i%4 == 0 {
				d.Put(ctx, name, strings.NewReader(big), vfs.If{})
			}
		}
		f.Close()
		d.Remove(ctx, "d"+strconv.Itoa(i-50), vfs.If{})
	}
}

// TestRevokeWriters: when a lock or a revoke has answered, nothing changes,
// although writers of several processes ignore it.
func TestRevokeWriters(t *testing.T) {
	t.Parallel()
	p := newPlaceInMemory(t)
	p.canary(p.served + "/calm")
	h := serveAt(p, execCapd(t))
	ctx := context.Background()
	loc, _, ctl := h.grant("agent", "project")
	c := dial(t, loc)
	_, err := c.Dir(ctx).CreateDir(ctx, "w")
	ok(t, err)
	shared, _, err := c.Share(ctx, c.Dir(ctx))
	ok(t, err)
	for _, l := range []string{loc, loc, shared} {
		start(t, "writer", l, "w")
	}
	dir := h.served + "/w"
	moves := func() bool { // the writers have begun
		before := take(t, dir)
		return waitFor(patience, func() bool { return before.differs(take(t, dir)) != "" })
	}
	still := func(when string, pause time.Duration) {
		t.Helper()
		before := take(t, dir)
		time.Sleep(pause)
		if d := before.differs(take(t, dir)); d != "" {
			t.Errorf("%s, but %s", when, d)
		}
	}
	for i := range times(8, 20) {
		if !moves() {
			t.Fatal("vacuous: nobody writes")
		}
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		ok(t, ctl.SetWritable(ctx, false))
		still(fmt.Sprint("locked ", i), 50*time.Millisecond)
		ok(t, ctl.SetWritable(ctx, true))
	}
	if !moves() {
		t.Fatal("vacuous: nobody writes")
	}
	_, err = h.console().Revoke(ctx, "agent")
	ok(t, err)
	still("revoked", time.Second)
	h.noStagedFiles()
}

// The guest that derived the capability revokes it, again and again, while
// others write.
func TestRevokeWritersByGuest(t *testing.T) {
	h := serveAt(newPlaceInMemory(t), execCapd(t))
	ctx := context.Background()
	c := dial(t, h.locator)
	top := c.Dir(ctx).SubDir("project")
	for i := range times(8, 15) {
		name := fmt.Sprint("w", i)
		_, err := top.CreateDir(ctx, name)
		ok(t, err)
		mine, r := top.SubDir(name).Revocable()
		loc, _, err := c.Share(ctx, mine)
		ok(t, err)
		stop := make(chan struct{})
		ended := make(chan int, 2)
		for _, conn := range []*client.Conn{dial(t, loc), dial(t, loc)} {
			go func() {
				n := 0
				defer func() { ended <- n }()
				d := conn.Dir(ctx)
				for {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := d.Put(ctx, fmt.Sprint("f", n%7), strings.NewReader(fmt.Sprint(n)), vfs.If{}); err == nil {
						n++
					}
				}
			}()
		}
		dir := h.served + "/" + name
		waitFor(patience, func() bool { return len(take(t, dir)) > 5 })
		ok(t, r.Revoke(ctx))
		before := take(t, dir)
		time.Sleep(30 * time.Millisecond)
		if d := before.differs(take(t, dir)); d != "" {
			t.Errorf("revoked, but %s", d)
		}
		close(stop)
		if <-ended+<-ended == 0 {
			t.Error("vacuous: nobody wrote")
		}
	}
}
