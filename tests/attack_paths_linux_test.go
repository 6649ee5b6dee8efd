package tests

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"capd/meter"
	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/faultfs"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/vfstest"
)

// pathTree has everything that can be on the way of a path. Names that pathDeny withholds
// are in it, too.
var pathTree = func() vfstest.Tree {
	long := strings.Repeat("n", vfs.MaxName)
	tree := vfstest.Tree{
		"a/b/c/d/e/f": {Data: "deep"}, "a/b/f": {Data: "a/b/f"}, "a/f": {Data: "a/f"}, "f": {Data: "f", Exec: true}, "b/c/f": {Data: "b/c/f"},
		"a/b/.ssh/id": {Data: secret}, "a/.env": {Data: secret}, "b/.ENV": {Data: secret}, "b/c/x.pem/f": {Data: secret}, "a/b/c/.Ssh": {Data: secret},
		"l": {Link: "a/b"}, "a/up": {Link: ".."}, "a/b/upup": {Link: "../.."}, "a/b/out": {Link: "../../../outside"}, "a/abs": {Link: "/etc"},
		"a/loop": {Link: "b/loop"}, "a/b/loop": {Link: "../loop"}, "a/b/self": {Link: "self"}, "b/hid": {Link: "../a/.env"}, "b/ssh": {Link: "../a/b/.ssh"},
		"b/lf": {Link: "c/f"}, "b/dangling": {Link: "c/none/f"}, "a/slash": {Link: "b/"}, "dot": {Link: "."}, "b/lmnt": {Link: "../m/f"},
		"m/f": {Data: "beneath a mount"}, "m/n/f": {Data: "beneath a mount"},
	}
	tree[long+"/"+long+"/f"] = vfstest.Node{Data: "long"}
	deep := "z"
	for range 20 { // more names than are looked up at once
		deep += "/z"
	}
	tree[deep+"/f"] = vfstest.Node{Data: "20 deep"}
	tree[deep+"/l"] = vfstest.Node{Link: "f"}
	return tree
}()

var pathDeny = []string{"**/.ssh/**", "**/.env", "**/*.pem", "*/keep/**"}

// pathNames are names of paths. Many exist.
var pathNames = func() (all []string) {
	for path := range pathTree {
		all = append(all, strings.Split(path, "/")...)
	}
	all = append(all, "none", "none", ".env", ".EnV", ".ssh", "x.pem", "keep", "m", "n", "A", "F", "..", ".", "", "bad\xff", "back\\slash", "nul\x00",
		strings.Repeat("n", vfs.MaxName+1), ".git", ".capd-staging-"+strings.Repeat("0", 32))
	slices.Sort(all)
	return slices.Compact(all)
}()

// randomPath returns a path to something in pathTree, which is then perhaps changed.
func randomPath(random *rand.Rand, all []string) string {
	names := strings.Split(all[random.IntN(len(all))], "/")
	other := func() string { return pathNames[random.IntN(len(pathNames))] }
	for range random.IntN(3) {
		at := random.IntN(len(names) + 1)
		switch random.IntN(4) {
		case 0:
			names = slices.Insert(names, at, other())
		case 1:
			names = append(names[:at:at], other())
		case 2:
			names[min(at, len(names)-1)] = other()
		case 3:
			names = append(names, strings.Split(all[random.IntN(len(all))], "/")...)
		}
	}
	path := strings.Join(names, "/")
	if random.IntN(100) == 0 {
		path += strings.Repeat("/"+other(), 200)
	}
	return path
}

// oneByOne hides that a Dir can look up several names at once.
type oneByOne struct{ vfs.Dir }

// Dup implements [vfs.Duper].
func (d oneByOne) Dup() (vfs.Node, error) { return vfs.Dup(d.Dir) }

// pathWorld is a tree behind guards, mounts and controls.
type pathWorld struct {
	name string
	dir  vfs.Dir
	open *meter.Meter // counts the open nodes
}

