package physical_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"capd/backend/physical"
	"capd/vfs"
)

func init() {
	other["exchange"] = exchangeForever
	other["supersede"] = supersedeForever
}

// exchangeForever exchanges two names as fast as it can.
func exchangeForever(args []string) {
	for {
		unix.Renameat2(unix.AT_FDCWD, args[0], unix.AT_FDCWD, args[1], unix.RENAME_EXCHANGE)
	}
}

// raceLasts is how long a race runs that cannot tell when it has seen enough.
var raceLasts = map[bool]time.Duration{false: 400 * time.Millisecond, true: 5 * time.Second}[os.Getenv("CAPD_CI") != ""]

// raceTime is how long a race may take to see enough of both outcomes.
const raceTime = 20 * time.Second

// race calls try until success and refusal were each seen often enough.
func race(t *testing.T, try func(i int) error) {
	t.Helper()
	const enough = 1000
	var did, refused int
	for i, start := 0, time.Now(); did < enough || refused < enough; i++ {
		if time.Since(start) > raceTime {
			t.Fatalf("vacuous: %d successes and %d refusals", did, refused)
		}
		if try(i) == nil {
			did++
		} else {
			refused++
		}
	}
	t.Logf("%d successes, %d refusals", did, refused)
}

// TestRaceDirectoryAndLink: another program exchanges a directory with a link to a
// directory outside, while every operation is tried on names below it.
func TestRaceDirectoryAndLink(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		w.mkdir("d")
		w.write("d/f", "inside")
		w.mkdir("../outside")
		w.write("../outside/f", "outside")
		w.ok(os.Symlink("../outside", w.host("link")))
		d, f := w.sub("d"), w.file("d/f")
		run(t, "exchange", w.host("d"), w.host("link"))
		allowed := []vfs.Code{"", vfs.Stale, vfs.NotFound, vfs.NotDir, vfs.Exists, vfs.Busy}
		race(t, func(i int) error {
			var err error
			var got string
			switch i % 6 {
			case 0, 1:
				got, err = w.read(f)
			case 2:
				var n vfs.Node
				if n, err = walk(w.ctx, w.root, "d/f"); err == nil {
					got, err = w.read(n.(vfs.File))
				}
			case 3:
				_, err = d.Create(w.ctx, "new"+strconv.Itoa(i))
			case 4:
				_, err = f.WriteAt(w.ctx, []byte("i"), 0, vfs.If{})
			case 5:
				_, err = d.Mkdir(w.ctx, "new"+strconv.Itoa(i))
			}
			if got != "" && got != "inside" {
				t.Fatalf("an escape: read %q", got)
			}
			w.is("in a race", err, allowed...)
			return err
		})
		w.has(w.host("../outside/f"), "outside")
		hasNothingElse(t, w.host("../outside"), "f")
	})
}

// TestRaceFileAndFIFO: another program exchanges a file with a FIFO that nobody reads or
// writes.
func TestRaceFileAndFIFO(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		w.write("f", "inside")
		w.ok(unix.Mkfifo(w.host("fifo"), 0o666))
		f := w.file("f")
		run(t, "exchange", w.host("f"), w.host("fifo"))
		slowest := time.Duration(0)
		race(t, func(i int) error {
			start := time.Now()
			var err error
			if i%2 == 0 {
				_, err = w.read(f)
			} else {
				_, err = f.WriteAt(w.ctx, []byte("i"), 0, vfs.If{})
			}
			slowest = max(slowest, time.Since(start))
			w.is("in a race", err, "", vfs.Stale, vfs.NotFound, vfs.Busy)
			return err
		})
		if slowest > 5*time.Second {
			t.Errorf("the slowest took %v", slowest)
		}
	})
}

