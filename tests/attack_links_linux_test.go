package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Operations on a path below a link to a directory.
const below = through + ", readBytes, read, stream, stat, put, put noFollow, stage, createDir, createFile, symlink, move to, " +
	changes + ", " + inPlace + ", " + wholes

// Links: no link leads out, and every rule applies where a link leads.
func TestAttackLinks(t *testing.T) {
	t.Parallel()
	h := serve(t)
	outward := func() []attempt {
		return []attempt{
			{ops: below, path: "l/f", want: "outside"},
			{ops: "list", path: "l", want: "outside"},
			{ops: "list", path: "l/deep", want: "outside"},
			{ops: "createDir, createFile, symlink, put, stage, move to", path: "l/new", want: "outside"},
			{ops: "walk, openDir, openFile, subDir, put, stage, " + fileUses, path: "l", want: "outside"},
			{ops: "put noFollow", path: "l", want: "notRegular outside"},
			{ops: "createDir, createFile, symlink, move to", path: "l", want: "exists"},
			{ops: "get, walk noFollow", path: "l", want: "ok", answer: says(`link "" outside=true`)},
			{ops: "glob", path: "l/**", want: "ok", answer: says("l")},
			{ops: "glob", path: "**/f", want: "ok", answer: says("")},
			{ops: "remove", path: "l", want: "ok", after: func(s *attackDir, _ string) {
				if _, err := os.Lstat(s.path("l")); err == nil {
					s.Error("the link is still there")
				}
			}},
			{ops: "move from", path: "l", want: "ok"},
		}
	}
	toFile := func() []attempt {
		return []attempt{
			{ops: "walk, openFile, put, stage, " + fileUses, path: "l", want: "outside"},
			{ops: "walk, openDir, list, createFile, createDir", path: "l/x", want: "outside"},
		}
	}
	for _, a := range []attack{
		{n: 17, name: "link to /etc", setup: func(s *attackDir) { s.link("/etc", "l") }, tries: []attempt{
			{ops: below, path: "l/passwd", want: "outside"},
			{ops: "list", path: "l", want: "outside"},
			{ops: "get, walk noFollow", path: "l", want: "ok", answer: says(`link "" outside=true`)},
		}},
		{n: 17, name: "absolute link", setup: func(s *attackDir) { s.link(s.outside, "l") }, tries: outward()},
		{n: 17, name: "absolute link to a file", setup: func(s *attackDir) { s.link(filepath.Join(s.outside, "f"), "l") }, tries: toFile()},
		{n: 17, name: "absolute link back in", setup: func(s *attackDir) { s.mkdir("d"); s.write("d/f", "f"); s.link(s.path("d"), "l") }, tries: []attempt{
			{ops: below, path: "l/f", want: "outside"},
		}},
		{n: 18, name: "link up and out", setup: func(s *attackDir) { s.link("../../outside", "l") }, tries: outward()},
		{n: 18, name: "link up and out from below", setup: func(s *attackDir) { s.mkdir("d"); s.link("../../../outside/f", "d/l") }, tries: []attempt{
			{ops: "walk, openFile, put, stage, " + fileUses, path: "d/l", want: "outside"},
		}},
		{n: 18, name: "link to a sibling", setup: func(s *attackDir) { s.canary(s.path("../sibling")); s.link("../sibling", "l") }, tries: outward()},
		{n: 18, name: "link up through a link", setup: func(s *attackDir) { s.mkdir("d"); s.link("..", "d/up"); s.link("d/up/../../outside", "l") }, tries: []attempt{
			{ops: below, path: "l/f", want: "outside"},
		}},
		{n: 18, name: "link out of the mount, from the root", root: true, setup: func(s *attackDir) {
			s.canary(s.path("../../secret-name-beside"))
			s.mkdir("d")
			s.link("../../secret-name-beside/f", "l")
			s.link("../../../secret-name-beside/f", "d/l")
			s.link("../../secret-name-beside", "dir")
			s.link("../../../tmp", "up")
			s.link("../../tmp", "tmp")
			s.link("../../missing", "missing")
		}, tries: []attempt{
			{ops: "walk noFollow", path: "l", want: "ok", answer: says(`link "" outside=true`)},
			{ops: "walk noFollow", path: "d/l", want: "ok", answer: says(`link "" outside=true`)},
			{ops: "walk noFollow", path: "dir", want: "ok", answer: says(`link "" outside=true`)},
			{ops: "walk noFollow", path: "up", want: "ok", answer: says(`link "" outside=true`)},
			{ops: "walk noFollow", path: "missing", want: "ok", answer: says(`link "" outside=true`)},
			{ops: "walk noFollow", path: "tmp", want: "ok", answer: says(`link "../../tmp" outside=false`)},
			{ops: "walk, openFile, put, stage, " + fileUses, path: "l", want: "outside"},
			{ops: "walk, openFile, put, stage, " + fileUses, path: "d/l", want: "outside"},
			{ops: below, path: "dir/f", want: "outside"},
			{ops: "list, createFile, createDir", path: "dir/x", want: "outside"},
		}},
		{n: 19, name: "link within", setup: func(s *attackDir) {
			s.mkdir("d")
			s.write("d/f", "within")
			s.link("d", "l")
			s.link("d/f", "lf")
			s.write("d/.env", "withheld")
		}, tries: []attempt{
			{ops: "readBytes, readText, read, stream", path: "l/f", want: "ok", answer: says("within")},
			{ops: "readBytes, stream", path: "lf", want: "ok", answer: says("within")},
			{ops: "list", path: "l", want: "ok", answer: says("f")},
			{ops: "put", path: "lf", want: "ok", after: func(s *attackDir, _ string) {
				s.holds("d/f", "put")
				if target, err := os.Readlink(s.path("lf")); err != nil || target != "d/f" {
					s.Errorf("the link is now %q, %v", target, err)
				}
			}},
			{ops: every[len("get, "):], path: "l/.env", want: "denied"},
			{ops: "createFile, createDir, symlink, put, move to", path: "l/.ssh", want: "denied"},
		}},
		{n: 20, name: "link to a withheld name", setup: func(s *attackDir) {
			s.mkdir(".ssh")
			s.write(".ssh/id", secret)
			s.write(".env", secret)
			s.link(".env", "l")
			s.link(".ssh", "d")
		}, tries: []attempt{
			{ops: "walk, openFile, put, stage, " + fileUses, path: "l", want: "denied"},
			{ops: "walk, openDir, subDir, list", path: "d", want: "denied"},
			{ops: below, path: "d/id", want: "denied"},
		}},
		{n: 20, name: "link to a withheld name that is not there", setup: func(s *attackDir) { s.link(".env", "l"); s.link(".ssh", "d") }, tries: []attempt{
			{ops: "walk, openFile, put, stage, " + fileUses, path: "l", want: "denied"},
			{ops: "walk, openDir, subDir, list", path: "d", want: "denied"},
			{ops: below, path: "d/id", want: "denied"},
		}},
		{n: 21, name: "dangling link outwards", setup: func(s *attackDir) { s.link(filepath.Join(s.outside, "new"), "l"); s.link("../../outside/new", "m") }, tries: []attempt{
			{ops: "put, stage, " + wholes, path: "l", want: "outside"},
			{ops: "put, stage, " + wholes, path: "m", want: "outside"},
			{ops: "createFile, createDir, symlink, move to", path: "l", want: "exists"},
			{ops: "put noFollow", path: "l", want: "notRegular outside"},
		}},
		{n: 21, name: "dangling link within", setup: func(s *attackDir) { s.link("nowhere", "l") }, tries: []attempt{
			{ops: "put, stage, " + fileUses, path: "l", want: "notFound"},
			{ops: "createFile, createDir, symlink, move to", path: "l", want: "exists"},
		}},
		{n: 22, name: "10,000 links in a circle", setup: func(s *attackDir) {
			s.mkdir("loop")
			for i := range 10_000 {
				s.link(fmt.Sprintf("l%d", (i+1)%10_000), fmt.Sprintf("loop/l%d", i))
			}
		}, tries: []attempt{
			{ops: "walk, openDir, openFile, put, stage, list, readBytes, append", path: "loop/l0", want: "limit"},
			{ops: "walk, createFile", path: "loop/l1/x", want: "limit"},
		}},
	} {
		h.run(t, a)
	}
}

