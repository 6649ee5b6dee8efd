package tests

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"capd/cap/wire"
)

// exchanges is how many exchanges the other program of case 34 makes.
func exchanges() int { return times(200_000, 1_000_000) }

// Races: another program changes the disk as fast as it can.
func TestAttackRaces(t *testing.T) {
	t.Parallel()
	disk := serve(t) // its file system reuses inode numbers at once
	memory := serveAt(newPlaceInMemory(t), exec.Command(capd(t)))
	for _, r := range []struct {
		n     int
		name  string
		setup func(s *attackDir)
		run   func(t *testing.T, s *attackDir)
	}{
		{26, "hard link made and unmade", func(s *attackDir) { s.write("f", "inside") }, raceHardLink},
		{34, "directory and link exchanged", func(s *attackDir) {
			s.mkdir("d")
			s.write("d/f", "inside")
			s.link("../../outside", "l")
		}, raceDirectoryAndLink},
		{34, "link in the middle of a path", func(s *attackDir) {
			s.alike("outside-deep", "f")
			s.link("../../../outside-deep", "a/l")
		}, raceLinkInTheMiddle},
		{35, "middle of a path moved outside", func(s *attackDir) {
			s.alike("beside", "secret")
		}, raceMiddleOutside},
		{35, "held Dir exchanged with one outside", func(s *attackDir) {
			s.mkdir("held")
			s.write("held/f", "inside")
			s.canary(filepath.Join(s.base, "other"))
		}, raceHeldOutside},
		{36, "held Dir removed and made again", nil, raceMadeAgain},
		{38, "file and link exchanged", func(s *attackDir) {
			s.write("f", "inside")
			s.link("../../outside/f", "l")
		}, raceFileAndLink},
		{39, "file and FIFO exchanged", func(s *attackDir) {
			s.write("f", "inside")
			fifo(s)
		}, raceFileAndFIFO},
		{41, "two conditional writers", func(s *attackDir) { s.write("n", "0") }, raceConditions},
		{43, "two creators", func(s *attackDir) { s.mkdir("d") }, raceCreators},
		{44, "mode and link", func(s *attackDir) {
			s.write("x", "inside")
			ok(s.TB, os.Chmod(s.path("x"), 0o755))
		}, raceMode},
	} {
		t.Run(strconv.Itoa(r.n)+" "+r.name, func(t *testing.T) {
			h := memory
			if r.n == 36 {
				h = disk
			}
			s := h.scene(t, attack{n: r.n, setup: r.setup})
			outside := take(t, s.outside)
			r.run(t, s)
			if d := outside.differs(take(t, s.outside)); d != "" {
				attacks.escape(t)
				t.Errorf("outside, %s", d)
			}
		})
	}
}

func raceDirectoryAndLink(t *testing.T, s *attackDir) {
	done, stop := counted(t, "exchange", s.path("d"), s.path("l"), strconv.Itoa(exchanges()))
	ops := strings.Split("readBytes, read, walk, openFile, stat, list, readText, createFile, put, remove", ", ")
	race(t, ops, "stale notFound notDir outside busy exists", done, func(ctx context.Context, op string, i int) error {
		switch op {
		case "list":
			text, err := try(ctx, op, s.cap, "d")
			if err == nil && (strings.Contains(text, "deep") || strings.Contains(text, "run")) {
				escaped(t, op, text)
			}
			return err
		case "createFile", "put", "remove":
			_, err := try(ctx, op, s.cap, "d/new"+strconv.Itoa(i%100))
			return err
		}
		return readThen(ctx, t, op, s.cap, "d/f", "inside")
	})
	t.Logf("%s exchanges", strings.Join(stop(), " "))
}

