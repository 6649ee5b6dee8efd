package physical_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"capd/backend/physical"
	"capd/tests/scratch"
	"capd/vfs"
)

// linkers are programs that make a name inside lead to a file outside, and to a file of
// their own, in turn, as fast as they can. They get the paths of the two.
var linkers = map[string]func(outside, inside string){
	"link":      linkForever,
	"alternate": alternateForever,
	"swap":      swapForever,
	"carry":     carryForever,
}

func init() {
	for name, forever := range linkers {
		other[name] = func(args []string) { forever(args[0], args[1]) }
	}
}

// linkForever links and unlinks.
func linkForever(outside, inside string) {
	for {
		unix.Link(outside, inside)
		unix.Unlink(inside)
		touch(inside)
		unix.Unlink(inside)
	}
}

// alternateForever renames one over the other, so that there is always a file.
func alternateForever(outside, inside string) {
	linked, own := inside+".linked", inside+".own"
	for {
		touch(own)
		unix.Link(outside, linked)
		unix.Rename(linked, inside)
		unix.Rename(own, inside)
	}
}

// swapForever exchanges the two.
func swapForever(outside, inside string) {
	linked := inside + ".linked"
	for {
		unix.Link(outside, linked)
		unix.Renameat2(unix.AT_FDCWD, linked, unix.AT_FDCWD, inside, unix.RENAME_EXCHANGE)
		unix.Renameat2(unix.AT_FDCWD, linked, unix.AT_FDCWD, inside, unix.RENAME_EXCHANGE)
		unix.Unlink(linked)
	}
}

// carryForever moves the directory outside, and moves the file outside into it while it
// is there. The file never has more than one name.
func carryForever(outside, inside string) {
	dir := filepath.Dir(inside)
	away, own := outside+".dir", outside+".own"
	file := filepath.Join(away, filepath.Base(inside))
	for {
		unix.Rename(dir, away)
		unix.Rename(file, own)
		unix.Rename(outside, file)
		unix.Rename(file, outside)
		unix.Rename(own, file)
		unix.Rename(away, dir)
	}
}

// touch makes a file.
func touch(path string) {
	if fd, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY, 0o644); err == nil {
		unix.Close(fd)
	}
}

// inPlace are the changes in place.
var inPlace = map[string]func(w served, f vfs.File) error{
	"write": func(w served, f vfs.File) error {
		_, err := f.WriteAt(w.ctx, []byte("guest"), 0, vfs.If{})
		return err
	},
	"append": func(w served, f vfs.File) error {
		_, err := vfs.Append(w.ctx, f, []byte("guest"), vfs.If{})
		return err
	},
	"truncate": func(w served, f vfs.File) error { return f.Truncate(w.ctx, 3, vfs.If{}) },
}

// inPlaceLasts is how long all races of changes in place run together. A campaign sets
// the number of seconds.
func inPlaceLasts() time.Duration {
	if s, err := strconv.Atoi(os.Getenv("CAPD_SOAK")); err == nil {
		return time.Duration(s) * time.Second
	}
	if os.Getenv("CAPD_CI") != "" {
		return 20 * time.Second
	}
	return 2 * time.Second
}

// TestAttackRacesInPlace: a file is changed in place while another program makes its name
// lead to a file outside, which always keeps its name outside. That file never changes.
func TestAttackRacesInPlace(t *testing.T) {
	places := map[string]string{"memory": os.TempDir(), "disk": scratch.Disk()}
	races := len(places) * len(linkers)
	for place, dir := range places {
		for _, linker := range slices.Sorted(maps.Keys(linkers)) {
			t.Run(place+"/"+linker, func(t *testing.T) {
				raceInPlace(t, dir, linker, inPlaceLasts()/time.Duration(races))
			})
		}
	}
}

const precious = "what no guest may change"

func raceInPlace(t *testing.T, in, linker string, lasts time.Duration) {
	base, err := os.MkdirTemp(in, "capd-race-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	dir, outside := filepath.Join(base, "served"), filepath.Join(base, "outside")
	w := served{T: t, ctx: t.Context(), dir: dir}
	w.mkdir("d")
	w.write("d/f", "inside")
	kept, err := os.OpenFile(outside, os.O_RDWR|os.O_CREATE, 0o644) // wherever it is moved
	w.ok(err)
	defer kept.Close()
	w.ok(restore(kept))
	w.store = open(t, dir, physical.Options{})
	w.root = w.store.Root()
	f := w.file("d/f")
	cmd := run(t, linker, outside, w.host("d/f"))
	seen := map[string]*inPlaceCount{}
	for op := range inPlace {
		seen[op] = &inPlaceCount{refused: map[vfs.Code]int{}}
	}
	enough := func() bool {
		for _, c := range seen {
			if c.done < 100 || c.attempts-c.done < 100 {
				return false
			}
		}
		return true
	}
	start := time.Now()
	for i := 0; time.Since(start) < lasts || !enough(); i++ {
		for op, change := range inPlace {
			err := change(w, f)
			w.is(op+" in a race", err, "", vfs.Denied, vfs.Stale, vfs.NotFound, vfs.Busy)
			seen[op].add(err)
			if !intact(kept) {
				seen[op].outside++
				w.ok(restore(kept))
			}
		}
		if time.Since(start) > lasts+raceTime {
			t.Errorf("vacuous")
			break
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	for op, c := range seen {
		t.Logf("%-8s %8d attempts, %8d done, refused %v, outside changed %d", op, c.attempts, c.done, c.refused, c.outside)
		if c.outside > 0 {
			t.Errorf("%s changed the file outside %d times", op, c.outside)
		}
	}
}

func restore(f *os.File) error {
	_, err := f.WriteAt([]byte(precious), 0)
	return errors.Join(err, f.Truncate(int64(len(precious))))
}

func intact(f *os.File) bool {
	b := make([]byte, 2*len(precious))
	n, _ := f.ReadAt(b, 0)
	return string(b[:n]) == precious
}

// inPlaceCount counts the results of one kind of change.
type inPlaceCount struct {
	attempts, done, outside int
	refused                 map[vfs.Code]int
}

func (c *inPlaceCount) add(err error) {
	c.attempts++
	if err == nil {
		c.done++
	} else {
		c.refused[vfs.CodeOf(err)]++
	}
}
