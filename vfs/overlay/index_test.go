package overlay

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/vfs"
)

// FuzzIndex opens an upper store with any index whose checksums are right.
func FuzzIndex(f *testing.F) {
	for _, edits := range [][]edit{
		{sets("f", state{Kind: vfs.FileKind, Content: 1}), touches("", 5)},
		{{Do: move, Path: raw("d"), To: raw("e")}, sets("d", state{}), knows("d", base{moved: true})},
		{sets("e/l", state{Kind: vfs.LinkKind, Target: raw("\xff")}), {Do: drop, Path: raw("e/l")}},
		{{Do: adopt, Path: raw("e"), To: raw("e")}, {Do: forget, Path: raw("d")}},
		{{Do: detach, Path: raw("e")}, {Do: move, Path: raw("e"), To: raw("e/e")}},
	} {
		f.Add(line(edits)[9:])
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		ctx := t.Context()
		lower, upper := memory.New(memory.Limits{}).Root(), memory.New(memory.Limits{}).Root()
		d, _ := lower.Mkdir(ctx, "d")
		d.Create(ctx, "x")
		data, _ := upper.Mkdir(ctx, contentsName)
		data.Create(ctx, "1")
		index := indexFormat
		for one := range bytes.Lines(text) {
			one = bytes.TrimSuffix(one, []byte("\n"))
			index += fmt.Sprintf("%08x %s\n", crc32.ChecksumIEEE(one), one)
		}
		if _, err := upper.Replace(ctx, indexName, strings.NewReader(index), vfs.If{}); err != nil {
			t.Fatal(err)
		}
		o, err := New(ctx, lower, upper, Options{})
		if err != nil {
			if vfs.CodeOf(err) != vfs.Corrupt {
				t.Fatalf("New: %v, want corrupt", err)
			}
			return
		}
		see(ctx, o.Root(), 0)
		o.Diff(ctx, "")
		if err := o.Revert(ctx, nil); err != nil {
			t.Fatalf("Revert: %v", err)
		}
		if changes, err := o.Diff(ctx, ""); err != nil || len(changes) > 0 {
			t.Fatalf("after a revert there is %v, %v", changes, err)
		}
	})
}

// see looks at everything, whatever the answers.
func see(ctx context.Context, d vfs.Dir, depth int) {
	for e, err := range d.List(ctx) {
		if err != nil || depth > 20 {
			return
		}
		n, err := d.Lookup(ctx, e.Name)
		if err != nil {
			continue
		}
		n.Stat(ctx)
		switch n := n.(type) {
		case vfs.Dir:
			see(ctx, n, depth+1)
		case vfs.File:
			if c, err := vfs.Open(ctx, n); err == nil {
				io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
				c.Close()
			}
		}
		n.Close()
	}
}

// TestIndexChanged changes a byte of a record so that it is still well formed but means
// something else. Its checksum shows that.
func TestIndexChanged(t *testing.T) {
	good, last := line([]edit{sets("aaaa", state{Kind: vfs.DirKind})}), line([]edit{touches("", 5)})
	bad := bytes.Replace(good, []byte("YWFhYQ"), []byte("YmJiYg"), 1) // aaaa, bbbb
	if bytes.Equal(good, bad) {
		t.Fatal("the record is written in another way; change this test")
	}
	for want, first := range map[vfs.Code][]byte{"": good, vfs.Corrupt: bad} {
		lower, upper := memory.New(memory.Limits{}).Root(), memory.New(memory.Limits{}).Root()
		index := indexFormat + string(first) + string(last)
		if _, err := upper.Replace(t.Context(), indexName, strings.NewReader(index), vfs.If{}); err != nil {
			t.Fatal(err)
		}
		if _, err := New(t.Context(), lower, upper, Options{}); vfs.CodeOf(err) != want {
			t.Errorf("New over an index of %q: %v, want %q", first, err, want)
		}
	}
}
