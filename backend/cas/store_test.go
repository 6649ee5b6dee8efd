package cas_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"capd/backend/cas"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

var is = check.Is

func blobPath(dir string, d cas.Digest) string {
	return filepath.Join(dir, "blobs", d.String()[:2], d.String()[2:])
}

// spoil changes the stored content of d.
func spoil(t testing.TB, dir string, d cas.Digest, data string) {
	t.Helper()
	path := blobPath(dir, d)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsDamagedIsCorrupt(t *testing.T) {
	for what, data := range map[string]string{"another byte": "hellO", "shorter": "hell", "longer": "hello ", "empty": ""} {
		t.Run(what, func(t *testing.T) {
			s, dir := openStore(t)
			tree := vfstest.Tree{"f": {Data: "hello"}}
			root := put(t, s, tree)
			d := cas.DigestOf([]byte("hello"))
			if got, err := readBlob(t, s, d); err != nil || got != "hello" {
				t.Fatalf("%q, %v", got, err) // which is remembered
			}
			spoil(t, dir, d, data)
			n, err := open(t, s, root).Lookup(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			for range 2 { // the second time it is out of the way
				_, err = vfs.Open(t.Context(), n.(vfs.File))
				is(t, "reading what is damaged", err, vfs.Corrupt)
				if err != nil && strings.Contains(err.Error(), dir) {
					t.Errorf("the error names a path of the host: %v", err)
				}
				_, err = readBlob(t, s, d)
				is(t, "reading what is damaged", err, vfs.Corrupt)
			}
			is(t, "pinning what is damaged", s.Pin(t.Context(), "p", root), vfs.Corrupt)
			if again := put(t, s, tree); again != root {
				t.Fatal("another root")
			}
			if got, err := readBlob(t, s, d); err != nil || got != "hello" {
				t.Errorf("put again, it is %q, %v", got, err)
			}
		})
	}
}

// If the size in a digest is wrong, the error is the caller's, and not the blob's.
func TestAWrongSizeDamagesNothing(t *testing.T) {
	s, _ := openStore(t)
	d := addBlob(t, s, "hello")
	for _, size := range []int64{0, 4, 6, 1 << 40} {
		_, err := readBlob(t, s, cas.Digest{Hash: d.Hash, Size: size})
		is(t, "a wrong size", err, vfs.Corrupt)
	}
	_, err := readBlob(t, s, cas.Digest{Hash: d.Hash, Size: -1})
	is(t, "no size", err, vfs.Invalid)
	if got, err := readBlob(t, s, d); err != nil || got != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestADirectoryThatIsNone(t *testing.T) {
	s, dir := openStore(t)
	_, err := cas.Open(t.Context(), s, addBlob(t, s, "no directory"))
	is(t, "Open", err, vfs.Corrupt)
	_, err = cas.Open(t.Context(), s, cas.Digest{Hash: [32]byte{1}, Size: 5})
	is(t, "Open of nothing", err, vfs.NotFound)
	_, err = cas.Open(t.Context(), s, cas.Digest{Hash: [32]byte{1}, Size: cas.MaxDirectory + 1})
	is(t, "Open of too much", err, vfs.TooLarge)
	_, err = cas.Open(t.Context(), s, cas.Digest{Size: -1})
	is(t, "Open without a size", err, vfs.Invalid)
	if left, err := os.ReadDir(filepath.Join(dir, "leases")); err != nil || len(left) > 0 {
		t.Errorf("a tree that was not opened is leased: %v, %v", left, err)
	}
	d, err := cas.Open(t.Context(), s, cas.Empty)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for e := range d.List(t.Context()) {
		t.Errorf("the empty directory has %q", e.Name)
	}
}

func TestUpload(t *testing.T) {
	s, dir := openStore(t)
	u, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	add := func(data []byte) (cas.Digest, error) {
		return u.Add(t.Context(), io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data))))
	}
	for _, data := range [][]byte{[]byte("small"), large, []byte("small"), large, nil} {
		d, err := add(data)
		if err != nil || d != cas.DigestOf(data) {
			t.Fatalf("%d bytes: %v, %v", len(data), d, err)
		}
		if d != cas.Empty {
			_, err = readBlob(t, s, d)
			is(t, "reading before the commit", err, vfs.NotFound)
		}
	}
	if got := u.Stored(); got != int64(len(large)+len("small")) {
		t.Errorf("%d bytes are new", got)
	}
	if err := u.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = add([]byte("late"))
	is(t, "adding after the commit", err, vfs.Stale)
	is(t, "committing again", u.Commit(t.Context()), vfs.Stale)
	for range 2 {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	}
	if got, err := readBlob(t, s, cas.DigestOf(large)); err != nil || got != string(large) {
		t.Errorf("%d bytes, %v", len(got), err)
	}

	// A reader that ends early makes the whole content corrupt.
	for _, size := range []int64{10, 2 << 20} {
		u, err = s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = u.Add(t.Context(), io.NewSectionReader(strings.NewReader("short"), 0, size))
		is(t, "a reader that ends early", err, vfs.Conflict)
		is(t, "its commit", u.Commit(t.Context()), vfs.Conflict)
		u.Close()
	}
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) > 0 {
		t.Errorf("tmp holds %v, %v", left, err)
	}
}

