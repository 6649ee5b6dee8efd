package physical_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"capd/vfs"
)

// TestSpecialFiles: an entry that is not a file, a directory or a link is listed. It is
// refused at once when it is opened or changed.
func TestSpecialFiles(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		w.write("f", "inside")
		special := []string{"fifo", "socket"}
		w.ok(unix.Mkfifo(w.host("fifo"), 0o666))
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		w.ok(err)
		defer unix.Close(fd)
		t.Chdir(w.dir) // a socket's path is short
		w.ok(unix.Bind(fd, &unix.SockaddrUnix{Name: "socket"}))
		if unix.Mknod(w.host("zero"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))) == nil {
			special = append(special, "zero")
		} else {
			untried(t, "this user makes no devices")
		}
		for e, err := range w.root.List(w.ctx) {
			w.ok(err)
			if e.Name != "f" && e.Kind != vfs.Other {
				t.Errorf("%s is listed as %v", e.Name, e.Kind)
			}
		}
		for _, name := range special {
			w.within(name, func() {
				_, err := w.root.Lookup(w.ctx, name)
				w.is("Lookup "+name, err, vfs.NotRegular)
				for op, err := range everyChange(w.ctx, w.root, name) {
					switch op {
					case "Create", "Mkdir", "Rename to":
						w.is(op+" "+name, err, vfs.Exists)
					default:
						w.is(op+" "+name, err, vfs.NotRegular)
					}
				}
			})
		}
	})
}

// TestHeldFileBecomesSpecial: a File is a place. A special file that is put there is not
// opened.
func TestHeldFileBecomesSpecial(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		w.write("f", "inside")
		f := w.file("f")
		w.write("../outside", "outside")
		for what, place := range map[string]func() error{
			"FIFO":      func() error { return unix.Mkfifo(w.host("f"), 0o666) },
			"link":      func() error { return os.Symlink("../outside", w.host("f")) },
			"directory": func() error { return os.Mkdir(w.host("f"), 0o755) },
		} {
			w.ok(os.Remove(w.host("f")))
			w.ok(place())
			w.within(what, func() {
				for op, err := range everyUse(w.ctx, f) {
					w.is(op+" of a "+what, err, vfs.Stale)
				}
			})
		}
		w.has(w.host("../outside"), "outside")
	})
}

func everyUse(ctx context.Context, f vfs.File) map[string]error {
	all := map[string]error{"Truncate": f.Truncate(ctx, 1, vfs.If{}), "Sync": f.Sync(ctx)}
	all["Stat"] = trying(ctx, f, func(ctx context.Context) error { _, err := f.Stat(ctx); return err })
	all["ReadAt"] = trying(ctx, f, func(ctx context.Context) error { _, err := f.ReadAt(ctx, make([]byte, 1), 0); return err })
	_, all["WriteAt"] = f.WriteAt(ctx, []byte("x"), 0, vfs.If{})
	_, all["Append"] = vfs.Append(ctx, f, []byte("x"), vfs.If{})
	c, err := vfs.Open(ctx, f)
	if err == nil {
		err = c.Close()
	}
	all["Open"] = err
	_, all["Version"] = vfs.VersionOf(ctx, f)
	return all
}

// trying calls do without waiting, where that is possible, and with ctx too. Both should
// answer the same.
func trying(ctx context.Context, n vfs.Node, do func(context.Context) error) error {
	first := vfs.ErrWouldBlock
	if vfs.CanTry(n) {
		first = do(vfs.Trying())
	}
	if err := do(ctx); first == vfs.ErrWouldBlock || vfs.CodeOf(first) == vfs.CodeOf(err) {
		return err
	}
	return fmt.Errorf("without waiting: %w", first)
}

