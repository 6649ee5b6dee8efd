package copier_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/copier"
	"capd/vfs/faultfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

var cargo = vfstest.Tree{
	"d/f": {Data: "a file"}, "d/x": {Data: "#!", Exec: true}, "d/e/g": {Data: strings.Repeat("long", 5_000)}, "d/e/empty": {},
	"d/hollow": {Dir: true}, "d/l": {Link: "../beyond"}, "f": {Data: "alone"}, "l": {Link: "f"},
}

// pair is two stores in memory with their faults.
type pair struct {
	from, to           *memory.Store
	fromPlan, toPlan   *faultfs.Plan
	fromDir, toDir     vfs.Dir // with faults
	fromWhole, toWhole string  // how they were
}

// plain is a Dir that cannot stage directories.
type plain struct{ vfs.Dir }

func (d plain) Install(ctx context.Context, name string, r io.Reader, exec bool, c vfs.If) (vfs.Version, error) {
	return vfs.Install(ctx, d.Dir, name, r, exec, c)
}

func (d plain) Symlink(ctx context.Context, name, target string) error {
	return vfs.Symlink(ctx, d.Dir, name, target)
}

func (d plain) Mkdir(ctx context.Context, name string) (vfs.Dir, error) {
	made, err := d.Dir.Mkdir(ctx, name)
	if err != nil {
		return nil, err
	}
	return plain{made}, nil
}

func newPair(t *testing.T, there vfstest.Tree, stages bool) *pair {
	t.Helper()
	p := &pair{fromPlan: new(faultfs.Plan), toPlan: new(faultfs.Plan)}
	p.from, _ = check.Store(t, cargo)
	p.to, _ = check.Store(t, there)
	p.fromDir, p.toDir = faultfs.New(p.from.Root(), p.fromPlan), faultfs.New(p.to.Root(), p.toPlan)
	if !stages {
		p.toDir = plain{p.toDir}
	}
	p.fromWhole, p.toWhole = check.Picture(t, p.from.Root()), check.Picture(t, p.to.Root())
	return p
}

func (p *pair) duplicate(ctx context.Context, name string, o copier.Options) error {
	return copier.Duplicate(ctx, copier.Spot{Dir: p.fromDir, Name: name}, copier.Spot{Dir: p.toDir, Name: "got"}, o)
}

// arrived reports whether everything of name is at the target.
func (p *pair) arrived(t *testing.T, name string) bool {
	t.Helper()
	return below(check.Picture(t, p.to.Root()), "got") == below(p.fromWhole, name)
}

// below returns the part of a picture below a name.
func below(picture, name string) string {
	var some []string
	for line := range strings.Lines(picture) {
		if rest, ok := strings.CutPrefix(line, name); ok && !strings.HasPrefix(rest, "-") {
			some = append(some, rest)
		}
	}
	return strings.Join(some, "")
}

// each runs f with and without staging of directories.
func each(t *testing.T, f func(t *testing.T, stages bool)) {
	for _, stages := range []bool{true, false} {
		t.Run(fmt.Sprint("stages ", stages), func(t *testing.T) { f(t, stages) })
	}
}

func TestDuplicate(t *testing.T) {
	each(t, func(t *testing.T, stages bool) {
		for _, workers := range []int{1, 4} {
			for _, name := range []string{"d", "f", "l"} {
				p := newPair(t, nil, stages)
				var last copier.Progress
				check.OK(t, p.duplicate(t.Context(), name, copier.Options{Workers: workers, Progress: func(p copier.Progress) { last = p }}))
				if !p.arrived(t, name) {
					t.Errorf("%s arrived as %s", name, check.Picture(t, p.to.Root()))
				}
				if now := check.Picture(t, p.from.Root()); now != p.fromWhole {
					t.Errorf("the source became %s", now)
				}
				if want := (copier.Progress{Files: 4, Directories: 3, Links: 1, Bytes: 20_008}); name == "d" && last != want {
					t.Errorf("progress ends with %+v, want %+v", last, want)
				}
			}
		}
	})
}

