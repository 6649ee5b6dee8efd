package cas_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"capd/backend/cas"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// age sets the time of every blob back by this much.
func age(t testing.TB, dir string, by time.Duration) {
	t.Helper()
	then := time.Now().Add(-by)
	for _, sub := range []string{"blobs", "damaged"} {
		err := filepath.WalkDir(filepath.Join(dir, sub), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			return os.Chtimes(path, then, then)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func collect(t testing.TB, s *cas.Store, o cas.CollectOptions) cas.Report {
	t.Helper()
	r, err := s.Collect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// whole checks that all of a tree can be read.
func whole(t testing.TB, b cas.Blobs, root cas.Digest) {
	t.Helper()
	d, err := cas.Open(t.Context(), b, root)
	if err == nil {
		err = readTree(t.Context(), d)
		d.Close()
	}
	if err != nil {
		t.Errorf("reading a tree that is kept: %v", err)
	}
}

var now = cas.CollectOptions{Grace: -1}

func TestCollectKeepsWhatIsPinned(t *testing.T) {
	s, dir := openStore(t)
	shared := vfstest.Node{Data: "in both"}
	kept := put(t, s, vfstest.Tree{"f": {Data: "kept"}, "d/shared": shared})
	gone, err := cas.Put(t.Context(), s, source(t, vfstest.Tree{"f": {Data: "gone"}, "d/e/shared": shared}), cas.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if r := collect(t, s, cas.CollectOptions{}); r.Removed != 0 || r.Blobs != 7 {
		t.Errorf("within the grace: %+v", r)
	}
	age(t, dir, 2*cas.DefaultGrace)
	if r := collect(t, s, cas.CollectOptions{Grace: 3 * cas.DefaultGrace}); r.Removed != 0 {
		t.Errorf("within a longer grace: %+v", r)
	}
	dry := collect(t, s, cas.CollectOptions{DryRun: true})
	if missing, err := s.Missing(t.Context(), []cas.Digest{gone, kept}); err != nil || len(missing) > 0 {
		t.Errorf("a dry run removed %v, %v", missing, err)
	}
	calls := 0
	r := collect(t, s, cas.CollectOptions{Progress: func(cas.Report) { calls++ }})
	want := cas.Report{Blobs: 7, Bytes: r.Bytes, Removed: 3, Freed: r.Freed} // a file and two directories
	if r != want || r != dry || calls == 0 || r.Freed < int64(len("gone"))+gone.Size || r.Bytes <= r.Freed {
		t.Errorf("%+v, dry %+v, want %+v; %d calls", r, dry, want, calls)
	}
	whole(t, s, kept)
	_, err = cas.Open(t.Context(), s, gone)
	is(t, "opening what was collected", err, vfs.NotFound)
	if err := s.Unpin(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	if r := collect(t, s, cas.CollectOptions{}); r.Removed != 4 || r.Blobs != 4 {
		t.Errorf("after the unpin: %+v", r)
	}
}

func TestCollectKeepsWhatIsOpen(t *testing.T) {
	s, dir := openStore(t)
	root, err := cas.Put(t.Context(), s, source(t, sample), cas.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := cas.Open(t.Context(), s, root)
	if err != nil {
		t.Fatal(err)
	}
	sub, err := d.Lookup(t.Context(), "sub")
	if err != nil {
		t.Fatal(err)
	}
	d.Close() // what was found below is open still
	age(t, dir, time.Hour)
	if r := collect(t, s, now); r.Removed != 0 {
		t.Errorf("with a directory open: %+v", r)
	}
	if err := readTree(t.Context(), sub.(vfs.Dir)); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil { // again, which gives up nothing more
		t.Error(err)
	}
	if r := collect(t, s, now); r.Removed != 0 {
		t.Errorf("with a directory open: %+v", r)
	}
	sub.Close()
	if r := collect(t, s, now); r.Removed == 0 || r.Removed != r.Blobs {
		t.Errorf("with nothing open: %+v", r)
	}
}

func TestCollectKeepsWhatAnUploadCountsOn(t *testing.T) {
	s, dir := openStore(t)
	d := addBlob(t, s, "hello")
	age(t, dir, time.Hour)
	u, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if _, err := u.Add(t.Context(), section("hello")); err != nil {
		t.Fatal(err)
	}
	other, err := reopen(t, dir).Begin(t.Context()) // younger than that
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if r := collect(t, s, now); r.Removed != 0 || u.Stored() != 0 {
		t.Errorf("%+v, and %d bytes are new", r, u.Stored())
	}
	u.Close()
	other.Close()
	time.Sleep(20 * time.Millisecond) // a tick of the file system's clock
	if r := collect(t, s, now); r.Removed != 1 || r.Freed != d.Size {
		t.Errorf("after the upload: %+v", r)
	}
}

func TestCollectRefusesWhereAPinIsDamaged(t *testing.T) {
	s, dir := openStore(t)
	tree := vfstest.Tree{"d/f": {Data: "f"}}
	root := put(t, s, tree)
	addBlob(t, s, "unwanted")
	age(t, dir, time.Hour)
	d, err := cas.Put(t.Context(), s, source(t, vfstest.Tree{"f": {Data: "f"}}), cas.PutOptions{}) // which is d
	if err != nil {
		t.Fatal(err)
	}
	age(t, dir, time.Hour)
	spoil(t, dir, d, "spoilt")
	age(t, dir, time.Hour)
	for range 2 { // found damaged, and then missing
		r, err := s.Collect(t.Context(), now)
		code(t, "collecting below a damaged pin", err, vfs.Corrupt, "t")
		if r.Removed != 0 {
			t.Errorf("%+v", r)
		}
	}
	put(t, s, tree)
	age(t, dir, time.Hour)
	if r := collect(t, s, now); r.Removed != 1 {
		t.Errorf("put again: %+v", r)
	}
	whole(t, s, root)
	if left, err := os.ReadDir(filepath.Join(dir, "damaged")); err != nil || len(left) > 0 {
		t.Errorf("what was damaged an hour ago is still there: %v, %v", left, err)
	}
}

func TestCollectLeavesTheRestAlone(t *testing.T) {
	s, dir := openStore(t)
	addBlob(t, s, "x")
	var foreign []string
	for _, name := range []string{"readme", "ab/short", "ab/" + strings.Repeat("G", 62)} {
		path := filepath.Join(dir, "blobs", name)
		os.MkdirAll(filepath.Dir(path), 0o700)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		foreign = append(foreign, path)
	}
	age(t, dir, time.Hour)
	collect(t, s, now)
	for _, path := range foreign {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

func TestOneCollectorAtATime(t *testing.T) {
	s, dir := openStore(t)
	addBlob(t, s, "x")
	again := false
	collect(t, s, cas.CollectOptions{Progress: func(cas.Report) {
		again = true
		_, err := reopen(t, dir).Collect(t.Context(), now)
		is(t, "another collector", err, vfs.Busy)
	}})
	if !again {
		t.Error("nothing was collected")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Collect(ctx, now); err == nil {
		t.Error("a collector that is cancelled answers no error")
	}
}

// What is opened or pinned while a collector is at work is kept too, however late and
// however often.
func TestCollectKeepsWhatIsOpenedMeanwhile(t *testing.T) {
	for _, name := range []string{"marked", "removing"} {
		t.Run(name, func(t *testing.T) {
			s, dir := openStore(t)
			var roots []cas.Digest
			for n := range 4 { // the collector gives way three times, and then has everybody wait
				root, err := putNumbered(t.Context(), s, n, "")
				if err != nil {
					t.Fatal(err)
				}
				roots = append(roots, root)
			}
			addBlob(t, s, "unwanted")
			age(t, dir, time.Hour)
			var held []vfs.Dir
			undo := cas.AtStep(func(at string) {
				if n := len(held); at == name && n < len(roots) {
					held = append(held, open(t, s, roots[n]))
					if n%2 == 1 {
						if err := s.Pin(t.Context(), "late", roots[n-1]); err != nil {
							t.Error(err)
						}
					}
				}
			})
			defer undo()
			r := collect(t, s, now)
			if len(held) != map[string]int{"marked": 1, "removing": len(roots)}[name] {
				t.Fatalf("%d trees were opened meanwhile", len(held))
			}
			for _, d := range held {
				if err := readTree(t.Context(), d); err != nil {
					t.Errorf("reading what was opened meanwhile: %v", err)
				}
			}
			if r.Removed == 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}