func TestLinksAreNotFollowed(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		w.write("../outside", "outside")
		w.mkdir("../elsewhere")
		w.mkdir("d")
		for name, target := range map[string]string{
			"etc": "/etc", "up": "..", "file": "../outside", "dir": "../elsewhere", "inner": "d", "loop": "loop", "dangling": "../new",
			"proc": "/proc/self/root",
		} {
			w.ok(os.Symlink(target, w.host(name)))
			l, ok := w.at(name).(vfs.Link)
			if !ok {
				t.Fatalf("%s is no Link", name)
			}
			got, err := l.Target(w.ctx)
			w.ok(err)
			if got != target {
				t.Errorf("the target of %s is %s", name, got)
			}
			_, err = w.root.Create(w.ctx, name)
			w.is("Create "+name, err, vfs.Exists)
			_, err = w.root.Mkdir(w.ctx, name)
			w.is("Mkdir "+name, err, vfs.Exists)
			w.is("Replace "+name, w.put(w.root, name, "x", vfs.If{}), vfs.NotRegular)
		}
		for _, name := range []string{"file", "dir", "dangling"} {
			w.ok(w.root.Rename(w.ctx, name, w.sub("d"), name, vfs.If{}, vfs.If{}))
			w.ok(w.sub("d").Remove(w.ctx, name, vfs.If{}))
		}
		w.has(w.host("../outside"), "outside")
		hasNothingElse(t, w.host(".."), "elsewhere", "outside", "served")
	})
}

// TestLease: a file on which another program holds a lease is busy at once, although
// opening it would wait until the lease is broken.
func TestLease(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		w.write("f", "inside")
		f := w.file("f")
		lessor, err := os.OpenFile(w.host("f"), os.O_RDWR, 0)
		w.ok(err)
		defer lessor.Close()
		if _, err := unix.FcntlInt(lessor.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
			t.Fatalf("no lease: %v", err)
		}
		w.within("a leased file", func() {
			for op, err := range everyUse(w.ctx, f) {
				if op == "Stat" {
					w.ok(err)
				} else {
					w.is(op, err, vfs.Busy)
				}
			}
		})
	})
}

func TestHardLink(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		w.write("../outside", "outside")
		w.ok(os.Link(w.host("../outside"), w.host("f")))
		f := w.file("f")
		for op, err := range everyUse(w.ctx, f) {
			switch op {
			case "WriteAt", "Append", "Truncate":
				w.is(op, err, vfs.Denied)
			default:
				w.ok(err)
			}
		}
		v, err := vfs.VersionOf(w.ctx, f)
		w.ok(err)
		_, err = f.WriteAt(w.ctx, []byte("x"), 0, vfs.If{Is: v})
		w.is("WriteAt with a condition", err, vfs.Denied)
		w.ok(w.put(w.root, "f", "mine", vfs.If{Is: v}))
		w.has(w.host("f"), "mine")
		w.has(w.host("../outside"), "outside")
		_, err = f.WriteAt(w.ctx, []byte("M"), 0, vfs.If{})
		w.ok(err)
		w.has(w.host("f"), "Mine")
		w.has(w.host("../outside"), "outside")
	})
}

// TestReplaceKeeps: the mode without setuid, the owner, user attributes and the access
// list.
func TestReplaceKeeps(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		w.write("f", "old")
		w.ok(os.Chmod(w.host("f"), 0o751|os.ModeSetuid|os.ModeSetgid))
		root := os.Geteuid() == 0
		if root {
			w.ok(os.Chown(w.host("f"), 1234, 1235))
			w.ok(os.Chmod(w.host("f"), 0o751|os.ModeSetuid|os.ModeSetgid))
		}
		xattr := unix.Setxattr(w.host("f"), "user.capd", []byte("kept"), 0) == nil
		if !xattr {
			untried(t, "this file system has no attributes of the user's")
		}
		if root {
			unix.Setxattr(w.host("f"), "security.capd", []byte("not kept"), 0)
		}
		w.ok(w.put(w.root, "f", "new", vfs.If{}))
		w.has(w.host("f"), "new")
		var st unix.Stat_t
		w.ok(unix.Stat(w.host("f"), &st))
		if st.Mode&0o7777 != 0o751 {
			t.Errorf("mode %o, want 751", st.Mode&0o7777)
		}
		if root && (st.Uid != 1234 || st.Gid != 1235) {
			t.Errorf("owner %d:%d, want 1234:1235", st.Uid, st.Gid)
		}
		buf := make([]byte, 100)
		if n, err := unix.Getxattr(w.host("f"), "user.capd", buf); xattr && string(buf[:max(n, 0)]) != "kept" {
			t.Errorf("user.capd is %q, %v", buf[:max(n, 0)], err)
		}
		if n, _ := unix.Getxattr(w.host("f"), "security.capd", buf); n > 0 {
			t.Error("a security attribute was kept")
		}

		w.ok(w.put(w.root, "g", "new", vfs.If{}))
		w.write("h", "")
		fresh, err := os.Stat(w.host("g"))
		w.ok(err)
		other, err := os.Stat(w.host("h"))
		w.ok(err)
		if fresh.Mode() != other.Mode() {
			t.Errorf("a new file has mode %v, want %v", fresh.Mode(), other.Mode())
		}
	})
}