// Nothing of a directory is visible before all of it is.
func TestDuplicateAtOnce(t *testing.T) {
	p := newPair(t, nil, true)
	seen, placed := 0, false
	p.toPlan.Watch(func(op faultfs.Op, stage faultfs.Stage) {
		if placed = placed || op == faultfs.Place && stage == faultfs.After; placed {
			return
		}
		seen++
		if now := check.Picture(t, p.to.Root()); now != p.toWhole {
			t.Errorf("at %s, stage %d, there is %s", op, stage, now)
		}
	})
	check.OK(t, p.duplicate(t.Context(), "d", copier.Options{Workers: 1}))
	p.toPlan.Watch(nil)
	if !p.arrived(t, "d") || seen < 10 {
		t.Errorf("%d looks; arrived as %s", seen, check.Picture(t, p.to.Root()))
	}
}

// TestEveryFault fails each operation of the source and of the target in turn, in each of
// its stages. Everything is copied or nothing, and nothing is left of the staging.
func TestEveryFault(t *testing.T) {
	planned := vfs.Errorf(vfs.Busy, "planned")
	each(t, func(t *testing.T, stages bool) {
		for _, name := range []string{"d", "f", "l"} {
			for _, stage := range []faultfs.Stage{faultfs.Before, faultfs.Commit, faultfs.After} {
				for _, end := range []string{"source", "target"} {
					failed := 0
					for n := 1; n < failed+30; n++ {
						p := newPair(t, vfstest.Tree{"other": {Data: "other"}}, stages)
						plan := p.fromPlan
						if end == "target" {
							plan = p.toPlan
						}
						plan.Fail(faultfs.Any, stage, n, planned)
						err := p.duplicate(t.Context(), name, copier.Options{Workers: 1})
						p.fromPlan.Clear()
						p.toPlan.Clear()
						where := fmt.Sprintf("%s, stage %d of the %s, step %d", name, stage, end, n)
						bytes, nodes := p.to.Usage()
						switch {
						case err == nil && !p.arrived(t, name):
							t.Fatalf("%s: it says that it copied, and there is %s", where, check.Picture(t, p.to.Root()))
						case err != nil && check.Picture(t, p.to.Root()) != p.toWhole:
							t.Fatalf("%s: %v, and there is %s", where, err, check.Picture(t, p.to.Root()))
						case err != nil && (bytes != int64(len("other")) || nodes != 1):
							t.Fatalf("%s: %v, and %d bytes in %d nodes are counted", where, err, bytes, nodes)
						case err != nil:
							check.Is(t, where, err, vfs.Busy)
							failed++
						}
					}
					if failed < 1 && stage != faultfs.Commit {
						t.Errorf("%s, stage %d of the %s: no fault did anything", name, stage, end)
					}
				}
			}
		}
	})
}

// TestSourceChanges changes the source while it is copied.
func TestSourceChanges(t *testing.T) {
	put := func(path string) func(*testing.T, vfs.Dir) {
		return func(t *testing.T, d vfs.Dir) { check.OK(t, check.Put(t.Context(), d, path, "changed")) }
	}
	for name, c := range map[string]struct {
		op     faultfs.Op
		at     int // the second target is read when d/e has been copied
		change func(*testing.T, vfs.Dir)
	}{
		"a file when it was read":   {faultfs.Open, 2, put("d/e/empty")},
		"a file after it was read":  {faultfs.Target, 2, put("d/e/g")},
		"a file appears":            {faultfs.Target, 2, put("d/late")},
		"a file appears in the end": {faultfs.Target, 2, put("d/e/late")},
		"a file goes": {faultfs.Target, 2, func(t *testing.T, d vfs.Dir) {
			check.OK(t, check.DirAt(t, d, "d/e").Remove(t.Context(), "g", vfs.If{}))
		}},
		"a file becomes a directory": {faultfs.Target, 2, func(t *testing.T, d vfs.Dir) {
			e := check.DirAt(t, d, "d/e")
			check.OK(t, e.Remove(t.Context(), "g", vfs.If{}))
			_, err := e.Mkdir(t.Context(), "g")
			check.OK(t, err)
		}},
	} {
		each(t, func(t *testing.T, stages bool) {
			p := newPair(t, nil, stages)
			pause := p.fromPlan.Pause(c.op, faultfs.Before, c.at)
			done := make(chan error)
			go func() { done <- p.duplicate(t.Context(), "d", copier.Options{Workers: 1}) }()
			<-pause.Reached()
			c.change(t, p.from.Root())
			pause.Resume()
			check.Is(t, name, <-done, vfs.Conflict)
			if now := check.Picture(t, p.to.Root()); now != p.toWhole {
				t.Errorf("%s: there is %s", name, now)
			}
		})
	}
}