// TestRaceReplaceAndDirectory: a Replace never replaces a directory that is exchanged in
// at the last moment.
func TestRaceReplaceAndDirectory(t *testing.T) {
	w := serve(t, physical.Options{})
	w.write("f", "old")
	w.mkdir("d")
	w.write("d/marker", "marker")
	attacker := run(t, "exchange", w.host("f"), w.host("d"))
	did, refused := 0, 0
	for start := time.Now(); time.Since(start) < raceTime && (did < 20 || refused < 1000 || time.Since(start) < time.Second); {
		err := w.put(w.root, "f", "new", vfs.If{})
		w.is("Replace", err, "", vfs.IsDir, vfs.Busy)
		if err == nil {
			did++
		} else {
			refused++
		}
	}
	attacker.Process.Kill()
	attacker.Wait()
	t.Logf("%d successes, %d refusals", did, refused)
	if did < 20 || refused < 1000 {
		t.Errorf("vacuous: %d successes and %d refusals", did, refused)
	}
	a, errA := os.ReadFile(w.host("f/marker"))
	b, errB := os.ReadFile(w.host("d/marker"))
	if string(a)+string(b) != "marker" {
		t.Errorf("the directory was replaced: %v, %v", errA, errB)
	}
	w.ok(w.store.Close())
	hasNothingElse(t, w.dir, "d", "f")
}

// supersedeForever exchanges a<n> with whatever file is there, and prints that and what
// it displaced.
func supersedeForever(args []string) {
	out := bufio.NewWriter(os.Stdout)
	tmp := args[0] + ".theirs"
	for n := 1; ; n++ {
		if os.WriteFile(tmp, fmt.Appendf(nil, "a%d", n), 0o644) != nil {
			return
		}
		if unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, args[0], unix.RENAME_EXCHANGE) != nil {
			continue
		}
		b, _ := os.ReadFile(tmp)
		os.Remove(tmp)
		fmt.Fprintf(out, "a%d %s\n", n, b)
		out.Flush()
		time.Sleep(50 * time.Microsecond)
	}
}

// TestRaceConditions: this process changes a file with a condition while another program
// exchanges it. Each content is displaced by only one of them, none is lost, and a change
// that answered conflict has changed nothing.
func TestRaceConditions(t *testing.T) {
	for name, change := range map[string]func(w served, mine string, c vfs.If) error{
		"Replace": func(w served, mine string, c vfs.If) error { return w.put(w.root, "f", mine, c) },
		"Rename": func(w served, mine string, c vfs.If) error {
			w.write("source", mine)
			err := w.root.Rename(w.ctx, "source", w.root, "f", vfs.If{}, c)
			if vfs.CodeOf(err) == vfs.Conflict {
				w.has(w.host("source"), mine)
			}
			return err
		},
		"Remove": func(w served, mine string, c vfs.If) error {
			err := w.root.Remove(w.ctx, "f", c)
			if err == nil {
				w.write("f", mine)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { raceConditions(t, change) })
	}
}

func raceConditions(t *testing.T, change func(w served, mine string, c vfs.If) error) {
	w := serve(t, physical.Options{})
	w.write("f", "a0")
	f := w.file("f")
	attacker := program("supersede", w.host("f"))
	var said bytes.Buffer
	attacker.Stdout = &said
	w.ok(attacker.Start())
	did, refused := map[string]bool{}, map[string]bool{} // what was displaced, and what was not put there
	start := time.Now()
	over := func() bool {
		enough := time.Since(start) > raceLasts && len(did) > 0 && len(refused) > 0
		return enough || time.Since(start) > raceTime || t.Failed()
	}
	for i := 0; !over(); i++ {
		old, err := w.read(f)
		if err != nil || !strings.HasPrefix(old, "a") {
			continue
		}
		mine := fmt.Sprintf("g%d", i)
		err = change(w, mine, vfs.If{Is: sha256.Sum256([]byte(old))})
		w.is("the change", err, "", vfs.Conflict, vfs.Busy, vfs.NotFound)
		switch vfs.CodeOf(err) {
		case "":
			did[old] = true
		case vfs.Conflict:
			refused[mine] = true
		}
	}
	attacker.Process.Kill()
	attacker.Wait()

	there := map[string]bool{} // now
	for _, name := range []string{"f", "f.theirs"} {
		if b, err := os.ReadFile(w.host(name)); err == nil {
			there[string(b)] = true
		}
	}
	placed, displaced := map[string]bool{"a0": true}, map[string]bool{}
	for line := range strings.Lines(said.String()) {
		theirs, old, _ := strings.Cut(strings.TrimSpace(line), " ")
		placed[theirs], displaced[old] = true, true
	}
	lost := 0
	for content := range placed {
		switch {
		case displaced[content] && did[content]:
			t.Errorf("%s was displaced twice", content)
		case !displaced[content] && !did[content] && !there[content]:
			lost++
		}
	}
	if lost > 1 { // the other program may have been killed before it said what it displaced last
		t.Errorf("%d of %d contents are lost", lost, len(placed))
	}
	for content := range refused {
		if displaced[content] || there[content] {
			t.Errorf("%s was put there, and the answer was conflict", content)
		}
	}
	t.Logf("%d changes, %d conflicts, %d by the other program", len(did), len(refused), len(placed))
	if len(did) == 0 || len(refused) == 0 {
		t.Error("vacuous")
	}
}

// TestReadersOutside: programs of the host see the old content or the new.
func TestReadersOutside(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		old, next := strings.Repeat("o", 300_000), strings.Repeat("n", 200_000)
		w.write("f", old)
		stop := make(chan struct{})
		done := make(chan int)
		go func() {
			n := 0
			defer func() { done <- n }()
			for {
				select {
				case <-stop:
					return
				default:
				}
				b, err := os.ReadFile(w.host("f"))
				if err != nil || string(b) != old && string(b) != next {
					t.Errorf("a reader saw %d bytes, %v", len(b), err)
					return
				}
				n++
			}
		}()
		for i := range 100 {
			w.ok(w.put(w.root, "f", []string{next, old}[i%2], vfs.If{}))
		}
		close(stop)
		t.Logf("%d reads", <-done)
	})
}

