package tests

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"capd/client"
	"capd/vfs"
)

// follower knows a directory by what it is told of changes in it, and by listing what it is told to list.
type follower struct {
	t       *testing.T
	d       *client.Dir
	cursor  []byte
	known   map[string]string // by path: the content of a file, or "/" for a directory
	events  int
	rescans int
}

// catchUp asks for changes until there are none.
func (f *follower) catchUp() {
	f.t.Helper()
	for {
		page, err := f.d.Changes(f.t.Context(), vfs.ChangesQuery{Cursor: f.cursor})
		ok(f.t, err)
		if !page.Complete {
			f.t.Fatal("not everything is watched")
		}
		f.cursor = page.Cursor
		f.take(page)
		if !page.Rescan && len(page.Events) == 0 {
			return
		}
	}
}

func (f *follower) take(page vfs.ChangesPage) {
	if page.Rescan {
		f.rescans++
		f.known = map[string]string{}
		f.list("")
		return
	}
	f.events += len(page.Events)
	for _, e := range page.Events {
		switch e.Kind {
		case vfs.Moved:
			f.forget(e.From)
			f.look(e.Path)
		case vfs.Removed:
			f.forget(e.Path)
		default:
			f.look(e.Path)
		}
	}
}

func (f *follower) forget(p string) {
	maps.DeleteFunc(f.known, func(q, _ string) bool { return q == p || strings.HasPrefix(q, p+"/") })
}

// look learns what is at p.
func (f *follower) look(p string) {
	f.forget(p)
	info, err := f.d.WalkStat(f.t.Context(), p, false)
	switch {
	case err != nil: // it has gone again, and that will be told
		f.known[p] = unsure
	case info.Kind == vfs.DirKind:
		f.known[p] = "/"
		f.list(p)
	case info.Kind == vfs.FileKind:
		f.read(p, info.Size)
	}
}

func (f *follower) read(p string, size int64) {
	if size == 0 {
		f.known[p] = "="
		return
	}
	f.known[p] = unsure
	if text, _, err := f.d.OpenFile(p).ReadText(f.t.Context()); err == nil {
		f.known[p] = "=" + text
	}
}

// unsure is what is known of a place that changed while it was looked at. Something will be told of it.
const unsure = "?"

func (f *follower) list(dir string) {
	for e, err := range f.d.WalkList(f.t.Context(), dir, true) {
		if err != nil {
			f.known[dir] = unsure
			return
		}
		p := path.Join(dir, e.Name)
		switch e.Info.Kind {
		case vfs.DirKind:
			f.known[p] = "/"
			f.list(p)
		case vfs.FileKind:
			f.read(p, e.Info.Size)
		}
	}
}

// onDisk returns the same of what is in dir.
func onDisk(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	ok(t, filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || p == dir:
			return err
		case strings.HasPrefix(e.Name(), ".capd-staging-"):
			return fs.SkipDir
		}
		rel, _ := filepath.Rel(dir, p)
		if e.IsDir() {
			all[rel] = "/"
			return nil
		}
		text, err := os.ReadFile(p)
		all[rel] = "=" + string(text)
		return err
	}))
	return all
}

// differ returns where two of them differ.
func differ(got, want map[string]string) (all []string) {
	maps.DeleteFunc(got, func(p, what string) bool { return what == unsure && want[p] == "" })
	for p, w := range want {
		if g := got[p]; g != w {
			all = append(all, fmt.Sprintf("%s: %.30q is known, %.30q is there", p, g, w))
		}
	}
	for p, g := range got {
		if _, is := want[p]; !is {
			all = append(all, fmt.Sprintf("%s: %.30q is known, nothing is there", p, g))
		}
	}
	slices.Sort(all)
	return all
}

// disturb makes one random change in dir as another program does.
func disturb(r *rand.Rand, dir string) {
	any := func() string { // a path of up to three names
		p := dir
		for range 1 + r.IntN(3) {
			p = filepath.Join(p, string(rune('a'+r.IntN(4))))
		}
		return p
	}
	switch p := any(); r.IntN(10) {
	case 0, 1:
		os.MkdirAll(filepath.Dir(p), 0o755)
		os.WriteFile(p, fmt.Appendf(nil, "%d", r.IntN(1e6)), 0o644)
	case 2:
		if f, err := os.OpenFile(p, os.O_WRONLY|os.O_APPEND, 0); err == nil {
			fmt.Fprint(f, "+")
			f.Close()
		}
	case 3: // as editors save
		tmp := p + ".tmp"
		if os.WriteFile(tmp, fmt.Appendf(nil, "saved %d", r.IntN(1e6)), 0o644) == nil && os.Rename(tmp, p) != nil {
			os.Remove(tmp)
		}
	case 4, 5:
		os.Rename(p, any())
	case 6:
		unix.Renameat2(unix.AT_FDCWD, p, unix.AT_FDCWD, any(), unix.RENAME_EXCHANGE)
	case 7:
		os.RemoveAll(p)
	case 8:
		deep := filepath.Join(p, "x/y/z")
		if os.MkdirAll(deep, 0o755) == nil {
			os.WriteFile(filepath.Join(deep, "f"), []byte("deep"), 0o644)
		}
	case 9:
		os.Remove(p)
	}
}

