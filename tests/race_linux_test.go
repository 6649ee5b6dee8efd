package tests

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"capd/client"
	"capd/vat"
	"capd/vfs"
)

// The other programs of races. They run until they are killed, for a given
// number of times, or until their standard input ends. Then they print how often
// they did it.
func init() {
	others["exchange"] = exchangeForever
	others["remake"] = remakeForever
	others["mount"] = mountForever
	others["increment"] = incrementForever
	others["create"] = createForever
	others["relink"] = relinkForever
	others["alias"] = aliasForever
}

// exchangeForever exchanges two names again and again.
func exchangeForever(args []string) {
	times, _ := strconv.Atoi(args[2])
	done := 0
	for done < times || times == 0 {
		if unix.Renameat2(unix.AT_FDCWD, args[0], unix.AT_FDCWD, args[1], unix.RENAME_EXCHANGE) == nil {
			done++
		}
	}
	fmt.Println(done)
}

// remakeForever removes a directory and makes it again, with a file in it that
// holds the number of times.
func remakeForever(args []string) {
	for n := 0; ; n++ {
		os.Mkdir(args[0], 0o755)
		os.WriteFile(args[0]+"/n", []byte(strconv.Itoa(n)), 0o644)
		time.Sleep(time.Duration(n%8) * time.Millisecond) // long enough for some of the others
		os.RemoveAll(args[0])
	}
}

// mountForever binds a directory over another, and unmounts it again.
func mountForever(args []string) {
	for {
		unix.Mount(args[0], args[1], "", unix.MS_BIND, "")
		unix.Unmount(args[1], unix.MNT_DETACH)
	}
}

// until runs f again and again, until standard input ends.
func until(f func()) {
	var over atomic.Bool
	go func() {
		io.Copy(io.Discard, os.Stdin)
		over.Store(true)
	}()
	for !over.Load() {
		f()
	}
}

// incrementForever increments the number in a file, under the condition that the
// file has not changed since it was read.
func incrementForever(args []string) {
	c, d := guestOf(args[0])
	defer c.Close()
	won := 0
	until(func() {
		if increment(d, args[1]) == nil {
			won++
		}
	})
	fmt.Println(won)
}

func increment(d *client.Dir, path string) error {
	f := d.OpenFile(path)
	defer f.Close()
	text, v, err := f.ReadText(context.Background())
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	_, err = d.Put(context.Background(), path, strings.NewReader(strconv.Itoa(n+1)), vfs.If{Is: v})
	return err
}

// createForever creates a name made of a prefix and the moment, and prints the
// names that it created first.
func createForever(args []string) {
	c, d := guestOf(args[0])
	defer c.Close()
	var won []string
	until(func() {
		name := moment()
		if f, err := d.CreateFile(context.Background(), args[1]+name); err == nil {
			f.Close()
			won = append(won, name)
		}
	})
	fmt.Println(strings.Join(won, " "))
}

// moment returns the same for all callers within 300 microseconds.
func moment() string { return strconv.FormatInt(time.Now().UnixMicro()/300, 36) }

// relinkForever makes a name a link, then a file, and so on.
func relinkForever(args []string) {
	tmp := args[0] + ".tmp"
	for {
		os.Symlink(args[1], tmp)
		os.Rename(tmp, args[0])
		time.Sleep(200 * time.Microsecond)
		os.WriteFile(tmp, []byte("inside"), 0o755)
		os.Chmod(tmp, 0o755)
		os.Rename(tmp, args[0])
		time.Sleep(time.Millisecond)
	}
}

// aliasForever makes a name a hard link to another file, then a file of its own,
// and so on.
func aliasForever(args []string) {
	tmp := args[0] + ".tmp"
	for {
		unix.Link(args[1], tmp)
		unix.Rename(tmp, args[0])
		if fd, err := unix.Open(tmp, unix.O_CREAT|unix.O_WRONLY, 0o644); err == nil {
			unix.Close(fd)
		}
		unix.Rename(tmp, args[0])
	}
}

// enough is how often each outcome of a race must have been seen.
var enough = int64(times(200, 1000))

// raceTime is the longest that a race may take for that.
const raceTime = 2 * time.Minute

// race runs the operations in turn, several at once, until success and refusal
// were each seen often enough and over returns true. Each operation returns what
// a guest gets. A refusal must have one of the codes want. An operation itself
// judges its success, and reports an escape.
func race(t *testing.T, ops []string, want string, over func() bool, do func(ctx context.Context, op string, i int) error) {
	t.Helper()
	attacks.add(t, toll{cases: 1, names: 1, tries: int64(len(ops))})
	var did, refused, next atomic.Int64
	var wg sync.WaitGroup
	begun := time.Now()
	codes := map[vfs.Code]int{}
	var mu sync.Mutex
	for range 4 {
		wg.Go(func() {
			for !t.Failed() && time.Since(begun) < raceTime && (did.Load() < enough || refused.Load() < enough || over != nil && !over()) {
				i := int(next.Add(1))
				op := ops[i%len(ops)]
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				err := do(ctx, op, i)
				cancel()
				mu.Lock()
				codes[vfs.CodeOf(err)]++
				mu.Unlock()
				switch {
				case isTimeout(err):
					attacks.add(t, toll{hangs: 1})
					t.Errorf("%s hangs", op)
				case err == nil:
					did.Add(1)
				case hasCode(err, want):
					refused.Add(1)
				default:
					t.Errorf("%s in a race: %v, want %s", op, err, want)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d successes, %d refusals in %v: %v", did.Load(), refused.Load(), time.Since(begun).Round(time.Millisecond), codes)
	if !t.Failed() && (did.Load() < enough || refused.Load() < enough) {
		t.Errorf("vacuous: %d successes and %d refusals", did.Load(), refused.Load())
	}
}

// escaped reports content that was not served.
func escaped(t *testing.T, what, got string, want ...string) {
	t.Helper()
	if !slices.Contains(want, got) {
		attacks.escape(t)
		t.Errorf("an escape: %s got %q", what, got)
	}
}

// readThen is try; for an operation that reads it also checks the answer.
func readThen(ctx context.Context, t *testing.T, op string, d *vat.Cap, path string, want ...string) error {
	text, err := try(ctx, op, d, path)
	if err == nil && strings.HasPrefix(op, "read") {
		escaped(t, op+" "+path, text, want...)
	}
	return err
}

// counted starts a program that counts what it does.
func counted(t *testing.T, name string, args ...string) (done func() bool, stop func() []string) {
	t.Helper()
	cmd := program(name, args...)
	var out syncBuffer
	cmd.Stdout = &out
	in, err := cmd.StdinPipe()
	ok(t, err)
	ok(t, cmd.Start())
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	t.Cleanup(func() { cmd.Process.Kill(); <-ended })
	done = func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
	return done, func() []string {
		in.Close()
		select {
		case <-ended:
		case <-time.After(raceTime):
			t.Errorf("%s does not end", name)
		}
		return strings.Fields(out.String())
	}
}