// TestAttackTypes: only regular files are opened, and nothing waits for
// another program.
func TestAttackTypes(t *testing.T) {
	h := serve(t)
	plain := "get, walk, openFile, readBytes, read, stream, stat, put, stage, " + inPlace + ", " + wholes
	for _, a := range []attack{
		{n: 26, name: "hard link to a file outside, in place", setup: hardlink, tries: []attempt{
			{ops: inPlace, path: "f", want: "denied"},
		}},
		{n: 27, name: "hard link to a file outside, replaced", setup: hardlink, tries: []attempt{
			{ops: "put, put noFollow, stage, " + wholes + ", remove, move from, createFile", path: "f", want: "ok exists", after: func(s *attackDir, op string) {
				if b, err := os.ReadFile(filepath.Join(s.base, "elsewhere")); err != nil || string(b) != "two names" {
					attacks.escape(s.TB)
					s.Errorf("%s: the other name holds %q, %v", op, b, err)
				}
			}},
		}},
		{n: 28, name: "FIFO, read", setup: fifo, tries: []attempt{{ops: "get, walk, openFile, stat, readText, readBytes, read, stream", path: "p", want: "notRegular"}}},
		{n: 29, name: "FIFO, written", setup: fifo, tries: []attempt{
			{ops: "put, put noFollow, stage, " + wholes + ", " + inPlace, path: "p", want: "notRegular"},
			{ops: "createFile, createDir, symlink, move to", path: "p", want: "exists"},
			{ops: "list, openDir, subDir", path: "p", want: "notDir notRegular"},
		}},
		{n: 30, name: "/dev/zero by link", setup: func(s *attackDir) { s.link("/dev/zero", "z") }, tries: []attempt{
			{ops: "walk, openFile, put, stage, " + fileUses, path: "z", want: "outside"},
		}},
		{n: 31, name: "socket", setup: socket, tries: []attempt{
			{ops: plain, path: "s", want: "notRegular"},
			{ops: "createFile, createDir, symlink, move to", path: "s", want: "exists"},
		}},
		{n: 33, name: "a file as a Dir", setup: func(s *attackDir) { s.write("f", "f") }, tries: []attempt{
			{ops: "openDir, subDir, list", path: "f", want: "notDir"},
			{ops: pathwise, path: "f/x", want: "notDir"},
		}},
		{n: 33, name: "a Dir as a file", setup: func(s *attackDir) { s.mkdir("d") }, tries: []attempt{
			{ops: "openFile, put, put noFollow, stage, " + fileUses, path: "d", want: "isDir"},
		}},
	} {
		h.run(t, a)
	}
	device := attack{n: 30, name: "device", setup: zero, tries: []attempt{{ops: plain, path: "z", want: "notRegular"}}}
	if canMakeDevices(t) {
		h.run(t, device)
	} else {
		t.Run("30 device", func(t *testing.T) { t.Skip("this user can make no devices: tried with a link alone") })
	}
	t.Run("32 leased file", func(t *testing.T) { leases(t, h) })
	t.Run("28 FIFO, in time", func(t *testing.T) { quick(t, h) })
}

