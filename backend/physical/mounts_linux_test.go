package physical_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"capd/vfs"
)

// mountsVar is set in the process that has a mount namespace of its own, in which
// TestMounts and similar tests really run.
const mountsVar = "CAPD_PHYSICAL_TEST_MOUNTS"

// inOwnMounts runs the calling test again in a mount namespace of its own and
// reports false; there it reports true.
func inOwnMounts(t *testing.T) bool {
	if os.Getenv(mountsVar) != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			fmt.Println("no mounts:", err)
			return false
		}
		return true
	}
	cmd := program("")
	cmd.Args = append(cmd.Args, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(slices.DeleteFunc(cmd.Env, func(s string) bool { return strings.HasPrefix(s, otherVar) }), mountsVar+"=1")
	cmd.Stderr = nil
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	switch {
	case strings.Contains(string(out), "no mounts:") || err != nil && len(out) == 0:
		untried(t, "this machine lets this user mount nothing: %v\n%s", err, out)
	case err != nil:
		t.Errorf("in a mount namespace: %v\n%s", err, out)
	}
	return false
}

func (w served) mount(source, path, kind string, flags uintptr, data string) {
	w.Helper()
	if err := unix.Mount(source, path, kind, flags, data); err != nil {
		w.Fatalf("mount %s: %v", kind, err)
	}
	w.Cleanup(func() { unix.Unmount(path, unix.MNT_DETACH) })
}

func TestMounts(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	both(t, func(t *testing.T, w served) {
		for _, name := range []string{"tmpfs", "proc", "bind", "held/deep", "../outside"} {
			w.mkdir(name)
		}
		w.write("../outside/f", "outside")
		w.write("held/f", "inside")
		w.write("file", "inside")
		w.write("f", "inside")
		held, deep, file := w.sub("held"), w.sub("held/deep"), w.file("file")
		if _, err := held.Stat(w.ctx); err != nil { // its descriptor is cached now
			t.Fatal(err)
		}
		if _, err := deep.Stat(w.ctx); err != nil {
			t.Fatal(err)
		}
		over := []string{"tmpfs"}
		w.mount("none", w.host("tmpfs"), "tmpfs", 0, "")
		w.mount("none", w.host("held"), "tmpfs", 0, "")
		w.mkdir("held/deep")
		if unix.Mount("proc", w.host("proc"), "proc", 0, "") == nil {
			defer unix.Unmount(w.host("proc"), unix.MNT_DETACH)
			over = append(over, "proc")
		}
		if w.kernel() { // only the kernel tells a bind mount of one file system
			w.mount(w.host("../outside"), w.host("bind"), "", unix.MS_BIND, "")
			w.mount(w.host("../outside/f"), w.host("file"), "", unix.MS_BIND, "")
			over = append(over, "bind", "file")
			for op, err := range everyUse(w.ctx, file) {
				w.is(op+" of a File under a mount", err, vfs.CrossDevice)
			}
		}
		for _, name := range over {
			_, err := w.root.Lookup(w.ctx, name)
			w.is("Lookup "+name, err, vfs.CrossDevice)
			if !slices.Contains(names(t, w.root), name) {
				t.Errorf("%s is not listed", name)
			}
			for op, err := range everyChange(w.ctx, w.root, name) {
				w.is(op+" "+name, err, vfs.CrossDevice, vfs.Exists)
			}
		}
		for op, err := range w.everyDirUse(held) {
			w.is(op+" of a Dir under a mount", err, vfs.CrossDevice, vfs.NotFound)
			if err == nil {
				t.Errorf("%s of a Dir under a mount: nothing is refused", op)
			}
		}
		_, err := deep.Stat(w.ctx)
		w.is("Stat of a Dir below a mount", err, vfs.CrossDevice)
		hasNothingElse(t, w.host("held"), "deep")
		w.has(w.host("../outside/f"), "outside")
	})
}