// A link that takes the place of a directory during a lookup of several names leads nowhere.
func raceLinkInTheMiddle(t *testing.T, s *attackDir) {
	start(t, "exchange", s.path("a/d"), s.path("a/l"), "0")
	ops := strings.Split("readBytes, read, walk, openFile, stat, readText, list, put", ", ")
	race(t, ops, "stale notFound notDir outside busy", nil, func(ctx context.Context, op string, i int) error {
		switch op {
		case "list":
			text, err := try(ctx, op, s.cap, "a/d/deep/e")
			if err == nil && !strings.HasPrefix(text, "f") {
				escaped(t, op, text)
			}
			return err
		case "put":
			_, err := try(ctx, op, s.cap, "a/d/deep/e/new"+strconv.Itoa(i%50))
			return err
		}
		return readThen(ctx, t, op, s.cap, "a/d/deep/e/f", "inside")
	})
	if made, _ := filepath.Glob(filepath.Join(s.base, "outside-deep/deep/e/new*")); len(made) > 0 {
		attacks.escape(t)
		t.Errorf("an escape: made outside: %q", made)
	}
}

// alike makes a/d/deep/e/f inside, and outside a directory name with as deep a directory, which has
// file.
func (s *attackDir) alike(name, file string) {
	s.mkdir("a/d/deep/e")
	s.write("a/d/deep/e/f", "inside")
	out := filepath.Join(s.base, name)
	s.canary(out)
	ok(s, os.MkdirAll(filepath.Join(out, "deep/e"), 0o755))
	ok(s, os.WriteFile(filepath.Join(out, "deep/e", file), []byte(secret), 0o644))
}

// The directory in the middle of a path is exchanged with one outside. Either one may be there
// at the moment of the lookup; a name that only the directory outside had before is not made
// visible by a Dir that was opened within.
func raceMiddleOutside(t *testing.T, s *attackDir) {
	held := s.top.SubDir("a/d/deep")
	ok(t, held.Cap().Settle(context.Background()))
	start(t, "exchange", s.path("a/d"), filepath.Join(s.base, "beside"), "0")
	ops := strings.Split("readBytes, read, walk, openFile, stat, readText, list, walk noFollow", ", ")
	race(t, ops, "stale notFound notDir busy", nil, func(ctx context.Context, op string, i int) error {
		if op == "list" {
			text, err := try(ctx, op, held.Cap(), "e")
			if err == nil && strings.Contains(text, "secret") {
				escaped(t, op, text)
			}
			return err
		}
		if i%2 == 0 {
			_, err := try(ctx, op, held.Cap(), "e/secret")
			if err == nil {
				escaped(t, op, "e/secret")
			}
			return err
		}
		return readThen(ctx, t, op, held.Cap(), "e/f", "inside")
	})
}

// A file outside is never changed through a hard link that is inside for a moment.
func raceHardLink(t *testing.T, s *attackDir) {
	start(t, "alias", s.path("f"), filepath.Join(s.outside, "f"))
	race(t, strings.Split(inPlace, ", "), "denied notFound stale busy", nil, func(ctx context.Context, op string, _ int) error {
		_, err := try(ctx, op, s.cap, "f")
		return err
	})
}

// The other directory may be anywhere. Only the held directory may be seen, and nothing
// may be made in the other.
func raceHeldOutside(t *testing.T, s *attackDir) {
	held := s.top.SubDir("held")
	ok(t, held.Cap().Settle(context.Background()))
	other := filepath.Join(s.base, "other")
	cmd := start(t, "exchange", s.path("held"), other, "0")
	ops := strings.Split("readBytes, read, readText, openFile, list, createFile, put", ", ")
	race(t, ops, "stale notFound exists busy", nil, func(ctx context.Context, op string, i int) error {
		switch op {
		case "list":
			text, err := list(ctx, held.Cap())
			if err == nil && strings.Contains(text, "deep") {
				escaped(t, op, text)
			}
			return wire.Decode(err)
		case "createFile", "put":
			_, err := try(ctx, op, held.Cap(), "new"+strconv.Itoa(i%50))
			return err
		}
		return readThen(ctx, t, op, held.Cap(), "f", "inside")
	})
	cmd.Process.Kill()
	cmd.Wait()
	for _, dir := range []string{other, s.path("held")} {
		if b, err := os.ReadFile(filepath.Join(dir, "f")); err == nil && strings.Contains(string(b), secret) {
			if made, _ := filepath.Glob(filepath.Join(dir, "new*")); len(made) > 0 {
				attacks.escape(t)
				t.Errorf("an escape: made in the other directory: %q", made)
			}
		}
	}
}

