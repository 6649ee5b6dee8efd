package vfstest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"capd/vfs"
)

var raceRules = []rule{
	{"Race/Create", writable, testRaceCreate},
	{"Race/ReplaceAndRead", writable, testRaceReplaceAndRead},
	{"Race/ReplaceIf", writable, testRaceReplaceIf},
	{"Race/Append", writable, testRaceAppend},
	{"Race/Rename", writable, testRaceRename},
	{"Race/RenameAcross", writable, testRaceRenameAcross},
	{"Race/Remove", writable, testRaceRemove},
	{"Race/Hammer", writable, testHammer},
}

// together runs do n times at once. do must not end the test.
func together(n int, do func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	wg.Wait()
}

func testRaceCreate(w *world) {
	w.make(Tree{})
	for _, t := range []struct {
		op   string
		lose vfs.Code
		do   func(name string, i int) error
	}{
		{"Create", vfs.Exists, func(name string, _ int) error { _, err := w.root.Create(w.ctx, name); return err }},
		{"Mkdir", vfs.Exists, func(name string, _ int) error { _, err := w.root.Mkdir(w.ctx, name); return err }},
		{"Replace", vfs.Conflict, func(name string, i int) error {
			_, err := w.root.Replace(w.ctx, name, strings.NewReader(strconv.Itoa(i)), vfs.If{Absent: true})
			return err
		}},
	} {
		for round := range 15 {
			var won atomic.Int32
			name := fmt.Sprint(t.op, round)
			together(6, func(i int) {
				if err := t.do(name, i); err == nil {
					won.Add(1)
				} else {
					w.is("the loser of "+t.op, err, t.lose)
				}
			})
			if n := won.Load(); n != 1 {
				w.Errorf("%d of 6 made one name by %s, want 1", n, t.op)
			}
		}
	}
}

// testRaceReplaceAndRead reads while a file is replaced. Every content read is one that
// was written, whole, and the file is never missing.
func testRaceReplaceAndRead(w *world) {
	page := func(i int) string { return strings.Repeat(string(rune('a'+i%26)), 100_000+1000*(i%7)) }
	w.make(Tree{"f": {Data: page(0)}})
	f := w.file("f")
	if _, ok := f.(vfs.Opener); !ok {
		w.Log("these files hold no content open")
		return
	}
	var done atomic.Bool
	var reads atomic.Int32
	together(4, func(i int) {
		if i == 0 {
			for n := range 40 {
				if _, err := w.root.Replace(w.ctx, "f", strings.NewReader(page(n)), vfs.If{}); err != nil {
					w.Errorf("Replace: %v", err)
				}
			}
			done.Store(true)
			return
		}
		for !done.Load() || reads.Load() == 0 {
			got, err := readAll(w.ctx, f)
			if err != nil {
				w.Errorf("reading while the file is replaced: %v", err)
				return
			}
			if got == "" || strings.Trim(got, got[:1]) != "" {
				w.Errorf("a reader saw a mix of two contents")
				return
			}
			if n := len(got); (n-100_000)%1000 != 0 || n < 100_000 || page(int(got[0] - 'a'))[:1] != got[:1] {
				w.Errorf("a reader saw %d bytes, which nobody wrote", n)
				return
			}
			reads.Add(1)
		}
	})
}

// testRaceReplaceIf increments a counter by reading it and replacing it on condition.
func testRaceReplaceIf(w *world) {
	w.make(Tree{"n": {Data: "0"}})
	const each, workers = 10, 4
	together(workers, func(int) {
		for range each {
			for {
				f, err := w.root.Lookup(w.ctx, "n")
				if err != nil {
					w.Errorf("Lookup: %v", err)
					return
				}
				text, err := readAll(w.ctx, f.(vfs.File))
				f.Close()
				n, bad := strconv.Atoi(text)
				if err != nil || bad != nil {
					w.Errorf("read %q, %v", text, err)
					return
				}
				_, err = w.root.Replace(w.ctx, "n", strings.NewReader(strconv.Itoa(n+1)), vfs.If{Is: sum(text)})
				if err == nil {
					break
				}
				if !errors.Is(err, vfs.Conflict) && !errors.Is(err, vfs.Busy) {
					w.Errorf("the loser of Replace on a condition: %v, want conflict", err)
					return
				}
			}
		}
	})
	w.has("n", strconv.Itoa(each*workers))
}

