package worlds

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"capd/backend/cas"
	"capd/backend/physical"
	"capd/vfs"
	"capd/vfs/membrane"
)

// A hoard is a set of files and a store that holds them.
type hoard struct {
	source, store string
	want          map[string]string // the SHA-256 of each path's content, in hexadecimal digits
	paths         []string          // sorted
	all           tally
	root          cas.Digest
}

// storing measures putting files into a content-addressed store, and reading them from
// it.
func storing(_ Options, s *sizes, dir string) world {
	h := &hoard{source: filepath.Join(dir, "source"), store: filepath.Join(dir, "store")}
	sum := findSum()
	bySum := &contender{name: "sha256sum", missing: sum.missing, run: func(ctx context.Context) (func() error, error) {
		out, err := sum.run(ctx, h.source, append([]string{"--"}, h.paths...)...)
		return func() error {
			got := map[string]string{}
			for line := range strings.Lines(string(out)) {
				digest, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
				got[name] = digest
			}
			return h.summed(got)
		}, err
	}}
	byGo := func(workers int) *contender {
		return &contender{name: fmt.Sprintf("crypto/sha256 × %d, in Go", workers), run: func(context.Context) (func() error, error) {
			got, err := h.sum(workers)
			return func() error { return h.summed(got) }, err
		}}
	}
	reads := &contender{name: "cas.Open", run: func(ctx context.Context) (func() error, error) {
		read := &reader{}
		err := h.open(ctx, func(root vfs.Dir) error { return read.all(ctx, root) })
		return func() error { return read.is("the stored files", h.all) }, err
	}}
	puts := &contender{name: "cas.Put", run: func(ctx context.Context) (func() error, error) {
		to := filepath.Join(dir, "put")
		root, err := h.put(ctx, to)
		return func() error {
			err := os.RemoveAll(to)
			if root != h.root {
				err = errors.Join(err, differ("the root", root, h.root))
			}
			return err
		}, err
	}}
	n := s.stored()
	bytes := int64(n) * storedSize
	name := fmt.Sprintf("cas, %s in %s files: ", amount(bytes), count(n))
	half := runtime.GOMAXPROCS(0) // of the files that cas.Put has in hand: as many as it reads at once
	return world{
		rows: []row{
			{name: name + "read", floor: bySum, capd: reads, bytes: bytes, target: 0.7},
			{name: name + "read, beside Go", floor: byGo(1), capd: reads, bytes: bytes},
			{name: name + "put", floor: bySum, capd: puts, bytes: bytes, target: 0.35},
			{name: name + "put, beside Go", floor: byGo(half), capd: puts, bytes: bytes},
		},
		long: true,
		setup: func(ctx context.Context) (err error) {
			contents := randomContents()
			h.want = map[string]string{}
			err = sow(h.source, n, func(name string) []byte {
				b := contents(storedSize)
				digest := sha256.Sum256(b)
				h.want[name] = hex.EncodeToString(digest[:])
				h.all.add(b)
				return b
			})
			if err != nil {
				return err
			}
			h.paths = slices.Sorted(maps.Keys(h.want))
			if h.root, err = h.put(ctx, h.store); err != nil {
				return err
			}
			return h.verify(ctx)
		},
	}
}

// put stores the files in a new store.
func (h *hoard) put(ctx context.Context, to string) (cas.Digest, error) {
	source, err := physical.OpenAmbient(h.source, physical.Options{})
	if err != nil {
		return cas.Digest{}, err
	}
	defer source.Close()
	store, err := cas.OpenAmbient(to, cas.Options{})
	if err != nil {
		return cas.Digest{}, err
	}
	root := membrane.Guarded(source.ReadOnlyRoot(), nil)
	defer root.Close()
	return cas.Put(ctx, store, root, cas.PutOptions{Pin: "bench"})
}

// open opens the stored tree in a store that has verified nothing yet, and calls f with
// it.
func (h *hoard) open(ctx context.Context, f func(root vfs.Dir) error) error {
	store, err := cas.OpenAmbient(h.store, cas.Options{})
	if err != nil {
		return err
	}
	tree, err := cas.Open(ctx, store, h.root)
	if err != nil {
		return err
	}
	root := membrane.Guarded(tree, nil)
	return errors.Join(f(root), root.Close())
}

// verify compares the store's files with what was put.
func (h *hoard) verify(ctx context.Context) error {
	return h.open(ctx, func(root vfs.Dir) error {
		got := map[string]string{}
		for _, path := range h.paths {
			f, err := vfs.WalkFile(ctx, root, path)
			if err != nil {
				return err
			}
			v, err := vfs.VersionOf(ctx, f)
			f.Close()
			if err != nil {
				return err
			}
			got[path] = v.String()
		}
		return h.summed(got)
	})
}

// summed compares digests with those expected.
func (h *hoard) summed(got map[string]string) error {
	if maps.Equal(got, h.want) {
		return nil
	}
	for path, want := range h.want {
		if got[path] != want {
			return differ("the digest of "+path, got[path], want)
		}
	}
	return differ("digests", len(got), len(h.want))
}

// sum computes what sha256sum prints, in Go.
func (h *hoard) sum(workers int) (map[string]string, error) {
	digests, errs := make([]string, len(h.paths)), make([]error, workers)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			buf, digest := make([]byte, 64<<10), sha256.New()
			for i := w; i < len(h.paths) && errs[w] == nil; i += workers {
				digest.Reset()
				errs[w] = readInto(digest, filepath.Join(h.source, h.paths[i]), buf)
				digests[i] = hex.EncodeToString(digest.Sum(nil))
			}
		})
	}
	all.Wait()
	got := map[string]string{}
	for i, path := range h.paths {
		got[path] = digests[i]
	}
	return got, errors.Join(errs...)
}

// readInto writes a host file to w, through buf.
func readInto(w io.Writer, name string, buf []byte) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyBuffer(w, struct{ io.Reader }{f}, buf)
	return err
}

// sow makes n files, 100 per directory.
func sow(dir string, n int, content func(name string) []byte) error {
	for i := range n {
		sub := fmt.Sprintf("d%02d/e%d", i/1000, i/100%10)
		if i%100 == 0 {
			if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
				return err
			}
		}
		name := path.Join(sub, fmt.Sprintf("f%05d", i))
		if err := os.WriteFile(filepath.Join(dir, name), content(name), 0o644); err != nil {
			return err
		}
	}
	return nil
}
