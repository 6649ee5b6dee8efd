package copier_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/copier"
	"capd/vfs/vfstest/check"
)

// TestInto: what is there is added to, what cannot be is left out, and an error of left ends the copy.
func TestInto(t *testing.T) {
	from, to := memory.New(memory.Limits{}).Root(), memory.New(memory.Limits{}).Root()
	put := func(d vfs.Dir, name, text string, exec bool) {
		t.Helper()
		_, err := vfs.Install(t.Context(), d, name, strings.NewReader(text), exec, vfs.If{})
		check.OK(t, err)
	}
	mkdir := func(d vfs.Dir, name string) vfs.Dir {
		t.Helper()
		made, err := d.Mkdir(t.Context(), name)
		check.OK(t, err)
		return made
	}
	sub := mkdir(from, "sub")
	put(sub, "a", "new", true)
	put(sub, "b", "b", false)
	mkdir(from, "way")
	put(from, "dir", "a file", false)
	old := mkdir(to, "sub")
	put(old, "a", "old", false)
	put(old, "c", "c", false)
	put(to, "way", "a file", false)
	mkdir(to, "dir")

	var left []string
	note := func(u copier.Unread) error {
		left = append(left, u.Path+" "+string(vfs.CodeOf(u.Err)))
		return nil
	}
	check.OK(t, copier.Copy(t.Context(), from, copier.Into(to, note), copier.Options{Workers: 1}))
	slices.Sort(left)
	if got, want := strings.Join(left, ", "), "dir isDir, way notDir"; got != want {
		t.Errorf("left out: %s; want %s", got, want)
	}
	for name, want := range map[string]string{"a": "new", "b": "b", "c": "c"} {
		n, err := old.Lookup(t.Context(), name)
		check.OK(t, err)
		f := n.(vfs.File)
		c, err := vfs.Open(t.Context(), f)
		check.OK(t, err)
		text, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
		check.OK(t, errors.Join(err, c.Close()))
		info, err := f.Stat(t.Context())
		check.OK(t, err)
		if string(text) != want || info.Exec != (name == "a") {
			t.Errorf("%s: %q, executable %v", name, text, info.Exec)
		}
	}

	stop := errors.New("stop")
	if err := copier.Copy(t.Context(), from, copier.Into(to, func(copier.Unread) error { return stop }), copier.Options{}); !errors.Is(err, stop) {
		t.Errorf("%v, want %v", err, stop)
	}
}
