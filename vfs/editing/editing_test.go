package editing_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"sync"
	"testing"

	"capd/vfs"
	"capd/vfs/edit"
	"capd/vfs/editing"
)

// file is a file in memory.
type file struct {
	vfs.File
	mu     sync.Mutex
	text   []byte
	before func(ctx context.Context) // runs before each Replace; may be nil
}

func (f *file) Open(ctx context.Context) (vfs.Content, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return vfs.NewContent(ctx, content{bytes.NewReader(f.text)}, int64(len(f.text))), nil
}

type content struct{ *bytes.Reader }

func (content) Close() error { return nil }

func (f *file) Replace(ctx context.Context, r io.Reader, c vfs.If) (vfs.Version, error) {
	if f.before != nil {
		f.before(ctx)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return vfs.Version{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := c.Check(true, sha256.Sum256(f.text)); err != nil {
		return vfs.Version{}, err
	}
	f.text = b
	return sha256.Sum256(b), nil
}

func replacing(old, new string) editing.Request {
	return editing.Request{Edits: []edit.Edit{{Old: []byte(old), New: []byte(new)}}}
}

// While somebody decides about an edit, another one of the same file is made. The first begins again.
func TestOthersGoOnMeanwhile(t *testing.T) {
	f := &file{text: []byte("a b")}
	asked := 0
	f.before = func(ctx context.Context) {
		if asked++; asked > 1 {
			return
		}
		err := vfs.Aside(ctx, func() {
			if _, err := editing.Edit(t.Context(), f, replacing("b", "B"), editing.How{}); err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Error(err)
		}
	}
	got, err := editing.Edit(t.Context(), f, replacing("a", "A"), editing.How{})
	if err != nil || string(f.text) != "A B" || got.Version != sha256.Sum256(f.text) || asked != 3 {
		t.Errorf("%q after %d changes, %v", f.text, asked, err)
	}
}

// Where the caller says which version is there, nothing begins again.
func TestConditionIsNotTriedAgain(t *testing.T) {
	f := &file{text: []byte("a b")}
	r := replacing("a", "A")
	r.If.Is = sha256.Sum256(f.text)
	n := 0
	f.before = func(context.Context) {
		n++
		f.mu.Lock()
		f.text = []byte("a c")
		f.mu.Unlock()
	}
	if _, err := editing.Edit(t.Context(), f, r, editing.How{}); vfs.CodeOf(err) != vfs.Conflict || n != 1 || string(f.text) != "a c" {
		t.Errorf("%v after %d changes, %q", err, n, f.text)
	}
}

// A wait for the turn ends with the call.
func TestWaitEndsWithItsCall(t *testing.T) {
	f := &file{text: []byte("a b")}
	f.before = func(context.Context) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := editing.Edit(ctx, f, replacing("b", "B"), editing.How{}); err == nil {
			t.Error("an edit was made while another had the turn")
		}
	}
	if _, err := editing.Edit(t.Context(), f, replacing("a", "A"), editing.How{}); err != nil || string(f.text) != "A b" {
		t.Errorf("%q, %v", f.text, err)
	}
}
