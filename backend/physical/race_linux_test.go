package physical_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"strconv"
	"strings"
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

// raceTime is how long a race may take to have seen enough of both outcomes.
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

// TestRaceDirectoryAndLink: another program exchanges a directory with a link
// to a directory outside, while everything is tried on names below it.
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

// TestRaceFileAndFIFO: another program exchanges a file with a FIFO that nobody
// writes or reads.
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

// TestRaceReplaceAndDirectory: a Replace never takes the place of a directory
// that is exchanged in at the last moment.
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

// supersedeForever puts a<n> in place of whatever file is there, by exchange,
// and prints what it displaced.
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
		fmt.Fprintf(out, "%s\n", b)
		out.Flush()
		time.Sleep(200 * time.Microsecond)
	}
}

// TestRaceReplaceIf: of this process's Replace with a condition and another
// program's exchange, each content is displaced by one alone.
func TestRaceReplaceIf(t *testing.T) {
	w := serve(t, physical.Options{})
	w.write("f", "a0")
	f := w.file("f")
	attacker := program("supersede", w.host("f"))
	var displaced bytes.Buffer
	attacker.Stdout = &displaced
	w.ok(attacker.Start())
	did := map[string]bool{}
	conflicts := 0
	for start := time.Now(); time.Since(start) < 2*time.Second; {
		old, err := w.read(f)
		if err != nil || !strings.HasPrefix(old, "a") {
			continue
		}
		err = w.put(w.root, "f", "g"+old, vfs.If{Is: sha256.Sum256([]byte(old))})
		w.is("Replace", err, "", vfs.Conflict, vfs.Busy)
		if err == nil {
			did[old] = true
		} else {
			conflicts++
		}
	}
	attacker.Process.Kill()
	attacker.Wait()
	theirs := strings.Fields(displaced.String())
	lost := 0
	for _, content := range theirs {
		if did[content] {
			lost++
		}
	}
	t.Logf("%d replaced, %d conflicts, %d by the other program", len(did), conflicts, len(theirs))
	if lost > 0 {
		t.Errorf("%d contents were displaced twice", lost)
	}
	if len(did) == 0 || conflicts == 0 {
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
