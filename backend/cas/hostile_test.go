package cas_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/proto"

	"capd/backend/cas"
	"capd/vfs"
)

// messages is a store that holds what it is given, and counts what is requested.
type messages struct {
	cas.Blobs
	stored map[cas.Digest][]byte
	opened map[cas.Digest]int
	read   func(context.Context) // when a content is read
}

func newMessages() *messages {
	return &messages{stored: map[cas.Digest][]byte{}, opened: map[cas.Digest]int{}, read: func(context.Context) {}}
}

func (m *messages) Open(ctx context.Context, d cas.Digest) (vfs.Content, error) {
	data, ok := m.stored[d]
	if !ok {
		return nil, vfs.Errorf(vfs.NotFound, "the store has no content with this digest")
	}
	if m.opened != nil {
		m.opened[d]++
	}
	return &messageContent{bytes.NewReader(data), func() { m.read(ctx) }}, nil
}

type messageContent struct {
	*bytes.Reader
	read func()
}

func (c *messageContent) ReadAt(p []byte, off int64) (int, error) {
	c.read()
	return c.Reader.ReadAt(p, off)
}

func (c *messageContent) Close() error { return nil }

// add stores a directory, and returns its digest.
func (m *messages) add(t testing.TB, d *repb.Directory) cas.Digest {
	t.Helper()
	message, err := proto.MarshalOptions{Deterministic: true}.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	digest := cas.DigestOf(message)
	m.stored[digest] = message
	return digest
}

func message(d cas.Digest) *repb.Digest {
	return &repb.Digest{Hash: d.String(), SizeBytes: d.Size}
}

// Something that is not a directory is read once. A guest is told the code and nothing
// about how trees are stored; the cause has that.
func TestWhatAGuestIsTold(t *testing.T) {
	m := newMessages()
	link := func(name string) *repb.SymlinkNode { return &repb.SymlinkNode{Name: name, Target: "x"} }
	unsorted := m.add(t, &repb.Directory{Symlinks: []*repb.SymlinkNode{link("b"), link("a")}})
	large := m.add(t, &repb.Directory{Directories: []*repb.DirectoryNode{{Name: "d", Digest: message(cas.Digest{Size: cas.MaxDirectory + 1})}}})
	missing := cas.DigestOf([]byte("missing"))
	root := m.add(t, &repb.Directory{
		Files: []*repb.FileNode{{Name: "file", Digest: message(missing)}},
		Directories: []*repb.DirectoryNode{
			{Name: "large", Digest: message(large)},
			{Name: "missing", Digest: message(missing)},
			{Name: "unsorted", Digest: message(unsorted)},
		},
	})
	d, err := cas.Open(t.Context(), m, root)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for name, want := range map[string]vfs.Code{"file": vfs.Corrupt, "missing": vfs.Corrupt, "unsorted": vfs.Corrupt, "large": vfs.TooLarge} {
		for range 3 {
			n, err := d.Lookup(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			switch n := n.(type) {
			case vfs.File:
				_, err = n.ReadAt(t.Context(), make([]byte, 1), 0)
			case vfs.Dir:
				for _, listed := range n.List(t.Context()) {
					err = listed
				}
			}
			n.Close()
			is(t, name, err, want)
			if e, ok := errors.AsType[*vfs.Error](err); !ok || e.Cause == nil || err.Error() != vfs.At("", want).Error() {
				t.Errorf("%s: a guest is told %v", name, err)
			}
		}
	}
	if m.opened[unsorted] != 1 || m.opened[large] != 1 {
		t.Errorf("what is no directory was read %d and %d times", m.opened[unsorted], m.opened[large])
	}
	_, err = cas.Open(t.Context(), m, unsorted)
	if err == nil || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("the host is told %v", err)
	}
}

// Large messages are read one after another, and nobody else has to wait for that.
func TestLargeMessagesOneAtATime(t *testing.T) {
	m := newMessages()
	m.opened = nil // by several at once
	var roots []cas.Digest
	for i := range 4 {
		d := &repb.Directory{}
		for j := range 300 {
			d.Symlinks = append(d.Symlinks, &repb.SymlinkNode{Name: fmt.Sprintf("%d-%03d", i, j), Target: strings.Repeat("t", vfs.MaxPath)})
		}
		roots = append(roots, m.add(t, d))
	}
	if roots[0].Size < 1<<20 {
		t.Fatalf("a message of %d bytes is not large", roots[0].Size)
	}
	var now, most atomic.Int32
	m.read = func(ctx context.Context) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(5 * time.Millisecond)
		impatient, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if _, err := cas.Open(impatient, m, roots[0]); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("reading beside a large message: %v", err)
		}
		now.Add(-1)
	}
	var all sync.WaitGroup
	for _, root := range roots {
		all.Go(func() {
			d, err := cas.Open(t.Context(), m, root)
			if err != nil {
				t.Error(err)
				return
			}
			d.Close()
		})
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d were read at once", most.Load())
	}
}