// TestRaceMovedDirectory: a directory moves while a file in it is changed through its old
// path and its new one. Each change has the effect that it answered.
func TestRaceMovedDirectory(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		w.mkdir("a")
		w.write("a/f", "")
		var grown, done atomic.Int64
		ctx := vfs.OnCommit(w.ctx, func(_ vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
			e, err := change()
			grown.Add(e.Bytes)
			return e, err
		})
		var all sync.WaitGroup
		var moves atomic.Int64
		start := time.Now()
		over := func() bool {
			enough := time.Since(start) > 300*time.Millisecond && moves.Load() >= 50 && done.Load() >= 50
			return enough || time.Since(start) > raceTime
		}
		for _, dir := range []string{"a", "b", "a", "b"} {
			all.Go(func() {
				for i := 0; !over(); i++ {
					n, err := walk(ctx, w.root, dir+"/f")
					if err != nil {
						continue
					}
					f := n.(vfs.File)
					if i%2 == 0 {
						_, err = vfs.Append(ctx, f, []byte("0123456789"), vfs.If{})
					} else {
						err = f.Truncate(ctx, int64(i%50), vfs.If{})
					}
					w.is("in a race", err, "", vfs.Stale, vfs.NotFound, vfs.Busy)
					if err == nil {
						done.Add(1)
					}
				}
			})
		}
		for !over() {
			from, to := "a", "b"
			if moves.Add(1)%2 == 0 {
				from, to = to, from
			}
			w.ok(w.root.Rename(ctx, from, w.root, to, vfs.If{}, vfs.If{}))
		}
		all.Wait()
		f := w.file([]string{"a", "b"}[moves.Load()%2] + "/f")
		info, err := f.Stat(w.ctx)
		w.ok(err)
		if info.Size != grown.Load() {
			t.Errorf("Commit was told that the file grew by %d bytes, and it has %d", grown.Load(), info.Size)
		}
		t.Logf("%d moves, %d changes", moves.Load(), done.Load())
		if moves.Load() < 50 || done.Load() < 50 {
			t.Error("vacuous")
		}
	})
}
