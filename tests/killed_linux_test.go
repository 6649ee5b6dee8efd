package tests

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"capd/meter"
	"capd/vfs"
)

func init() { others["victim"] = victim }

// victim writes until it is killed, and says when it begins.
func victim(args []string) {
	ctx := context.Background()
	_, top := guestOf(args[0])
	d, which := top.SubDir("project"), args[1]
	if err := d.Cap().Settle(ctx); err != nil {
		panic(err)
	}
	os.Stdout.WriteString(".")
	for {
		f := d.OpenFile("inplace" + which)
		d.Put(ctx, "put"+which, bytes.NewReader(sealed(rand.IntN(200_000))), vfs.If{})
		f.Append(ctx, make([]byte, 100_000), vfs.If{})
		d.Put(ctx, "staged"+which, bytes.NewReader(sealed(5<<20+rand.IntN(3<<20))), vfs.If{})
		f.WriteAt(ctx, make([]byte, 2<<20), 0, vfs.If{})
		f.Replace(ctx, bytes.NewReader(sealed(rand.IntN(1000))), vfs.If{})
		f.Close()
	}
}

// sealed is content that shows when it is torn.
func sealed(n int) []byte {
	body := bytes.Repeat([]byte{byte('a' + n%26)}, n)
	return append(fmt.Appendf(nil, "%x\n", sha256.Sum256(body)), body...)
}

func torn(b []byte) bool {
	sum, body, found := strings.Cut(string(b), "\n")
	return !found || sum != fmt.Sprintf("%x", sha256.Sum256([]byte(body)))
}

// kill starts a guest, kills it in the middle of things, and looks at what it
// wrote.
func (p *place) kill(loc, which string, whole map[string]bool) error {
	cmd := program("victim", loc, which)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("a guest did not begin: %w", err)
	}
	time.Sleep(time.Duration(rand.IntN(30_000)) * time.Microsecond)
	if err := cmd.Process.Kill(); err != nil {
		return err
	}
	cmd.Wait()
	for _, name := range []string{"put" + which, "staged" + which} {
		b, err := os.ReadFile(p.served + "/" + name)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil || torn(b) {
			return fmt.Errorf("%s is torn: %d bytes, %w", name, len(b), err)
		}
		whole[string(b[:64])] = true
	}
	return nil
}

// killMany kills n guests, some at once, and returns how many contents were seen.
func (p *place) killMany(loc string, n int) int {
	p.Helper()
	const atOnce = 4
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]bool{}
	for w := range atOnce {
		name := fmt.Sprint(w)
		ok(p, os.WriteFile(p.served+"/inplace"+name, nil, 0o644))
		wg.Go(func() {
			whole := map[string]bool{}
			for range n / atOnce {
				if err := p.kill(loc, name, whole); err != nil {
					p.Error(err)
					return
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for sum := range whole {
				seen[sum] = true
			}
		})
	}
	wg.Wait()
	return len(seen)
}

// TestKilledGuest: many guests are killed in the middle of a write. What they
// wrote whole is whole, and the host holds nothing of theirs.
func TestKilledGuest(t *testing.T) {
	t.Parallel()
	kills := times(40, 200)
	h := serveAt(newPlaceInMemory(t), execCapd(t))
	h.killMany(h.locator, 4) // so that what the host makes once is there
	settle := func(limit int) bool {
		return waitFor(patience, func() bool { return openFiles(h.pid()) <= limit })
	}
	time.Sleep(300 * time.Millisecond)
	before := usageOf(t, h.pid())
	seen := h.killMany(h.locator, kills)
	h.noStagedFiles()
	// Open directories are cached, and there is no directory here but the root.
	settled := settle(before.files)
	after := usageOf(t, h.pid())
	fmt.Printf("%d guests killed, %d different contents seen, none torn; the host before: %v, after: %v\n", kills, seen, before, after)
	if !settled {
		t.Errorf("the host has %d descriptors, and had %d", after.files, before.files)
	}
	if grew := (after.rssKB - before.rssKB) >> 10; grew > 512 {
		t.Errorf("the host has grown by %d MiB", grew)
	}
	if seen < kills/20 {
		t.Errorf("vacuous: %d contents were seen", seen)
	}
	is(t, "afterwards", byPut(context.Background(), dial(t, h.locator).Dir(context.Background()), "project/f"), "ok")
}

// TestKilledGuestInProcess counts what the other cannot: goroutines, connections
// and what they hold.
func TestKilledGuestInProcess(t *testing.T) {
	h := serveHere(t, nil)
	g := h.guest("")
	ok(t, g.conn.Close())
	ok(t, g.Close())
	gone := func() bool { return h.Server.Conns() == 0 }
	if !waitFor(patience, gone) {
		t.Errorf("%d connections are left", h.Server.Conns())
	}
	before := runtime.NumGoroutine()
	m, err := h.Authority.Meter(t.Context(), g.id)
	ok(t, err)
	nodes, streams := m.Used(meter.Nodes), m.Used(meter.Streams)
	h.killMany(g.locator, 40)
	if !waitFor(patience, gone) {
		t.Errorf("%d connections are left", h.Server.Conns())
	}
	if !waitFor(10*time.Second, func() bool { return runtime.NumGoroutine() <= before }) {
		t.Errorf("%d goroutines, and %d before", runtime.NumGoroutine(), before)
	}
	if !waitFor(10*time.Second, func() bool {
		return m.Used(meter.Nodes) == nodes && m.Used(meter.Streams) == streams
	}) {
		t.Errorf("the grant uses %+v, and used %d nodes and %d streams", m.Uses(), nodes, streams)
	}
	h.noStagedFiles()
}