// TestDiskFull fills a small file system.
func TestDiskFull(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	for name, o := range modes {
		t.Run(name, func(t *testing.T) {
			w := served{T: t, ctx: t.Context(), dir: t.TempDir()}
			w.mount("none", w.dir, "tmpfs", 0, "size=1m")
			w.store = open(t, w.dir, o)
			w.root = w.store.Root()
			w.write("f", "old")
			w.is("Replace", w.put(w.root, "f", strings.Repeat("x", 2<<20), vfs.If{}), vfs.Limit)
			w.has(w.host("f"), "old")
			big := make([]byte, 2<<20)
			_, err := vfs.Append(w.ctx, w.file("f"), big, vfs.If{})
			w.is("Append", err, vfs.Limit)
			w.has(w.host("f"), "old")
			_, err = w.file("f").WriteAt(w.ctx, big, 0, vfs.If{})
			w.is("WriteAt", err, vfs.Limit)
			w.ok(w.file("f").Truncate(w.ctx, 3, vfs.If{}))
			w.ok(w.store.Close())
			hasNothingElse(t, w.dir, "f")
		})
	}
}

// TestOverlay: a directory of the lower layer remains the same when a change copies it
// up.
func TestOverlay(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	for name, o := range modes {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			w := served{T: t, ctx: t.Context(), dir: filepath.Join(base, "merged")}
			w.mount("none", base, "tmpfs", 0, "") // an overlay does not go on an overlay
			for _, d := range []string{"lower/d/e", "upper", "work", "merged"} {
				w.ok(os.MkdirAll(filepath.Join(base, d), 0o755))
			}
			w.ok(os.WriteFile(base+"/lower/d/e/f", []byte("lower"), 0o644))
			if err := unix.Mount("none", w.dir, "overlay", 0, fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", base)); err != nil {
				untried(t, "no overlay here: %v", err)
				return
			}
			t.Cleanup(func() { unix.Unmount(w.dir, unix.MNT_DETACH) })
			w.store = open(t, w.dir, o)
			w.root = w.store.Root()
			d, f := w.sub("d/e"), w.file("d/e/f")
			_, err := d.Stat(w.ctx)
			w.ok(err)
			v, err := vfs.VersionOf(w.ctx, f)
			w.ok(err)
			reads := func(want string) {
				t.Helper()
				time.Sleep(30 * time.Millisecond)
				for range 3 { // and is kept open
					if got, err := w.readsNow(f); got != want || err != nil {
						t.Errorf("it reads %q, %v, want %q", got, err, want)
					}
				}
			}
			reads("lower")
			_, err = d.Create(w.ctx, "new")
			w.ok(err)
			_, err = d.Stat(w.ctx)
			w.ok(err)
			_, err = f.WriteAt(w.ctx, []byte("L"), 0, vfs.If{Is: v})
			w.ok(err)
			w.has(w.host("d/e/f"), "Lower")
			reads("Lower")
			w.write("d/e/f", "by another")
			reads("by another")
			w.ok(w.put(d, "f", "upper", vfs.If{}))
			w.has(w.host("d/e/f"), "upper")
			// An overlay without redirect_dir does not rename a directory of the lower
			// layer.
			w.is("Rename", w.root.Rename(w.ctx, "d", w.root, "moved", vfs.If{}, vfs.If{}), "", vfs.CrossDevice)
		})
	}
}

// A directory that is served twice, once through a bind mount, is one directory for the
// guests of both.
func TestStoresOfABind(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	dir, bound := t.TempDir(), t.TempDir()
	w := served{T: t, ctx: t.Context(), dir: dir}
	w.ok(os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	w.mount(dir, bound, "", unix.MS_BIND, "")
	countTogether(t, filepath.Join(dir, "sub", "n"), dir, "sub/n", bound, "sub/n")
	countTogether(t, filepath.Join(dir, "sub", "n"), dir, "sub/n", filepath.Join(bound, "sub"), "n")
}
