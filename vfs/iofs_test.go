package vfs_test

import (
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

func TestFS(t *testing.T) {
	tree := vfstest.Tree{"f": {Data: "content"}, "empty": {}, "x": {Data: "#!", Exec: true}, "d/e/f": {Data: "below"}, "hollow": {Dir: true}, "l": {Link: "f"}, "dl": {Link: "d/e"}, "d/up": {Link: "../f"}, ".hidden": {Data: "x"}}
	_, raw := check.Store(t, tree)
	ns := check.Compose(t, map[string]vfs.Dir{"": raw, "m/n": membrane.Guarded(raw, nil)}).Root()
	secret, err := raw.Mkdir(t.Context(), "secret")
	check.OK(t, err)
	check.OK(t, check.Put(t.Context(), secret, "key.pem", "x"))
	for name, d := range map[string]vfs.Dir{
		"memory":    raw,
		"guarded":   membrane.Guarded(raw, nil, check.Policies()...),
		"namespace": ns,
		"all":       membrane.Guarded(ns, nil, check.Policies()...),
	} {
		t.Run(name, func(t *testing.T) {
			if err := fstest.TestFS(vfs.FS(t.Context(), d), "f", "empty", "x", "d/e/f", "hollow", "l", "dl", "d/up", ".hidden"); err != nil {
				t.Error(err)
			}
			_, err := d.Stat(t.Context())
			check.OK(t, err)
		})
	}
}

func TestFSErrors(t *testing.T) {
	_, raw := check.Store(t, vfstest.Tree{"f": {Data: "content"}, "d/f": {Data: "x"}, "out": {Link: "../f"}, "dangling": {Link: "none"}, ".env": {Data: "x"}})
	d, c := check.Controlled(t, membrane.Guarded(raw, nil, deny.Must("**/.env").Guard()))
	f := vfs.FS(t.Context(), d)
	for name, want := range map[string]error{
		"none": fs.ErrNotExist, "d/none": fs.ErrNotExist, "dangling": fs.ErrNotExist, ".env": fs.ErrPermission, "..": fs.ErrInvalid, "/f": fs.ErrInvalid,
		"d/../f": fs.ErrInvalid, "": fs.ErrInvalid, "out": vfs.Outside, "f/x": vfs.NotDir,
	} {
		for what, err := range map[string]error{
			"open":     second(f.Open(name)),
			"stat":     second(fs.Stat(f, name)),
			"readFile": second(fs.ReadFile(f, name)),
			"readDir":  second(fs.ReadDir(f, name)),
		} {
			if pe, isPath := errors.AsType[*fs.PathError](err); !errors.Is(err, want) || !isPath || pe.Path != name {
				t.Errorf("%s %s: %v", what, name, err)
			}
		}
	}
	if err := second(fs.ReadFile(f, "d")); !errors.Is(err, vfs.IsDir) {
		t.Errorf("readFile of a directory: %v", err)
	}
	if err := second(fs.ReadDir(f, "f")); !errors.Is(err, vfs.NotDir) {
		t.Errorf("readDir of a file: %v", err)
	}
	if err := second(fs.ReadLink(f, "f")); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("readLink of a file: %v", err)
	}
	if target, err := fs.ReadLink(f, "out"); err != nil || target != "../f" {
		t.Errorf("readLink: %q, %v", target, err)
	}
	open, err := f.Open("f")
	check.OK(t, err)
	check.OK(t, c.Revoke())
	if _, err := open.Read(make([]byte, 1)); !errors.Is(err, vfs.Revoked) || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("read after a revoke: %v", err)
	}
	check.OK(t, open.Close())
}

func TestFSLeavesNothingOpen(t *testing.T) {
	d, l, _, _ := check.Metered(t, meter.Limits{meter.Nodes: 100})
	f := vfs.FS(t.Context(), d)
	check.OK(t, fs.WalkDir(f, ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			_, err = fs.ReadFile(f, path)
		}
		return err
	}))
	if n := check.UsageOf(l).Open; n != 0 {
		t.Errorf("%d are open", n)
	}
}

func second[T any](_ T, err error) error { return err }
