package tests

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"capd/client"
	"capd/vat"
)

// patience is how long an operation may take before it counts as hung. It is twice
// as long with the race detector.
var patience = 30 * time.Second

// prompt is the time limit of an answer, with and without the race detector.
const prompt = 20 * time.Second

// attack is one case: what exists, and what operations on paths must answer.
type attack struct {
	n     int // its number
	name  string
	setup func(s *attackDir)
	// hold, if not "", is a directory that is opened first, from which paths begin. Then
	// event happens to it on the host's disk.
	hold  string
	event func(s *attackDir)
	// root: paths begin at the root of the namespace, so the scene is project/NAME.
	root bool
	// blind: no picture is taken of the scene, since it has no end.
	blind bool
	tries []attempt
}

// attempt is some operations on one path. Each counts as a try.
type attempt struct {
	ops  string // separated by ", "
	path string
	want string // codes, each of which is right; "ok" means no error
	// answer, if not nil, checks the answer.
	answer func(s *attackDir, op, text string)
	// after, if not nil, checks the host's disk.
	after func(s *attackDir, op string)
}

// attackDir is a directory in the served one, and a Dir of it.
type attackDir struct {
	*hostProcess
	testing.TB
	dir  string      // on the host's disk
	name string      // in the served directory
	top  *client.Dir // of it
	cap  *vat.Cap    // where paths begin: top, what is held, or the root
	at   string      // the prefix of paths
}

func (s *attackDir) path(rel string) string { return filepath.Join(s.dir, rel) }

func (s *attackDir) write(rel, data string) {
	s.TB.Helper()
	ok(s.TB, os.WriteFile(s.path(rel), []byte(data), 0o644))
}

func (s *attackDir) mkdir(rel string) {
	s.TB.Helper()
	ok(s.TB, os.MkdirAll(s.path(rel), 0o755))
}

func (s *attackDir) link(target, rel string) {
	s.TB.Helper()
	ok(s.TB, os.Symlink(target, s.path(rel)))
}

func (s *attackDir) holds(rel, want string) {
	s.TB.Helper()
	if b, err := os.ReadFile(s.path(rel)); err != nil || string(b) != want {
		s.Errorf("%s holds %q (%v), want %q", rel, b, err, want)
	}
}

var sceneNumber atomic.Int64

// scene makes a directory for an attack and opens a Dir of it.
func (h *hostProcess) scene(t testing.TB, a attack) *attackDir {
	t.Helper()
	name := fmt.Sprintf("case%d-%d", a.n, sceneNumber.Add(1))
	s := &attackDir{hostProcess: h, TB: t, dir: filepath.Join(h.served, name), name: name}
	s.mkdir("")
	s.write("bait", "bait")
	if a.setup != nil {
		a.setup(s)
	}
	conn := dial(t, h.attacker(), secret, h.base)
	s.top = conn.Dir(context.Background()).SubDir("project/" + name)
	s.cap = s.top.Cap()
	if a.root {
		s.cap, s.at = conn.Dir(context.Background()).Cap(), "project/"+name+"/"
	}
	if a.hold != "" {
		s.cap = s.top.SubDir(a.hold).Cap()
		ok(t, s.cap.Settle(context.Background()))
		if _, err := try(context.Background(), "list", s.top.Cap(), a.hold); err != nil {
			t.Fatalf("%s cannot be listed: %v", a.hold, err)
		}
		a.event(s)
	}
	return s
}

// run runs an attack. Refused operations must change nothing in the served directory.
// After an operation that succeeds, the scene is set up again.
func (h *hostProcess) run(t *testing.T, a attack) {
	t.Run(fmt.Sprintf("%02d %s", a.n, a.name), func(t *testing.T) {
		attacks.add(t, toll{cases: 1})
		var s *attackDir
		var outside, inside picture
		names := map[string]bool{}
		for _, try := range a.tries {
			if !names[try.path] {
				names[try.path] = true
				attacks.add(t, toll{names: 1})
			}
			for op := range strings.SplitSeq(try.ops, ", ") {
				if s == nil {
					s = h.scene(t, a)
					outside, inside = take(t, h.outside), a.picture(s)
				}
				refused := s.attempt(op, try)
				if d := outside.differs(take(t, h.outside)); d != "" {
					attacks.escape(t)
					t.Errorf("%s %q: outside, %s", op, try.path, d)
				}
				if refused {
					if d := inside.differs(a.picture(s)); d != "" {
						t.Errorf("%s %q was refused, but %s", op, try.path, d)
					}
				}
				if try.after != nil {
					try.after(s, op)
				}
				if !refused {
					s = nil
				}
			}
		}
	})
}

func (a attack) picture(s *attackDir) picture {
	if a.blind {
		return nil
	}
	return take(s.TB, s.dir)
}

func (s *attackDir) attempt(op string, a attempt) (refused bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var behind bool
	text, err := try(whetherOpened(ctx, &behind), op, s.cap, s.at+a.path)
	attacks.tried(s.TB, behind)
	if isTimeout(err) {
		attacks.add(s.TB, toll{hangs: 1})
		s.Errorf("%s %q hangs", op, a.path)
		return false
	}
	if !hasCode(err, a.want) {
		if err == nil {
			attacks.escape(s.TB)
		}
		s.Errorf("%s %.100q: %v %q, want %s", op, a.path, err, text, a.want)
	}
	for _, bad := range []string{secret, s.base, "root:x:0"} {
		if strings.Contains(text, bad) || err != nil && strings.Contains(err.Error(), bad) {
			attacks.escape(s.TB)
			s.Errorf("%s %.100q answers %q, %v", op, a.path, text, err)
		}
	}
	if err == nil && a.answer != nil {
		a.answer(s, op, text)
	}
	return err != nil
}

// says returns a check that the answer is exactly want.
func says(want string) func(*attackDir, string, string) {
	return func(s *attackDir, op, text string) {
		if text != want {
			s.Errorf("%s answers %q, want %q", op, text, want)
		}
	}
}
