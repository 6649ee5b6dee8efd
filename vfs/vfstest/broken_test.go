package vfstest_test

import (
	"bytes"
	"context"
	"io"
	"iter"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/vfstest"
)

func newTree(t testing.TB, tree vfstest.Tree) vfs.Dir {
	s := memory.New(memory.Limits{})
	vfstest.Fill(t, s.Root(), tree,
		vfstest.Symlink(s.Root()),
		vfstest.SetExec(s.Root()))
	return s.Root()
}

// broken is a root with one fault, under the name of the rule that must find it. What is
// reached through it is correct.
var broken = map[string]func(vfs.Dir) vfs.Dir{
	"Read/List":                  func(d vfs.Dir) vfs.Dir { return unordered{d} },
	"Read/Lookup":                func(d vfs.Dir) vfs.Dir { return folding{d} },
	"Names/Bad":                  func(d vfs.Dir) vfs.Dir { return walking{d} },
	"Replace/Failing":            func(d vfs.Dir) vfs.Dir { return careless{d} },
	"Replace/OpenContent":        func(d vfs.Dir) vfs.Dir { return inPlace{d} },
	"If/Replace":                 func(d vfs.Dir) vfs.Dir { return unconditional{d} },
	"Race/ReplaceIf":             func(d vfs.Dir) vfs.Dir { return checkFirst{d} },
	"Rename/Exists":              func(d vfs.Dir) vfs.Dir { return overwriting{d} },
	"Commit/Refused":             func(d vfs.Dir) vfs.Dir { return uncommitted{d} },
	"Commit/Window":              func(d vfs.Dir) vfs.Dir { return tooEarly{d} },
	"Commit/Effect":              func(d vfs.Dir) vfs.Dir { return undeclared{d} },
	"Close/Dir":                  func(d vfs.Dir) vfs.Dir { return unclosed{d} },
	"Identity/Dir":               func(d vfs.Dir) vfs.Dir { return relinking{d, nil} },
	"Host/Identity":              func(d vfs.Dir) vfs.Dir { return named{d, ""} },
	"Read/Cancelled":             func(d vfs.Dir) vfs.Dir { return deaf{d} },
	"Immutable/Changes":          nil, // a store that changes, said to be immutable
	"Host/Symlink":               func(d vfs.Dir) vfs.Dir { return tidying{d} },
	"Host/Install":               func(d vfs.Dir) vfs.Dir { return unexecutable{d} },
	"Alike/Words":                func(d vfs.Dir) vfs.Dir { return talkative{d} },
	"Alike/Reserved":             func(d vfs.Dir) vfs.Dir { return reserving{d} },
	"Alike/Removed":              func(d vfs.Dir) vfs.Dir { return withFiles{d, func(f vfs.File) vfs.File { return checking{f} }} },
	"Alike/Overtaken":            func(d vfs.Dir) vfs.Dir { return withFiles{d, func(f vfs.File) vfs.File { return remaking{f, d} }} },
	"Alike/ReadOnly":             nil,
	"Identity/Back":              func(d vfs.Dir) vfs.Dir { return &restless{Dir: d} },
	"Read/ReadAt":                func(d vfs.Dir) vfs.Dir { return withFiles{d, func(f vfs.File) vfs.File { return endless{f} }} },
	"Host/Ready":                 func(d vfs.Dir) vfs.Dir { return hasty{d} },
	"Host/ReadyRefused":          func(d vfs.Dir) vfs.Dir { return stubborn{d} },
	"Host/ReadyWaits":            func(d vfs.Dir) vfs.Dir { return &locking{Dir: d} },
	"Commit/Effect of a removal": func(d vfs.Dir) vfs.Dir { return unaccounted{d} },
}

const ruleVar = "VFSTEST_BROKEN_RULE"

// TestBrokenStore runs the suite on a broken store. TestSuiteFindsFaults says which.
func TestBrokenStore(t *testing.T) {
	rule := os.Getenv(ruleVar)
	if rule == "" {
		return
	}
	breaks := broken[rule]
	vfstest.Run(t, vfstest.Store{
		Immutable: breaks == nil,
		New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
			d := newTree(t, tree)
			if breaks != nil {
				d = breaks(d)
			}
			return d
		},
	})
}

// A suite that cannot fail tests nothing.
func TestSuiteFindsFaults(t *testing.T) {
	for name := range broken {
		t.Run(name, func(t *testing.T) {
			rule, _, _ := strings.Cut(name, " ")
			cmd := exec.Command(os.Args[0], "-test.run=^TestBrokenStore$/^"+strings.ReplaceAll(rule, "/", "$/^")+"$", "-test.v")
			cmd.Env = append(os.Environ(), ruleVar+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil || !bytes.Contains(out, []byte("--- FAIL: TestBrokenStore/"+rule)) {
				t.Errorf("the suite does not find it: %v\n%s", err, out)
			}
			if bytes.Contains(out, []byte("panic:")) {
				t.Errorf("the suite panics:\n%s", out)
			}
		})
	}
}

type tidying struct{ vfs.Dir }

func (d tidying) Symlink(ctx context.Context, name, target string) error {
	return vfs.Symlink(ctx, d.Dir, name, strings.TrimPrefix(target, "../"))
}

type unexecutable struct{ vfs.Dir }

func (d unexecutable) Install(ctx context.Context, name string, r io.Reader, _ bool, c vfs.If) (vfs.Version, error) {
	return d.Replace(ctx, name, r, c)
}

type unordered struct{ vfs.Dir }

func (d unordered) List(ctx context.Context) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		var all []vfs.Entry
		for e, err := range d.Dir.List(ctx) {
			if err != nil {
				yield(e, err)
				return
			}
			all = append(all, e)
		}
		slices.Reverse(all)
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

type folding struct{ vfs.Dir }

func (d folding) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	return d.Dir.Lookup(ctx, strings.ToLower(name))
}

