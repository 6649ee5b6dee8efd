package cas_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"capd/backend/cas"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// tick waits until the clock of the file system's times has advanced.
func tick() { time.Sleep(20 * time.Millisecond) }

func begin(t *testing.T, s *cas.Store) cas.Upload {
	t.Helper()
	u, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	return u
}

func add(t *testing.T, u cas.Upload, data string) {
	t.Helper()
	if _, err := u.Add(t.Context(), section(data)); err != nil {
		t.Fatal(err)
	}
}

func commit(t *testing.T, u cas.Upload) {
	t.Helper()
	if err := u.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// An upload that began early and commits late stores what a later one relies on. It does
// not make that as old as itself.
func TestCollectKeepsWhatWasStagedEarlierToo(t *testing.T) {
	for what, later := range map[string]func(t *testing.T, s *cas.Store) cas.Upload{
		"stored by the later": func(t *testing.T, s *cas.Store) cas.Upload {
			u := begin(t, s)
			add(t, u, "hello")
			commit(t, u)
			return u
		},
		"found by the later": func(t *testing.T, s *cas.Store) cas.Upload {
			addBlob(t, s, "hello")
			tick()
			u := begin(t, s)
			add(t, u, "hello")
			return u
		},
	} {
		t.Run(what, func(t *testing.T) {
			s, dir := openStore(t)
			early := begin(t, s)
			add(t, early, "hello")
			tick()
			u := later(t, s)
			blob := blobPath(dir, cas.DigestOf([]byte("hello")))
			young := modified(t, blob)
			defer cas.AtStep(func(at string) { // where its process may be killed
				if at == "placed" && modified(t, blob).Before(young) {
					t.Error("the earlier upload makes it older")
				}
			})()
			commit(t, early)
			early.Close()
			if r := collect(t, s, now); r.Removed != 0 || r.Blobs != 1 {
				t.Errorf("while an upload counts on it: %+v", r)
			}
			u.Close()
			tick()
			if r := collect(t, s, now); r.Removed != 1 {
				t.Errorf("after the upload: %+v", r)
			}
		})
	}
}

// No touch sets a time that was requested before: of two the later one counts, in
// whatever order they end.
func TestTouchIsInOrderWithNewFiles(t *testing.T) {
	if cas.TouchAlone {
		t.Skip("here the lock sees to that")
	}
	dir := t.TempDir()
	touched := filepath.Join(dir, "touched")
	if err := os.WriteFile(touched, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	born := func() time.Time {
		f, err := os.CreateTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return modified(t, f.Name())
	}
	for range 100 {
		before := born()
		if err := cas.Touch(touched); err != nil {
			t.Fatal(err)
		}
		after := born()
		if at := modified(t, touched); at.Before(before) || at.After(after) {
			t.Fatalf("touched at %v, between %v and %v", at, before, after)
		}
	}
}

func modified(t *testing.T, path string) time.Time {
	t.Helper()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fi.ModTime()
}

// What a long upload stored or found at its beginning has the whole grace period after
// its commit.
func TestGraceBeginsWithTheCommit(t *testing.T) {
	s, dir := openStore(t)
	addBlob(t, s, "found")
	u := begin(t, s)
	add(t, u, "found")
	add(t, u, "stored")
	age(t, dir, 2*cas.DefaultGrace)
	ageStaged(t, dir, 2*cas.DefaultGrace)
	commit(t, u)
	u.Close()
	if r := collect(t, s, cas.CollectOptions{}); r.Removed != 0 || r.Blobs != 2 {
		t.Errorf("%+v", r)
	}
}

// ageStaged sets the time of what uploads in progress have staged back by this much.
func ageStaged(t *testing.T, dir string, by time.Duration) {
	t.Helper()
	staged, err := filepath.Glob(filepath.Join(dir, "tmp", "*", "[0-9]*"))
	if err != nil || len(staged) == 0 {
		t.Fatalf("nothing is staged: %v", err)
	}
	then := time.Now().Add(-by)
	for _, path := range staged {
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
	}
}

// A collector that cannot tell how long an upload has been in progress removes nothing.
func TestCollectRefusesWhatItCannotTell(t *testing.T) {
	s, dir := openStore(t)
	addBlob(t, s, "x")
	age(t, dir, time.Hour)
	if err := os.MkdirAll(filepath.Join(dir, "tmp", "u", "lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := s.Collect(t.Context(), now)
	is(t, "Collect", err, vfs.Internal)
	if r.Removed != 0 {
		t.Errorf("%+v", r)
	}
}

// If something is found to be damaged after an upload relied on it, the commit reports
// that it is missing.
func TestCommitMissesWhatWasDamaged(t *testing.T) {
	s, dir := openStore(t)
	d := addBlob(t, s, "hello")
	u := begin(t, s)
	add(t, u, "hello")
	spoil(t, dir, d, "hellO")
	_, err := readBlob(t, s, d)
	is(t, "reading", err, vfs.Corrupt)
	is(t, "Commit", u.Commit(t.Context()), vfs.Corrupt)
	addBlob(t, s, "hello")
	if got, err := readBlob(t, s, d); err != nil || got != "hello" {
		t.Errorf("put again, it is %q, %v", got, err)
	}
}

// An upload replaces a damaged content, whether or not a reader has noticed the damage.
func TestUploadReplacesWhatIsDamaged(t *testing.T) {
	s, dir := openStore(t)
	d := addBlob(t, s, "hello")
	spoil(t, dir, d, "hell")
	addBlob(t, s, "hello")
	if got, err := readBlob(t, s, d); err != nil || got != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

// An open tree may lack a directory when the collector reaches it. If the directory is
// stored again meanwhile, everything below it is kept.
func TestCollectComesBackToWhatWasLacking(t *testing.T) {
	s, dir := openStore(t)
	sub := put(t, s, vfstest.Tree{"f": {Data: "f"}})
	root := put(t, s, vfstest.Tree{"sub/f": {Data: "f"}})
	if err := s.Unpin(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	addBlob(t, s, "unwanted")
	age(t, dir, time.Hour)
	message, err := readBlob(t, s, sub)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(blobPath(dir, sub)); err != nil {
		t.Fatal(err)
	}
	open(t, s, root)
	defer cas.AtStep(func(at string) {
		if at == "marked" {
			addBlob(t, s, message)
			if err := s.Pin(t.Context(), "late", root); err != nil {
				t.Error(err)
			}
		}
	})()
	if r := collect(t, s, now); r.Removed != 1 {
		t.Errorf("%+v", r)
	}
	whole(t, s, root)
}
