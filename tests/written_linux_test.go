package tests

import (
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"capd/client"
	"capd/vfs"
)

// written is what guests were told is stored.
type written struct {
	mu     sync.Mutex
	files  map[string]string // content by name; written once
	counts map[string]int    // the last count by name
	logs   map[string][]string
}

func (w *written) file(name, data string)   { w.mu.Lock(); defer w.mu.Unlock(); w.files[name] = data }
func (w *written) gone(name string)         { w.mu.Lock(); defer w.mu.Unlock(); delete(w.files, name) }
func (w *written) count(name string, n int) { w.mu.Lock(); defer w.mu.Unlock(); w.counts[name] = n }
func (w *written) log(name, token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logs[name] = append(w.logs[name], token)
}

// check looks for everything that was answered, in all copies.
func (w *written) check(t *testing.T, root *client.Dir) {
	t.Helper()
	found := map[string][]string{}
	collect(t, root, "", func(path, data string) {
		name := filepath.Base(path)
		found[name] = append(found[name], data)
	})
	for name, want := range w.files {
		lost := true
		for _, data := range found[name] {
			lost = lost && data != want
		}
		if lost {
			attacks.escape(t)
			t.Errorf("%s is lost: %q", name, found[name])
		}
	}
	for name, want := range w.counts {
		most := -1
		for _, data := range found[name] {
			n, err := strconv.Atoi(data)
			ok(t, err)
			most = max(most, n)
		}
		if most < want {
			attacks.escape(t)
			t.Errorf("%s was written up to %d, and is %q", name, want, found[name])
		}
	}
	for name, tokens := range w.logs {
		all := strings.Join(found[name], "")
		for _, token := range tokens {
			if !strings.Contains(all, token) {
				attacks.escape(t)
				t.Errorf("%s of %s is lost", token, name)
			}
		}
	}
}

// collect calls f for every file below d.
func collect(t testing.TB, d vfs.Dir, at string, f func(path, data string)) (nodes int) {
	t.Helper()
	for e, err := range d.List(t.Context()) {
		ok(t, err)
		nodes++
		n, err := d.Lookup(t.Context(), e.Name)
		ok(t, err)
		switch n := n.(type) {
		case vfs.Dir:
			nodes += collect(t, n, vfs.Join(at, e.Name), f)
		case vfs.File:
			c, err := vfs.Open(t.Context(), n)
			ok(t, err)
			b, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
			ok(t, err)
			f(vfs.Join(at, e.Name), string(b))
			c.Close()
		}
		n.Close()
	}
	return nodes
}
