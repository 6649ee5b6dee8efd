package virtualfs_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"capd/backend/memory"
	"capd/backend/physical"
	"capd/vfs/vfstest/check"
	"capd/virtualfs"
)

// onDisk opens dir:PATH, and keeps what overlays write in upper if that is not "".
func onDisk(t testing.TB, upper string) *virtualfs.FS {
	t.Helper()
	open := func(dir string) *physical.Store {
		s, err := physical.OpenAmbient(dir, physical.Options{})
		check.OK(t, err)
		return s
	}
	fs := virtualfs.New(virtualfs.Options{
		Open: map[string]virtualfs.Opener{
			"dir": func(_ context.Context, u *virtualfs.URL) (*virtualfs.Store, error) {
				s := open(u.Path)
				return &virtualfs.Store{Root: s.Root, Close: s.Close, Lasting: true}, nil
			},
			"mem": func(context.Context, *virtualfs.URL) (*virtualfs.Store, error) {
				return &virtualfs.Store{Root: memory.New(memory.Limits{}).Root}, nil
			},
		},
		Upper: func(context.Context, *virtualfs.URL) (*virtualfs.Upper, error) {
			if upper == "" {
				return &virtualfs.Upper{Tree: memory.New(memory.Limits{}).Root()}, nil
			}
			s := open(upper)
			return &virtualfs.Upper{Tree: s.Root(), Kept: true, Close: func(bool) error { return s.Close() }}, nil
		},
		Logf: t.Logf,
	})
	t.Cleanup(func() { check.OK(t, fs.Close()) })
	return fs
}

// host makes a directory in dir.
func host(t testing.TB, dir, name string) string {
	t.Helper()
	made := filepath.Join(dir, name)
	check.OK(t, os.MkdirAll(made, 0o755))
	return made
}

// TestRemains mounts, and after a restart mounts something else. It asks about a grant on
// each path whether it still leads where it led.
func TestRemains(t *testing.T) {
	dir := t.TempDir()
	a, b := "dir:"+host(t, dir, "a"), "dir:"+host(t, dir, "b")
	moved := host(t, dir, "moved")
	for name, c := range map[string]struct {
		before, after []string // paths and URLs
		change        func()   // between them
		same, others  []string // paths of grants
	}{
		"nothing": {before: []string{"", a, "x", b}, after: []string{"", a, "x", b}, same: []string{"", "x", "x/y", "y"}},
		"another directory": {
			before: []string{"", a}, after: []string{"", b}, others: []string{"", "x"},
		},
		"another directory at a mount": {
			before: []string{"x", a, "y", a}, after: []string{"x", b, "y", a}, same: []string{"y", "y/z"}, others: []string{"", "x", "x/z"},
		},
		"a mount more": {
			before: []string{"", a}, after: []string{"", a, "x/y", b}, same: []string{"", "x", "z"}, others: []string{"x/y", "x/y/z"},
		},
		"a mount less": {
			before: []string{"", a, "x/y", b}, after: []string{"", a}, same: []string{"", "x", "z"}, others: []string{"x/y", "x/y/z"},
		},
		"an overlay over it": {before: []string{"x", a}, after: []string{"x", "overlay:" + a}, same: []string{"", "x", "x/y"}},
		"other memory":       {before: []string{"x", "mem:"}, after: []string{"x", "mem:"}, same: []string{"", "x"}},
		"a directory for memory": {
			before: []string{"x", "mem:"}, after: []string{"x", a}, others: []string{"", "x"},
		},
		"the directory was moved": {
			before: []string{"x", "dir:" + moved}, after: []string{"x", "dir:" + moved + "2"}, same: []string{"", "x"},
			change: func() { check.OK(t, os.Rename(moved, moved+"2")) },
		},
		"another in its place": {
			before: []string{"x", "dir:" + moved + "3"}, after: []string{"x", "dir:" + moved + "3"}, others: []string{"", "x"},
			change: func() { check.OK(t, os.Rename(moved+"3", moved+"4")); host(t, dir, "moved3") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			host(t, dir, "moved3")
			before, after := onDisk(t, ""), onDisk(t, "")
			mounts(t, before, c.before...)
			then := map[string]map[string]string{}
			for _, path := range append(c.same, c.others...) {
				then[path] = before.Mounted(path)
			}
			if c.change != nil {
				c.change()
			}
			mounts(t, after, c.after...)
			for _, path := range c.same {
				if !after.Remains(path, then[path]) {
					t.Errorf("%q leads elsewhere: %q and then %q", path, then[path], after.Mounted(path))
				}
			}
			for _, path := range c.others {
				if after.Remains(path, then[path]) {
					t.Errorf("%q is said to lead where it did: %q and then %q", path, then[path], after.Mounted(path))
				}
			}
		})
	}
}

// TestLastingAndDrafted: which places keep what is stored there, and which wait for the
// host.
func TestLastingAndDrafted(t *testing.T) {
	dir := t.TempDir()
	on := "dir:" + host(t, dir, "lower")
	kept, lost := onDisk(t, host(t, dir, "upper")), onDisk(t, "")
	for _, fs := range []*virtualfs.FS{kept, lost} {
		mounts(t, fs, "disk", on, "disk/memory", "mem:", "draft", "overlay:"+on)
		for path, want := range map[string][2]bool{ // lasting, drafted
			"": {}, "elsewhere": {}, "disk": {true, false}, "disk/x/y": {true, false}, "disk/memory": {}, "disk/memory/x": {},
			"diskette": {}, "draft": {fs == kept, true}, "draft/x": {fs == kept, true},
		} {
			if got := [2]bool{fs.Lasting(path), fs.Drafted(path)}; got != want {
				t.Errorf("%q: lasting and drafted are %v, want %v", path, got, want)
			}
		}
	}
}