// Everything read through one Dir comes from one directory, or is refused.
func raceMadeAgain(t *testing.T, s *attackDir) {
	start(t, "remake", s.path("held"))
	race(t, []string{"readBytes", "readText", "read"}, "stale notFound busy", nil, func(ctx context.Context, op string, _ int) error {
		held := s.top.SubDir("held")
		defer held.Close()
		first := ""
		for range 100 {
			text, err := try(ctx, op, held.Cap(), "n")
			if err != nil {
				return err
			}
			if text == "" { // it is being written
				continue
			}
			if first != "" {
				escaped(t, op, text, first)
				return nil
			}
			first = text
		}
		return nil
	})
}

func raceFileAndLink(t *testing.T, s *attackDir) {
	start(t, "exchange", s.path("f"), s.path("l"), "0")
	ops := strings.Split("readBytes, readText, read, stat, write", ", ")
	race(t, ops, "outside stale notFound notRegular busy", nil, func(ctx context.Context, op string, _ int) error {
		return readThen(ctx, t, op, s.cap, "f", "inside", "in place", "in pla") // the last beside the first write
	})
}

func raceFileAndFIFO(t *testing.T, s *attackDir) {
	start(t, "exchange", s.path("f"), s.path("p"), "0")
	ops := strings.Split("readBytes, read, stream, stat, write, append, truncate, openFile", ", ")
	race(t, ops, "stale notFound notRegular busy", nil, func(ctx context.Context, op string, _ int) error {
		_, err := try(ctx, op, s.cap, "f")
		return err
	})
}

// Of two changes with the same condition one wins: no increment is lost.
func raceConditions(t *testing.T, s *attackDir) {
	path := "project/" + s.name + "/n"
	_, stop := counted(t, "increment", s.locator, path)
	d := dial(t, s.locator).Dir(t.Context())
	var mu sync.Mutex
	won := 0
	race(t, []string{"put"}, "conflict busy", nil, func(_ context.Context, _ string, _ int) error {
		err := increment(d, path)
		if err == nil {
			mu.Lock()
			won++
			mu.Unlock()
		}
		return err
	})
	theirs, err := strconv.Atoi(strings.Join(stop(), ""))
	ok(t, err)
	s.holds("n", strconv.Itoa(won+theirs))
	t.Logf("%d won here, %d there", won, theirs)
}

// Both create the same names at the same time.
func raceCreators(t *testing.T, s *attackDir) {
	prefix := "project/" + s.name + "/d/"
	_, stop := counted(t, "create", s.locator, prefix)
	d := dial(t, s.locator).Dir(t.Context())
	var mu sync.Mutex
	won := map[string]bool{}
	race(t, []string{"createFile"}, "exists busy", nil, func(ctx context.Context, _ string, _ int) error {
		name := moment()
		f, err := d.CreateFile(ctx, prefix+name)
		if err == nil {
			f.Close()
			mu.Lock()
			defer mu.Unlock()
			if won[name] {
				t.Errorf("%s was created twice", name)
			}
			won[name] = true
		}
		return err
	})
	here, theirs := len(won), stop()
	for _, name := range theirs {
		if won[name] {
			t.Errorf("both created %s", name)
		}
		won[name] = true
	}
	have, _ := os.ReadDir(s.path("d"))
	t.Logf("%d won here, %d there", here, len(theirs))
	if len(have) != len(won) || len(theirs) == 0 {
		t.Errorf("%d files, %d created", len(have), len(won))
	}
}

// A file that replaces another has the mode of that file. It never has the mode of the
// target of a link.
func raceMode(t *testing.T, s *attackDir) {
	start(t, "relink", s.path("x"), filepath.Join(s.outside, "run"))
	race(t, strings.Split("put, put noFollow, writeBytes, stage", ", "), "outside stale notFound notRegular busy conflict", nil, func(ctx context.Context, op string, _ int) error {
		_, err := try(ctx, op, s.cap, "x")
		if info, statErr := os.Lstat(s.path("x")); statErr != nil {
			t.Errorf("after a %s: %v", op, statErr)
		} else if info.Mode().IsRegular() && info.Mode() != 0o755 {
			attacks.escape(t)
			t.Errorf("after a %s it has the mode %v", op, info.Mode())
		}
		return err
	})
}