// What refuses a commit also applies to an upload's.
func TestUploadAsksItsContext(t *testing.T) {
	s, _ := openStore(t)
	ctx := vfs.OnCommit(t.Context(), func(e vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
		if e.Bytes == 0 || e.Nodes == 0 {
			t.Errorf("declared %+v", e)
		}
		return vfs.Effect{}, vfs.Revoked
	})
	_, err := cas.Put(ctx, s, source(t, sample), cas.PutOptions{})
	is(t, "Put", err, vfs.Revoked)
	_, err = readBlob(t, s, cas.DigestOf([]byte("hello")))
	is(t, "reading what was refused", err, vfs.NotFound)
}

func TestContents(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := cas.OpenAmbient(dir, cas.Options{MaxContents: 2})
	if err != nil {
		t.Fatal(err)
	}
	d := addBlob(t, s, "hello")
	var held []vfs.Content
	for range 2 {
		c, err := s.Open(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	_, err = s.Open(t.Context(), d)
	is(t, "one too many", err, vfs.Busy)
	for range 2 {
		held[0].Close()
	}
	if _, err := held[0].ReadAt(make([]byte, 1), 0); vfs.CodeOf(err) != vfs.Stale {
		t.Errorf("a closed content: %v", err)
	}
	c, err := s.Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	defer held[1].Close()
	_, err = s.Open(t.Context(), d)
	is(t, "one too many", err, vfs.Busy)
}

// undated leaves out the times when pins were made.
func undated(pins []cas.Pin) {
	for i := range pins {
		pins[i].Made = time.Time{}
	}
}

func TestPins(t *testing.T) {
	s, dir := openStore(t)
	a := put(t, s, vfstest.Tree{"a": {Data: "a"}})
	b := put(t, s, vfstest.Tree{"b": {Data: "b"}})
	for name, root := range map[string]cas.Digest{"z": a, "k": b, "z2": cas.Empty} {
		if err := s.Pin(t.Context(), name, root); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Pin(t.Context(), "z", b); err != nil { // in place of a
		t.Fatal(err)
	}
	for _, name := range []string{"", ".", "..", "a/b", ".hidden", "a\nb", "\xff", strings.Repeat("n", 256)} {
		is(t, "pin "+name, s.Pin(t.Context(), name, a), vfs.Invalid)
		is(t, "unpin "+name, s.Unpin(t.Context(), name), vfs.Invalid)
	}
	is(t, "a pin of nothing", s.Pin(t.Context(), "n", cas.Digest{Hash: [32]byte{1}, Size: 3}), vfs.NotFound)
	is(t, "a pin without a size", s.Pin(t.Context(), "n", cas.Digest{Hash: a.Hash, Size: -1}), vfs.Invalid)
	is(t, "unpin of nothing", s.Unpin(t.Context(), "n"), vfs.NotFound)
	if err := s.Unpin(t.Context(), "z2"); err != nil {
		t.Error(err)
	}
	about := cas.About{Of: "some/where", Files: 1, Bytes: 1 << 40}
	if err := s.PinAbout(t.Context(), "t", b, about); err != nil {
		t.Fatal(err)
	}
	is(t, "a note that is too long", s.PinAbout(t.Context(), "n", b, cas.About{Of: strings.Repeat("x", 1<<20)}), vfs.TooLarge)
	pins, err := reopen(t, dir).Pins(t.Context())
	if err != nil || len(pins) != 3 || pins[1].About != about || time.Since(pins[1].Made).Abs() > time.Hour {
		t.Fatalf("Pins = %v, %v, with a note %v", pins, err, about)
	}
	pins[1].About = cas.About{}
	undated(pins)
	want := []cas.Pin{{Name: "k", Root: b}, {Name: "t", Root: b}, {Name: "z", Root: b}}
	if !slices.Equal(pins, want) {
		t.Errorf("Pins = %v, want %v", pins, want)
	}
	if err := os.Remove(blobPath(dir, cas.DigestOf([]byte("a")))); err != nil {
		t.Fatal(err)
	}
	is(t, "a pin of what is not all there", s.Pin(t.Context(), "k", a), vfs.Corrupt)
	if pins, err = s.Pins(t.Context()); err != nil || pins[0].Root != b {
		t.Errorf("a pin that failed changed it: %v, %v", pins, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pins", "bad"), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = s.Pins(t.Context())
	code(t, "a pin that is garbage", err, vfs.Corrupt, "bad")
	_, err = s.Collect(t.Context(), cas.CollectOptions{Grace: -1})
	is(t, "collecting past a pin that is garbage", err, vfs.Corrupt)
}

func TestOpenAmbientErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := cas.OpenAmbient(file, cas.Options{}); err == nil {
		t.Error("a file is opened as a store")
	}
}

// A File's own ReadAt opens the blob each time, and notices that it was changed.
func TestReadAtVerifies(t *testing.T) {
	s, dir := openStore(t)
	n, err := open(t, s, put(t, s, vfstest.Tree{"f": {Data: "hello"}})).Lookup(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	f, p := n.(vfs.File), make([]byte, 2)
	if got, err := f.ReadAt(t.Context(), p, 3); got != 2 || err != nil && !errors.Is(err, io.EOF) || string(p) != "lo" {
		t.Errorf("%q, %v", p[:got], err)
	}
	spoil(t, dir, cas.DigestOf([]byte("hello")), "hellO")
	_, err = f.ReadAt(t.Context(), p, 0)
	is(t, "ReadAt", err, vfs.Corrupt)
}

func section(data string) *io.SectionReader {
	return io.NewSectionReader(strings.NewReader(data), 0, int64(len(data)))
}

// A commit, or a close, waits for the adds in progress, or comes before them.
func TestUploadOfManyAtOnce(t *testing.T) {
	s, dir := openStore(t)
	for range 20 {
		u, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				data := strings.Repeat(string(rune('a'+i%4)), 1<<(18+i%4)) // each by two at once
				if d, err := u.Add(t.Context(), section(data)); err == nil && d != cas.DigestOf([]byte(data)) {
					t.Errorf("%d bytes are %v", len(data), d)
				} else if err != nil && vfs.CodeOf(err) != vfs.Stale {
					t.Error(err)
				}
			})
		}
		if err := u.Commit(t.Context()); err != nil {
			t.Error(err)
		}
		all.Wait()
		u.Close()
		age(t, dir, time.Hour)
		sound(t, dir)
	}
}