func testRaceAppend(w *world) {
	w.make(Tree{"log": {Data: "start\n"}})
	w.appendable("log")
	const each, workers = 40, 4
	together(workers, func(i int) {
		n, err := w.root.Lookup(w.ctx, "log")
		if err != nil {
			w.Errorf("Lookup: %v", err)
			return
		}
		for k := range each {
			line := fmt.Sprintf("%d/%d %s\n", i, k, strings.Repeat("x", 50*i))
			_, err := vfs.Append(w.ctx, n.(vfs.File), []byte(line), vfs.If{})
			for w.s.Approved && vfs.CodeOf(err) == vfs.Conflict {
				_, err = vfs.Append(w.ctx, n.(vfs.File), []byte(line), vfs.If{})
			}
			if err != nil {
				w.Errorf("Append: %v", err)
			}
		}
	})
	got, err := readAll(w.ctx, w.file("log"))
	w.ok("reading", err)
	next := [workers]int{}
	for line := range strings.Lines(strings.TrimPrefix(got, "start\n")) {
		var i, k int
		if _, err := fmt.Sscanf(line, "%d/%d", &i, &k); err != nil || i < 0 || i >= workers || k != next[i] {
			w.Fatalf("appends are torn, lost or out of order at %q", line)
		}
		next[i]++
	}
	for i, n := range next {
		if n != each {
			w.Errorf("%d of %d appends of worker %d are there", n, each, i)
		}
	}
}

func testRaceRename(w *world) {
	w.make(Tree{"src": {Dir: true}, "dst": {Dir: true}})
	src, dst := w.dir("src"), w.dir("dst")
	for round := range 15 {
		name := strconv.Itoa(round)
		_, err := src.Replace(w.ctx, name, strings.NewReader(name), vfs.If{})
		w.ok("Replace", err)
		var won atomic.Int32
		together(4, func(i int) {
			if err := src.Rename(w.ctx, name, dst, fmt.Sprint(name, "-", i), vfs.If{}, vfs.If{}); err == nil {
				won.Add(1)
			} else if !w.s.Approved || vfs.CodeOf(err) != vfs.Conflict {
				w.is("the loser of Rename", err, vfs.NotFound)
			}
		})
		if n := won.Load(); n != 1 {
			w.Errorf("%d of 4 moved one file, want 1", n)
		}
	}
	if p := w.picture(); p.total.Nodes != 2+15 {
		w.Errorf("%d nodes are left, want %d", p.total.Nodes, 2+15)
	}
}

// testRaceRenameAcross moves files and directories both ways between two directories.
// Nothing is lost, doubled, moved into itself or blocked for ever.
func testRaceRenameAcross(w *world) {
	w.make(Tree{"a/f": {Data: "f"}, "b/g": {Data: "g"}, "a/d/x": {Data: "x"}, "b/e/y": {Data: "y"}})
	a, b := w.dir("a"), w.dir("b")
	before := w.picture().total
	together(4, func(i int) {
		from, to := a, b
		if i%2 == 1 {
			from, to = b, a
		}
		for range 40 {
			for _, name := range []string{"f", "g", "d", "e"} {
				w.fit("Rename across", from.Rename(w.ctx, name, to, name, vfs.If{}, vfs.If{}))
			}
		}
	})
	if now := w.picture(); now.total != before {
		w.Errorf("after renames across there is %+v, was %+v: %v", now.total, before, now.nodes)
	}
	// Two directories, each moved into the other: at most one move succeeds.
	for range 10 {
		w.make(Tree{"a/f": {}, "b/g": {}})
		together(2, func(i int) {
			names := []string{"a", "b"}
			other, err := w.root.Lookup(w.ctx, names[1-i])
			if err != nil {
				return
			}
			w.fit("Rename into each other", w.root.Rename(w.ctx, names[i], other.(vfs.Dir), "in", vfs.If{}, vfs.If{}))
		})
		if n := w.picture().total.Nodes; n != 4 {
			w.Errorf("%d nodes are left of 4", n)
		}
	}
}

// testRaceRemove creates files in a directory that another goroutine removes.
func testRaceRemove(w *world) {
	w.make(Tree{})
	for round := range 15 {
		name := strconv.Itoa(round)
		d, err := w.root.Mkdir(w.ctx, name)
		w.ok("Mkdir", err)
		var made, removed error
		together(2, func(i int) {
			if i == 0 {
				_, made = d.Create(w.ctx, "f")
			} else {
				removed = w.root.Remove(w.ctx, name, vfs.If{})
			}
		})
		switch {
		case made == nil && removed == nil:
			w.Errorf("a file was made in a directory that was removed")
		case made == nil:
			w.is("Remove", removed, vfs.NotEmpty)
			w.has(name+"/f", "")
		case removed == nil:
			w.is("Create", made, vfs.Stale, vfs.NotFound)
		default:
			w.Errorf("neither was done: %v, %v", made, removed)
		}
	}
}