// pathWorlds returns ways in which a guest may get tree.
func pathWorlds(t testing.TB, tree vfs.Dir) (all []pathWorld) {
	t.Helper()
	tree = membrane.Guarded(tree, nil) // so that it can be duplicated
	add := func(name string, d vfs.Dir, guards ...membrane.Guard) *membrane.Control {
		m := meter.New("test", "this grant", meter.Limits{})
		d, c, err := membrane.RevocableDir(membrane.Guarded(d, nil, append(guards, membrane.Guard{Meter: m})...))
		ok(t, err)
		all = append(all, pathWorld{name, d, m})
		return c
	}
	dup := func() vfs.Dir {
		d, err := vfs.Dup(tree)
		ok(t, err)
		return d
	}
	add("bare", dup())
	add("withheld", dup(), deny.Must(pathDeny...).Guard())
	mounted := func(o namespace.Options) vfs.Dir {
		ns := namespace.New()
		ok(t, ns.Mount("", dup(), o))
		ok(t, ns.Mount("m", inMemoryTree(t, vfstest.Tree{"f": {Data: "m/f"}, "n/f": {Data: "hidden by a mount"}, "up": {Link: "../f"}, ".env": {Data: secret}}), namespace.Options{}))
		ok(t, ns.Mount("m/n/a", inMemoryTree(t, pathTree), o))
		ok(t, ns.Mount("a/b/c", inMemoryTree(t, vfstest.Tree{"d/f": {Data: "on top"}, "up": {Link: "../f"}}), namespace.Options{ReadOnly: true}))
		t.Cleanup(func() { ok(t, ns.Close()) })
		return ns.Root()
	}
	add("mounts", mounted(namespace.Options{}))
	add("mounts with rules", mounted(namespace.Options{Guards: []membrane.Guard{deny.Must(pathDeny...).Guard()}, NoLinks: true}), deny.Must("a/b/f", "z/z/z/**").Guard())
	c := add("controlled", mounted(namespace.Options{}))
	for path, forbid := range map[string]func(*membrane.Control){
		"a/b": func(c *membrane.Control) { c.SetReadable(false) },
		"b/c": func(c *membrane.Control) { ok(t, c.Revoke()) },
		"z/z": func(c *membrane.Control) { ok(t, c.SetWritable(false)) },
	} {
		at := c
		for name := range strings.SplitSeq(path, "/") {
			child, err := at.Child(t.Context(), name)
			ok(t, err)
			at = child
		}
		forbid(at)
	}
	return all
}

// TestAttackPaths: a path that is looked up at once is answered as one that is looked up
// name by name, in code and in words, and leaves nothing open. The paths are random, and the
// same for every store.
func TestAttackPaths(t *testing.T) {
	t.Parallel()
	paths := slices.Sorted(maps.Keys(pathTree))
	n := times(40, 300)
	for _, kind := range slices.Sorted(maps.Keys(alikeStores)) {
		s := alikeStores[kind]
		if s.composed {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			p := s.make(t, pathTree)
			tree := p.dir
			if p.path != "" {
				d, err := vfs.WalkDir(t.Context(), p.dir, p.path)
				ok(t, err)
				tree = d
			}
			for _, w := range pathWorlds(t, tree) {
				random, before := rand.New(rand.NewPCG(1, 2)), w.open.Used(meter.Nodes)
				attacks.add(t, toll{cases: 1})
				for range n {
					path := randomPath(random, paths)
					attacks.add(t, toll{names: 1, tries: 2})
					for _, walk := range []func(context.Context, vfs.Dir, string) (vfs.Node, error){vfs.Walk, vfs.WalkLink} {
						if got, want := walked(t, walk, w.dir, path), walked(t, walk, oneByOne{w.dir}, path); got != want {
							t.Errorf("%s: %.200q at once: %s; name by name: %s", w.name, path, got, want)
						}
					}
				}
				if open := w.open.Used(meter.Nodes); open != before {
					t.Errorf("%s: %d nodes are left open", w.name, open-before)
				}
			}
		})
	}
	t.Run("over the wire", wirePaths)
	t.Run("withheld, there or not", withheldPaths)
	t.Run("nothing is left", failingPaths)
}

// walked says what a walk to path finds.
func walked(t testing.TB, walk func(context.Context, vfs.Dir, string) (vfs.Node, error), d vfs.Dir, path string) string {
	n, err := walk(t.Context(), d, path)
	if err != nil {
		return fmt.Sprintf("%s %v", vfs.CodeOf(err), err)
	}
	defer n.Close()
	info, err := n.Stat(t.Context())
	text := fmt.Sprintf("%v %+v %v", vfs.KindOf(n), info, err)
	switch n := n.(type) {
	case vfs.File:
		v, err := vfs.VersionOf(t.Context(), n)
		text += fmt.Sprint(v, err)
	case vfs.Link:
		target, err := n.Target(t.Context())
		text += fmt.Sprint(target, err)
	}
	return text
}

// wirePaths: guests of two hosts, one of which looks up every name by itself, get the same
// answers.
func wirePaths(t *testing.T) {
	paths := slices.Sorted(maps.Keys(pathTree))
	ops := strings.Split("walk, walk noFollow, openDir, openFile, subDir, list, stat, readBytes, read, stream, glob", ", ")
	for _, w := range pathWorlds(t, plain["physical"](t, pathTree)) {
		attacks.add(t, toll{cases: 1})
		a := scene.Serve(t, w.dir, scene.Options{}).Guest(t)
		b := scene.Serve(t, oneByOne{w.dir}, scene.Options{}).Guest(t)
		random := rand.New(rand.NewPCG(3, 4))
		for range times(25, 150) {
			path := randomPath(random, paths)
			attacks.add(t, toll{names: 1})
			for _, op := range ops {
				attacks.tried(t, false)
				got, err := try(t.Context(), op, a.Cap(), path)
				want, wantErr := try(t.Context(), op, b.Cap(), path)
				if got != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
					t.Errorf("%s: %s %.200q: at once %q (%v), name by name %q (%v)", w.name, op, path, got, err, want, wantErr)
				}
				if strings.Contains(got, secret) && w.name == "withheld" {
					attacks.escape(t)
					t.Errorf("%s %.200q: %q", op, path, got)
				}
			}
		}
	}
}