func TestAccessListIsKept(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		// Version 2; user::rw-, user:1234:r--, group::r--, mask::r--, other::---
		acl := "\x02\x00\x00\x00" +
			"\x01\x00\x06\x00\xff\xff\xff\xff" + "\x02\x00\x04\x00\xd2\x04\x00\x00" +
			"\x04\x00\x04\x00\xff\xff\xff\xff" + "\x10\x00\x04\x00\xff\xff\xff\xff" + "\x20\x00\x00\x00\xff\xff\xff\xff"
		const name = "system.posix_acl_access"
		w.write("f", "old")
		if err := unix.Setxattr(w.host("f"), name, []byte(acl), 0); err != nil {
			untried(t, "this file system has no access lists: %v", err)
			return
		}
		w.ok(w.put(w.root, "f", "new", vfs.If{}))
		buf := make([]byte, 100)
		n, err := unix.Getxattr(w.host("f"), name, buf)
		if err != nil || string(buf[:n]) != acl {
			t.Errorf("the access list is %q, %v", buf[:max(n, 0)], err)
		}
	})
}

// TestHostPermissions accesses files as another user.
func TestHostPermissions(t *testing.T) {
	if os.Geteuid() != 0 {
		untried(t, "only root can act as another user")
		return
	}
	both(t, func(t *testing.T, w served) {
		w.write("secret", "")
		w.ok(os.Chmod(w.host("secret"), 0o600))
		w.write("f", "")
		w.mkdir("closed")
		w.mkdir("theirs")
		w.ok(os.Chmod(w.host("closed"), 0o700))
		w.ok(os.Chmod(w.host("theirs"), 0o777))
		for up := w.dir; up != "/" && up != "/tmp"; up = up[:max(1, len(up)-len("/")-len(lastOf(up)))] {
			w.ok(os.Chmod(up, 0o755))
		}
		secret, closed, theirs := w.file("secret"), w.sub("closed"), w.sub("theirs")
		done := make(chan struct{})
		go func() { // a thread of its own, which ends with the goroutine
			defer close(done)
			runtime.LockOSThread()
			unix.Setfsuid(65534)
			_, err := w.read(secret)
			w.is("reading", err, vfs.Denied)
			for _, err := range closed.List(w.ctx) {
				w.is("List", err, vfs.Denied)
			}
			_, err = closed.Lookup(w.ctx, "x")
			w.is("Lookup", err, vfs.Denied)
			for op, err := range everyChange(w.ctx, w.root, "new") {
				if op != "Remove" && op != "Rename" {
					w.is(op, err, vfs.Denied)
				}
			}
			w.is("Replace", w.put(w.root, "f", "x", vfs.If{}), vfs.Denied)
			w.is("Remove", w.root.Remove(w.ctx, "f", vfs.If{}), vfs.Denied)
			// They cannot stage in the root, but in this directory they can.
			if err := w.put(theirs, "f", "new", vfs.If{}); err != nil {
				t.Errorf("Replace where the process may write: %v", err)
			}
		}()
		<-done
		w.has(w.host("theirs/f"), "new")
		hasNothingElse(t, w.host("theirs"), "f")
	})
}

func lastOf(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[i+1:]
		}
	}
	return path
}