// changeAsGuest makes one random change as a guest does.
func changeAsGuest(ctx context.Context, r *rand.Rand, d *client.Dir) {
	any := func() string {
		var names []string
		for range 1 + r.IntN(3) {
			names = append(names, string(rune('a'+r.IntN(4))))
		}
		return strings.Join(names, "/")
	}
	switch p := any(); r.IntN(6) {
	case 0, 1:
		_, _ = d.Put(ctx, p, strings.NewReader(fmt.Sprint(r.IntN(1e6))), vfs.If{})
	case 2:
		_, _ = d.CreateDir(ctx, p)
	case 3:
		_ = d.Move(ctx, p, d, any(), vfs.If{}, vfs.If{})
	case 4:
		_ = d.RemovePath(ctx, p, vfs.If{})
	case 5:
		_, _ = d.Copy(ctx, p, d, any(), vfs.If{}, vfs.If{})
	}
}

// TestChangesUnderLoad: whoever is told of changes, and lists when it is told to, knows the directory, whatever other programs and guests do
// there, and also when the kernel has dropped events.
func TestChangesUnderLoad(t *testing.T) {
	t.Parallel()
	p := newPlaceInMemory(t)
	h := serveAt(p, execCapd(t))
	locator, _, _ := h.grant("watcher", "project")
	_, d := guestOf(locator)
	busy, _, _ := h.grant("busy", "project")
	_, other := guestOf(busy)
	f := &follower{t: t, d: d}
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	f.catchUp()
	runs := 2 * time.Second
	if thorough {
		runs = 10 * time.Second
	}
	disturbed, changed, compared, overflows := 0, 0, 0, 0
	for round, end := 0, time.Now().Add(runs); time.Now().Before(end) || overflows == 0; round++ {
		var work sync.WaitGroup
		stop := make(chan struct{})
		over := func() bool {
			select {
			case <-stop:
				return true
			default:
				return false
			}
		}
		work.Go(func() {
			for r := rand.New(rand.NewPCG(uint64(seed), uint64(2*round))); !over(); disturbed++ {
				disturb(r, p.served)
				if r.IntN(50) == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
		work.Go(func() {
			for r := rand.New(rand.NewPCG(uint64(seed), uint64(2*round+1))); !over(); changed++ {
				changeAsGuest(context.Background(), r, other)
			}
		})
		for range 3 {
			time.Sleep(30 * time.Millisecond)
			f.catchUpOnce()
		}
		close(stop)
		work.Wait()
		if round%8 == 4 {
			overflows++
			flood := filepath.Join(p.served, "flood")
			ok(t, os.MkdirAll(flood, 0o755))
			f.catchUp() // it is watched now
			ok(t, h.cmd.Process.Signal(syscall.SIGSTOP))
			for i := range 9000 { // two events each
				ok(t, os.WriteFile(filepath.Join(flood, fmt.Sprint(i)), nil, 0o644))
			}
			for i := range 9000 {
				ok(t, os.Remove(filepath.Join(flood, fmt.Sprint(i))))
			}
			ok(t, os.MkdirAll(filepath.Join(flood, "late/one"), 0o755))
			ok(t, h.cmd.Process.Signal(syscall.SIGCONT))
		}
		f.catchUp()
		compared++
		if all := differ(f.known, onDisk(t, p.served)); len(all) > 0 {
			t.Fatalf("round %d: %d paths differ:\n%s", round, len(all), strings.Join(all[:min(len(all), 20)], "\n"))
		}
	}
	fmt.Printf("changes: %d by other programs, %d by guests, %d events, %d times compared, %d overflows, %d rescans: 0 missed\n",
		disturbed, changed, f.events, compared, overflows, f.rescans)
	if f.rescans < 1+overflows {
		t.Errorf("vacuous: %d rescans after %d overflows", f.rescans, overflows)
	}
	if f.events < 100 {
		t.Errorf("vacuous: %d events", f.events)
	}
}

// catchUpOnce asks once, and waits.
func (f *follower) catchUpOnce() {
	page, err := f.d.Changes(f.t.Context(), vfs.ChangesQuery{Cursor: f.cursor, Wait: 100 * time.Millisecond})
	ok(f.t, err)
	f.cursor = page.Cursor
	f.take(page)
}