// withheldPaths: the store is asked the same whether or not a withheld name exists, so not
// even the time tells.
func withheldPaths(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	there := vfstest.Tree{"a/b/f": {Data: "f"}, "a/b/l": {Link: ".env"}, "a/ssh": {Link: ".ssh/id"}}
	hidden := maps.Clone(there)
	maps.Copy(hidden, vfstest.Tree{"a/b/.env": {Data: secret}, "a/.ssh/id": {Data: secret}, "a/.ssh/d/id": {Data: secret}, "x.pem": {Data: secret}, "a/b/.env.local/f": {Data: secret}})
	type asked struct {
		vfs.Dir
		ops []string
	}
	observe := func(tree vfstest.Tree) *asked {
		seen, plan := &asked{}, &faultfs.Plan{}
		plan.Watch(func(op faultfs.Op, stage faultfs.Stage) { seen.ops = append(seen.ops, fmt.Sprint(op, stage)) })
		ns := namespace.New()
		ok(t, ns.Mount("m", faultfs.New(inMemoryTree(t, tree), plan), namespace.Options{Guards: []membrane.Guard{deny.Must("**/.ssh/**", "**/.env", "**/.env.*", "**/*.pem").Guard()}}))
		seen.Dir = membrane.Guarded(ns.Root(), nil)
		return seen
	}
	with, without := observe(hidden), observe(there)
	names := []string{"m", "a", "b", "f", "l", "ssh", ".ssh", ".SSH", "id", ".env", ".ENV", "x.pem", "d", "none", ".env.local"}
	attacks.add(t, toll{cases: 1})
	for range times(2000, 20_000) {
		path := "m"
		for range 1 + random.IntN(5) {
			path += "/" + names[random.IntN(len(names))]
		}
		with.ops, without.ops = nil, nil
		got, want := walked(t, vfs.Walk, with, path), walked(t, vfs.Walk, without, path)
		attacks.add(t, toll{names: 1, tries: 1})
		if strings.HasPrefix(want, "file") || strings.HasPrefix(want, "dir") {
			continue // times differ
		}
		if got != want || !slices.Equal(with.ops, without.ops) {
			attacks.escape(t)
			t.Fatalf("%s: there: %s, %q; not there: %s, %q", path, got, with.ops, want, without.ops)
		}
	}
}

// failingPaths looks up paths that fail in every way, at the real host. Neither nodes nor
// descriptors are left.
func failingPaths(t *testing.T) {
	h := serve(t)
	s := h.scene(t, attack{setup: func(s *attackDir) {
		s.mkdir("a/b/c/d")
		s.write("a/b/f", "f")
		s.write("a/b/.env", secret)
		s.link("../../..", "a/b/out")
		s.link("c/none", "a/b/l")
		fifo(&attackDir{TB: s.TB, dir: s.path("a/b")})
	}})
	c := h.console()
	nodes := func() (n int64) {
		u, err := c.Usage(t.Context())
		ok(t, err)
		for _, use := range u.Host.Uses {
			n += use.Used
		}
		return n
	}
	paths := []string{"a/b/none", "a/none/c", "a/b/f/x", "a/b/f/x/y", "a/b/.env", "a/b/.env/x", "a/b/out/x", "a/b/l", "a/b/l/x", "a/b/p", "a/b/p/x",
		"a/b/../c", "a//b", "a/b/", strings.Repeat("a/", 200), "a/b/c/d/" + strings.Repeat("n", 256), "a/b/c/" + strings.Repeat("n", 255) + "/x"}
	attacks.add(t, toll{cases: 1, names: int64(len(paths))})
	_, _ = try(t.Context(), "list", s.cap, "a/b/c/d")
	before, fds := nodes(), openFiles(h.pid())
	n := times(1000, 10_000)
	for i := range n {
		path, op := paths[i%len(paths)], []string{"walk", "openDir", "openFile", "subDir", "stat"}[i%5]
		attacks.tried(t, false)
		if text, err := try(t.Context(), op, s.cap, path); err == nil {
			attacks.escape(t)
			t.Errorf("%s %.100q: %q", op, path, text)
		}
	}
	if !waitFor(patience, func() bool { return nodes() <= before }) {
		t.Errorf("after %d failures %d things are held, %d before", n, nodes(), before)
	}
	if !waitFor(patience, func() bool { return openFiles(h.pid()) <= fds+16 }) { // some are cached for a while
		t.Errorf("after %d failures %d descriptors are open, %d before", n, openFiles(h.pid()), fds)
	}
}
