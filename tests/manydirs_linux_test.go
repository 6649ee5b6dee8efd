package tests

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/client"
	"capd/vat"
)

// descriptorBound is how many descriptors a host may use for its directories,
// however many guests hold, and for what else it does.
const descriptorBound = 4096 + 200

// TestManyDirs: one guest holds 20,000 Dirs, and then as many as it may, while
// another works and notices nothing.
func TestManyDirs(t *testing.T) {
	t.Parallel()
	const many = 20_000
	p := newPlaceInMemory(t)
	ok(t, os.Mkdir(p.served+"/work", 0o755))
	for i := range many {
		ok(t, os.MkdirAll(fmt.Sprintf("%s/d%d/%d", p.served, i/200, i), 0o755))
	}
	h := serveAt(p, execCapd(t))
	busy, _, _ := h.grant("busy", "project/work")
	greedy := dial(t, h.locator)
	top := greedy.Dir(context.Background()).SubDir("project")
	ok(t, top.Cap().Settle(context.Background()))
	var worked, slowest atomic.Int64
	over := make(chan struct{})
	var worker sync.WaitGroup
	worker.Go(func() { work(t, dial(t, busy).Dir(context.Background()), over, &worked, &slowest) })

	before := usageOf(t, h.pid())
	held, err := takeDirs(top, many, func(i int) string { return fmt.Sprintf("d%d/%d", i/200, i) })
	ok(t, err)
	for i := 0; i < many; i += 97 { // each works
		is(t, "a held Dir", by(held[i], "list", "../x"), "invalid")
		_, err := held[i].Stat(context.Background())
		ok(t, err)
	}
	during := usageOf(t, h.pid())
	more, err := takeDirs(top, 33_000-many, func(int) string { return "work" })
	is(t, "one more than a guest may hold", err, "limit")
	if n := many + len(more); n < 30_000 {
		t.Errorf("the limit came at %d", n)
	}
	is(t, "what it holds still works", by(held[0], "glob", "*"), "ok")
	limit := usageOf(t, h.pid())
	for _, d := range append(held, more...) {
		d.Close()
	}
	is(t, "after letting go", by(top, "list", "work"), "ok")
	again, err := takeDirs(top, 1000, func(int) string { return "work" })
	ok(t, err)
	for _, d := range again {
		d.Close()
	}
	greedy.Close()
	time.Sleep(200 * time.Millisecond)
	close(over)
	worker.Wait()
	after := usageOf(t, h.pid())
	fmt.Printf("a guest that holds Dirs, and its host:\n  before:       %v\n  with %d:   %v\n  with %d:   %v\n  after:        %v\n",
		before, many, during, many+len(more), limit, after)
	fmt.Printf("  another guest meanwhile: %d operations, the slowest %v\n", worked.Load(), time.Duration(slowest.Load()).Round(time.Millisecond))
	for _, u := range []usage{during, limit, after} {
		if u.files > before.files+descriptorBound {
			t.Errorf("the host has %d descriptors, and had %d", u.files, before.files)
		}
	}
	if grew := (limit.rssKB - before.rssKB) >> 10; grew > 1024 {
		t.Errorf("the host has grown by %d MiB", grew)
	}
	if worked.Load() < 100 {
		t.Errorf("vacuous: the other guest did %d operations", worked.Load())
	}
	if slow := time.Duration(slowest.Load()); slow > prompt {
		t.Errorf("the other guest waited %v", slow)
	}
}

// work does what a guest does, until it is over. Nothing may fail.
func work(t *testing.T, d *client.Dir, over <-chan struct{}, worked, slowest *atomic.Int64) {
	for i := 0; ; i++ {
		select {
		case <-over:
			return
		default:
		}
		name := "f" + strconv.Itoa(i%10)
		for _, op := range []string{"put", "readBytes", "append", "stage", "glob", "remove"} {
			begun := time.Now()
			err := by(d, op, name)
			slowest.Store(max(slowest.Load(), int64(time.Since(begun))))
			if err != nil {
				t.Errorf("the other guest's %s: %v", op, err)
				return
			}
			worked.Add(1)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// takeDirs takes n Dirs, some at once, and returns those that it got.
func takeDirs(top *client.Dir, n int, path func(i int) string) ([]*client.Dir, error) {
	const at = 256
	var held []*client.Dir
	for i := 0; i < n; i += at {
		var batch []*client.Dir
		var stats []*vat.Answer[schema.Dir_stat_Results]
		for j := i; j < min(n, i+at); j++ {
			d := top.SubDir(path(j))
			batch = append(batch, d)
			stats = append(stats, vat.Send(context.Background(), d.Cap(), schema.Dir_stat, nil))
		}
		for k, d := range batch {
			_, _, err := stats[k].Await(context.Background())
			stats[k].Release()
			if err != nil {
				for _, a := range stats[k+1:] {
					a.Release()
				}
				for _, d := range batch[k:] {
					d.Close()
				}
				return held, wire.Decode(err)
			}
			held = append(held, d)
		}
	}
	return held, nil
}