// quick: a FIFO is refused in under 50 ms. One of several tries must be that
// fast, since the machine may be busy.
func quick(t *testing.T, h *hostProcess) {
	s := h.scene(t, attack{n: 28, setup: fifo})
	attacks.add(t, toll{cases: 1, names: 1, tries: -3 * 19, behind: -3 * 19}) // each is tried again if it was too slow
	for _, op := range []string{"readBytes", "write", "put"} {
		best := time.Hour
		for range 20 {
			start := time.Now()
			s.attempt(op, attempt{path: "p", want: "notRegular"})
			best = min(best, time.Since(start))
		}
		if best > 50*time.Millisecond {
			t.Errorf("%s of a FIFO took %v at best", op, best)
		}
	}
}

// leases: a file that another program leases is busy, and nobody waits for it.
// No picture is taken, since that would break the lease.
func leases(t *testing.T, h *hostProcess) {
	s := h.scene(t, attack{n: 32, setup: lease})
	attacks.add(t, toll{cases: 1, names: 1})
	for _, op := range []string{"readBytes", "readText", "read", "stream", "stat", "write", "append", "truncate"} {
		start := time.Now()
		s.attempt(op, attempt{path: "f", want: "busy"})
		if took := time.Since(start); took > prompt {
			t.Errorf("%s of a leased file took %v", op, took)
		}
	}
}