// walking accepts a path where a name belongs.
type walking struct{ vfs.Dir }

func (d walking) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	return d.Dir.Lookup(ctx, strings.TrimPrefix(name, "/"))
}

// careless puts the content in place although the reader fails.
type careless struct{ vfs.Dir }

func (d careless) Replace(ctx context.Context, name string, r io.Reader, c vfs.If) (vfs.Version, error) {
	data, err := io.ReadAll(r)
	v, put := d.Dir.Replace(ctx, name, bytes.NewReader(data), c)
	if err != nil {
		return v, err
	}
	return v, put
}

// inPlace has files that do not hold a content open.
type inPlace struct{ vfs.Dir }

type placeFile struct{ vfs.File }

func (f placeFile) Open(ctx context.Context) (vfs.Content, error) {
	return vfs.Open(ctx, struct{ vfs.File }{f.File})
}

func (d inPlace) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	n, err := d.Dir.Lookup(ctx, name)
	if f, ok := n.(vfs.File); ok {
		return placeFile{f}, err
	}
	return n, err
}

type unconditional struct{ vfs.Dir }

func (d unconditional) Replace(ctx context.Context, name string, r io.Reader, _ vfs.If) (vfs.Version, error) {
	return d.Dir.Replace(ctx, name, r, vfs.If{})
}

// checkFirst checks a condition, and makes the change afterwards.
type checkFirst struct{ vfs.Dir }

func (d checkFirst) Replace(ctx context.Context, name string, r io.Reader, c vfs.If) (vfs.Version, error) {
	n, err := d.Dir.Lookup(ctx, name)
	if err == nil {
		v, _ := vfs.VersionOf(ctx, n.(vfs.File))
		if err := c.Check(true, v); err != nil {
			return vfs.Version{}, err
		}
	}
	time.Sleep(time.Millisecond)
	return d.Dir.Replace(ctx, name, r, vfs.If{})
}

type overwriting struct{ vfs.Dir }

func (d overwriting) Rename(ctx context.Context, name string, dst vfs.Dir, newName string, from, to vfs.If) error {
	if o, ok := dst.(overwriting); ok {
		dst = o.Dir
		dst.Remove(ctx, newName, vfs.If{})
	}
	return d.Dir.Rename(ctx, name, dst, newName, from, to)
}

// uncommitted does not use the caller's committers.
type uncommitted struct{ vfs.Dir }

func (d uncommitted) Mkdir(_ context.Context, name string) (vfs.Dir, error) {
	return d.Dir.Mkdir(context.Background(), name)
}

// tooEarly makes its change before it commits.
type tooEarly struct{ vfs.Dir }

func (d tooEarly) Create(ctx context.Context, name string) (vfs.File, error) {
	f, err := d.Dir.Create(context.Background(), name)
	if err != nil {
		return nil, err
	}
	e := vfs.Effect{Nodes: 1}
	return f, vfs.Commit(ctx, e, func() (vfs.Effect, error) { return e, nil })
}

// undeclared declares no effect.
type undeclared struct{ vfs.Dir }

func (d undeclared) Create(ctx context.Context, name string) (f vfs.File, err error) {
	err = vfs.Commit(ctx, vfs.Effect{}, func() (vfs.Effect, error) {
		f, err = d.Dir.Create(context.Background(), name)
		return vfs.Effect{Nodes: 1}, err
	})
	return f, err
}

// unaccounted does not say what a removal frees.
type unaccounted struct{ vfs.Dir }

func (d unaccounted) Remove(ctx context.Context, name string, c vfs.If) error {
	return vfs.Commit(ctx, vfs.Effect{}, func() (vfs.Effect, error) {
		return vfs.Effect{}, d.Dir.Remove(context.Background(), name, c)
	})
}

// unclosed returns Dirs that still work after Close.
type unclosed struct{ vfs.Dir }

type open struct{ vfs.Dir }

func (open) Close() error { return nil }

func (d unclosed) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	n, err := d.Dir.Lookup(ctx, name)
	if below, ok := n.(vfs.Dir); ok {
		return open{below}, err
	}
	return n, err
}

// relinking returns Dirs that look up their place each time.
type relinking struct {
	vfs.Dir
	parent vfs.Dir
}

func (d relinking) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	n, err := d.Dir.Lookup(ctx, name)
	if below, ok := n.(vfs.Dir); ok {
		return again{below, d.Dir, name}, err
	}
	return n, err
}

type again struct {
	vfs.Dir
	parent vfs.Dir
	name   string
}

func (d again) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	n, err := d.parent.Lookup(ctx, d.name)
	if err != nil {
		return nil, err
	}
	below, ok := n.(vfs.Dir)
	if !ok {
		return nil, vfs.NotDir
	}
	n, err = below.Lookup(ctx, name)
	if deeper, ok := n.(vfs.Dir); ok {
		return again{deeper, below, name}, err
	}
	return n, err
}

// deaf ignores the end of its context.
type deaf struct{ vfs.Dir }

func (d deaf) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	n, err := d.Dir.Lookup(ctx, name)
	if below, ok := n.(vfs.Dir); ok {
		return deafList{below}, err
	}
	return n, err
}

type deafList struct{ vfs.Dir }

func (d deafList) List(ctx context.Context) iter.Seq2[vfs.Entry, error] {
	return d.Dir.List(context.WithoutCancel(ctx))
}
