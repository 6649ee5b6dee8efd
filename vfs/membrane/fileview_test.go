package membrane_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// meanwhile calls a function before it is read.
type meanwhile struct {
	do func()
	io.Reader
}

func (m *meanwhile) Read(p []byte) (int, error) {
	m.do()
	m.do = func() {}
	return m.Reader.Read(p)
}

// TestReplaceOfWhatIsGone: replacing a file through itself does not make it again if it
// is gone.
func TestReplaceOfWhatIsGone(t *testing.T) {
	_, raw := check.Store(t, check.Sample)
	d := membrane.Guarded(raw, nil)
	f := check.FileAt(t, d, "f")
	_, err := f.Replace(t.Context(), strings.NewReader("new"), vfs.If{})
	check.OK(t, err)
	_, err = f.Replace(t.Context(), &meanwhile{func() { check.OK(t, raw.Remove(t.Context(), "f", vfs.If{})) }, strings.NewReader("newer")}, vfs.If{})
	check.Is(t, "replace", err, vfs.NotFound)
	_, err = raw.Lookup(t.Context(), "f")
	check.Is(t, "afterwards", err, vfs.NotFound)
}

// cloning is a file whose content is cloned after a function was called.
type cloning struct {
	vfs.File
	first func()
}

type clonedContent struct {
	vfs.Content
	cloning
}

func (c cloning) Open(ctx context.Context) (vfs.Content, error) {
	inner, err := vfs.Open(ctx, c.File)
	return clonedContent{inner, c}, err
}

func (c clonedContent) Close() error { return c.Content.Close() }

func (c clonedContent) Clone(uintptr) error {
	c.first()
	return nil
}

type ofCloning struct {
	vfs.Dir
	first func()
}

func (d ofCloning) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	n, err := d.Dir.Lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	return cloning{n.(vfs.File), d.first}, nil
}

// TestCloneWhileRevoked: a caller that clones is told if the right to read was taken back
// meanwhile.
func TestCloneWhileRevoked(t *testing.T) {
	_, raw := check.Store(t, check.Sample)
	var c *membrane.Control
	shut := func() {}
	d, c := check.Controlled(t, membrane.Guarded(ofCloning{raw, func() { shut() }}, nil))
	content, err := vfs.Open(t.Context(), check.FileAt(t, d, "f"))
	check.OK(t, err)
	defer content.Close()
	check.OK(t, vfs.Clone(content, 0))
	shut = func() { check.OK(t, c.Revoke()) }
	check.Is(t, "revoked meanwhile", vfs.Clone(content, 0), vfs.Revoked)
	shut = func() { t.Error("cloned after the revoke") }
	check.Is(t, "revoked before", vfs.Clone(content, 0), vfs.Revoked)
}
