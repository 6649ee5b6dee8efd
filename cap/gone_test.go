package cap_test

import (
	"strings"
	"testing"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/client"
	"capd/vfs"
	"capd/vfs/edit"
	"capd/vfs/editing"
	"capd/vfs/lines"
	"capd/vfs/vfstest"
)

// A File whose file was removed is notFound. While a directory has its name it is stale.
// No method creates the file again.
func TestFileThatIsGone(t *testing.T) {
	methods := map[string]func(t *testing.T, f *client.File) error{
		"readText":  func(t *testing.T, f *client.File) error { _, _, err := f.ReadText(t.Context()); return err },
		"readBytes": func(t *testing.T, f *client.File) error { _, _, err := f.ReadBytes(t.Context()); return err },
		"edit": func(t *testing.T, f *client.File) error {
			_, err := f.Edit(t.Context(), editing.Request{Edits: []edit.Edit{{Old: []byte("a"), New: []byte("b")}}})
			return err
		},
		"readLines": func(t *testing.T, f *client.File) error {
			_, err := f.ReadLines(t.Context(), lines.Query{})
			return err
		},
		"read": func(t *testing.T, f *client.File) error {
			_, err := f.ReadAt(t.Context(), make([]byte, 1), 0)
			return err
		},
		"stream": func(t *testing.T, f *client.File) error {
			_, err := f.Stream(t.Context(), new(strings.Builder), 0, 0)
			return err
		},
		"writeText": func(t *testing.T, f *client.File) error {
			_, err := f.WriteText(t.Context(), "x", vfs.If{})
			return err
		},
		"when absent": func(t *testing.T, f *client.File) error {
			_, err := f.WriteText(t.Context(), "x", vfs.If{Absent: true})
			return err
		},
		"writeBytes": func(t *testing.T, f *client.File) error {
			_, err := f.Replace(t.Context(), strings.NewReader("x"), vfs.If{})
			return err
		},
		"upload": func(t *testing.T, f *client.File) error {
			_, err := f.Replace(t.Context(), strings.NewReader(pattern(wire.MaxWhole+1)), vfs.If{})
			return err
		},
		"stage": func(t *testing.T, f *client.File) error { return call(t, f.Cap(), schema.File_stage, nil, nil) },
		"append": func(t *testing.T, f *client.File) error {
			_, err := f.Append(t.Context(), []byte("x"), vfs.If{})
			return err
		},
		"write": func(t *testing.T, f *client.File) error {
			_, err := f.WriteAt(t.Context(), []byte("x"), 0, vfs.If{})
			return err
		},
		"truncate": func(t *testing.T, f *client.File) error { return f.Truncate(t.Context(), 0, vfs.If{}) },
		"sync":     func(t *testing.T, f *client.File) error { return f.Sync(t.Context()) },
		"stat":     func(t *testing.T, f *client.File) error { _, err := f.Stat(t.Context()); return err },
		"version":  func(t *testing.T, f *client.File) error { _, err := f.Version(t.Context()); return err },
	}
	_, _, d := guest(t, vfstest.Tree{})
	f, err := d.CreateFile(t.Context(), "f")
	ok(t, err)
	ok(t, d.Remove(t.Context(), "f", vfs.If{}))
	for name, method := range methods {
		is(t, name+" of a file that was removed", method(t, f), vfs.NotFound)
	}
	_, err = d.CreateDir(t.Context(), "f")
	ok(t, err)
	for name, method := range methods {
		is(t, name+" with a directory in the file's place", method(t, f), vfs.Stale)
	}
	ok(t, d.Remove(t.Context(), "f", vfs.If{}))
	_, err = d.Put(t.Context(), "f", strings.NewReader("again"), vfs.If{})
	ok(t, err)
	text, _, err := f.ReadText(t.Context())
	if ok(t, err); text != "again" {
		t.Errorf("a File of which the file was made again reads %q", text)
	}
}

// A Dir is stale if a file has taken its place.
func TestDirThatIsGone(t *testing.T) {
	_, _, d := guest(t, vfstest.Tree{"d/f": {}})
	sub := d.SubDir("d")
	defer sub.Close()
	ok(t, d.RemovePath(t.Context(), "d/f", vfs.If{}))
	ok(t, d.Remove(t.Context(), "d", vfs.If{}))
	for _, place := range []string{"nothing", "a file"} {
		if place == "a file" {
			_, err := d.CreateFile(t.Context(), "d")
			ok(t, err)
		}
		_, err := sub.Stat(t.Context())
		is(t, "stat with "+place+" in its place", err, vfs.Stale)
		_, err = sub.Put(t.Context(), "f", strings.NewReader("x"), vfs.If{})
		is(t, "put with "+place+" in its place", err, vfs.Stale)
		is(t, "stage with "+place+" in its place", stageOf(t, sub, "f", vfs.If{}), vfs.Stale)
	}
}