// TestLargeSourceChanges changes a file that is too large to be read at once, after its
// version was found out.
func TestLargeSourceChanges(t *testing.T) {
	from, _ := check.Store(t, vfstest.Tree{"large": {Data: strings.Repeat("large", 1<<18)}})
	to, _ := check.Store(t, nil)
	plan := new(faultfs.Plan)
	pause := plan.Pause(faultfs.Open, faultfs.Before, 1)
	done := make(chan error)
	go func() {
		done <- copier.Duplicate(t.Context(), copier.Spot{Dir: faultfs.New(from.Root(), plan), Name: "large"}, copier.Spot{Dir: to.Root(), Name: "got"}, copier.Options{})
	}()
	<-pause.Reached()
	check.OK(t, check.Put(t.Context(), from.Root(), "large", strings.Repeat("LARGE", 1<<18)))
	pause.Resume()
	check.Is(t, "Duplicate", <-done, vfs.Conflict)
	if now := check.Picture(t, to.Root()); now != "" {
		t.Errorf("there is %.100s", now)
	}
}

// TestEnds: a copy that is cancelled or revoked leaves nothing.
func TestEnds(t *testing.T) {
	each(t, func(t *testing.T, stages bool) {
		p := newPair(t, nil, stages)
		ctx, cancel := context.WithCancel(t.Context())
		pause := p.toPlan.Pause(faultfs.Install, faultfs.After, 2)
		done := make(chan error)
		go func() { done <- p.duplicate(ctx, "d", copier.Options{}) }()
		<-pause.Reached()
		cancel()
		pause.Resume()
		if err := <-done; err != context.Canceled {
			t.Error(err)
		}
		if now := check.Picture(t, p.to.Root()); now != p.toWhole {
			t.Errorf("there is %s", now)
		}
	})
	t.Run("source revoked", func(t *testing.T) {
		each(t, func(t *testing.T, stages bool) {
			p := newPair(t, nil, stages)
			from, control := check.Controlled(t, membrane.Guarded(p.fromDir, nil))
			p.fromDir = from
			pause := p.fromPlan.Pause(faultfs.Content, faultfs.Before, 2)
			done := make(chan error)
			go func() { done <- p.duplicate(t.Context(), "d", copier.Options{}) }()
			<-pause.Reached()
			check.OK(t, control.Revoke())
			pause.Resume()
			check.Is(t, "Duplicate", <-done, vfs.Revoked)
			if now := check.Picture(t, p.to.Root()); now != p.toWhole {
				t.Errorf("there is %s", now)
			}
		})
	})
}

func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		l    copier.Limits
		fits bool
	}{
		"entries": {copier.Limits{Entries: 7}, false}, "bytes": {copier.Limits{Bytes: 20_007}, false}, "depth": {copier.Limits{Depth: 2}, false},
		"all fit": {copier.Limits{Entries: 8, Bytes: 20_008, Depth: 3}, true},
	} {
		each(t, func(t *testing.T, stages bool) {
			p := newPair(t, nil, stages)
			err := p.duplicate(t.Context(), "d", copier.Options{Limits: c.l})
			if c.fits {
				check.OK(t, err)
				return
			}
			check.Is(t, name, err, vfs.Limit)
			if now := check.Picture(t, p.to.Root()); now != p.toWhole {
				t.Errorf("%s: there is %s", name, now)
			}
		})
	}
}

// What is at the target stays, unless its version was named. It comes back if the copy
// fails.
func TestTargets(t *testing.T) {
	there := vfstest.Tree{"got": {Data: "the old one", Exec: true}}
	each(t, func(t *testing.T, stages bool) {
		for _, name := range []string{"d", "f", "l"} {
			p := newPair(t, there, stages)
			check.Is(t, "a copy to what is there", p.duplicate(t.Context(), name, copier.Options{}), vfs.Exists)
			if now := check.Picture(t, p.to.Root()); now != p.toWhole {
				t.Errorf("there is %s", now)
			}
		}
		p := newPair(t, vfstest.Tree{"got": cargo["f"]}, stages)
		check.Is(t, "a copy to the same content", p.duplicate(t.Context(), "f", copier.Options{}), vfs.Exists)
		if now := check.Picture(t, p.to.Root()); now != p.toWhole {
			t.Errorf("there is %s", now)
		}
		again := copier.Spot{Dir: p.toDir, Name: "got", If: vfs.If{Over: true}}
		check.OK(t, copier.Duplicate(t.Context(), copier.Spot{Dir: p.fromDir, Name: "f"}, again, copier.Options{}))
		check.Is(t, "a move over the same content", copier.Move(t.Context(), copier.Spot{Dir: p.fromDir, Name: "f"}, again, copier.Options{}), vfs.Exists)
		if now := check.Picture(t, p.to.Root()); now != p.toWhole {
			t.Errorf("there is %s", now)
		}
		p = newPair(t, there, stages)
		is, err := vfs.VersionOf(t.Context(), check.FileAt(t, p.to.Root(), "got"))
		check.OK(t, err)
		from, to := copier.Spot{Dir: p.fromDir, Name: "f"}, copier.Spot{Dir: p.toDir, Name: "got", If: vfs.If{Is: is}}
		p.fromPlan.Fail(faultfs.Version, faultfs.After, 2, vfs.Errorf(vfs.Busy, "planned")) // after it was placed
		check.Is(t, "a copy that fails", copier.Move(t.Context(), from, to, copier.Options{}), vfs.Busy)
		if now := check.Picture(t, p.to.Root()); now != p.toWhole {
			t.Errorf("there is %s", now)
		}
		check.OK(t, copier.Duplicate(t.Context(), from, to, copier.Options{}))
		if got := check.Read(t, p.to.Root(), "got"); got != "alone" {
			t.Errorf("there is %q", got)
		}
	})
}

// TestReplaces copies each kind of node over each. What is replaced comes back if the copy fails.
func TestReplaces(t *testing.T) {
	there := map[string]vfstest.Tree{
		"file": {"got": {Data: "the old one", Exec: true}}, "link": {"got": {Link: "elsewhere"}}, "empty": {"got": {Dir: true}}, "full": {"got/x": {Data: "x"}},
	}
	want := map[string]map[string]vfs.Code{
		"f": {"empty": vfs.IsDir, "full": vfs.IsDir}, "l": {"empty": vfs.IsDir, "full": vfs.IsDir},
		"d": {"file": vfs.NotDir, "link": vfs.NotDir, "full": vfs.NotEmpty},
	}
	over := func(p *pair, name string) error {
		return copier.Duplicate(t.Context(), copier.Spot{Dir: p.fromDir, Name: name}, copier.Spot{Dir: p.toDir, Name: "got", If: vfs.If{Over: true}}, copier.Options{Workers: 1})
	}
	each(t, func(t *testing.T, stages bool) {
		for name, codes := range want {
			for kind, tree := range there {
				what := name + " over a " + kind
				p := newPair(t, tree, stages)
				err := over(p, name)
				check.Is(t, what, err, codes[kind])
				switch now := check.Picture(t, p.to.Root()); {
				case err == nil && !p.arrived(t, name), err != nil && now != p.toWhole:
					t.Errorf("%s: %v, and there is %s", what, err, now)
				case err != nil:
					continue
				}
				failed := 0
				for n := 1; n < failed+20; n++ {
					p := newPair(t, tree, stages)
					p.fromPlan.Fail(faultfs.Any, faultfs.Before, n, vfs.Errorf(vfs.Busy, "planned"))
					if err := over(p, name); err == nil {
						continue
					}
					failed++
					if now := check.Picture(t, p.to.Root()); now != p.toWhole {
						t.Fatalf("%s, which fails at step %d: there is %s", what, n, now)
					}
				}
				if failed == 0 {
					t.Errorf("%s: no fault did anything", what)
				}
			}
		}
		p := newPair(t, nil, stages)
		check.OK(t, over(p, "d"))
		if !p.arrived(t, "d") {
			t.Errorf("over nothing: %s", check.Picture(t, p.to.Root()))
		}
	})
}
