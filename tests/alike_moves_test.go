//go:build linux

package tests

import (
	"archive/zip"
	"bytes"
	"fmt"
	"strings"
	"testing"

	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// changeMoves moves files, directories and links, within a Dir and between several.
func changeMoves(a *asker) {
	a.Helper()
	root := a.root
	here := dirCap{}
	must := func(path string) { a.Helper(); a.walk(root, path, true, true) }
	a.createDir(root, "m")
	for _, path := range []string{"m/a", "m/b", "m/t/c", "m/t/u/d"} {
		a.createDir(root, path[:strings.LastIndexByte(path, '/')])
		a.put(root, path, path, absentOnly, false)
	}
	for _, format := range []string{"zip", "tar.zst", "rar"} {
		a.archive(root, "m", format)
	}
	a.archive(root, "m/a", "tar")
	m := a.openDir(root, "m")
	t := a.openDir(m, "t")
	for _, mv := range []struct {
		from     dirCap
		path     string
		to       dirCap
		newPath  string
		src, dst condition
	}{
		{m, "a", here, "a", condition{}, condition{}},
		{m, "a", here, "a", having("m/a"), having("m/a")},
		{m, "a", here, "a", notThere, condition{}},
		{m, "a", here, "a", condition{}, notThere},
		{m, "a", here, "b", condition{}, condition{}},
		{m, "a", here, "b", absentOnly, having("m/b")},
		{m, "a", here, "b", condition{}, notThere},
		{m, "a", t, "a", having("m/a"), absentOnly},
		{t, "a", root, "m/a", condition{}, absentOnly},
		{m, "a", here, "t/u/a", condition{}, condition{}},
		{m, "t/u/a", here, "b", having("m/a"), having("m/b")},
		{m, "t", here, "t", condition{}, condition{}},
		{m, "t", here, "t/t", condition{}, condition{}},
		{m, "t", here, "t/u/t", condition{}, condition{}},
		{m, "t", t, "t", condition{}, condition{}},
		{m, "t", here, "b", condition{}, condition{}},
		{m, "t", here, "b", condition{}, having("m/a")},
		{m, "b", here, "t", condition{}, condition{}},
		{m, "b", here, "t", condition{}, notThere},
		{m, "b", here, "missing/b", condition{}, condition{}},
		{m, "missing", here, "b", condition{}, condition{}},
		{m, "missing", here, "missing", condition{}, condition{}},
		{m, "missing", here, "missing", notThere, condition{}},
		{m, "t", here, "v", notThere, condition{}},
		{m, "t", here, "v", absentOnly, condition{}},
		{m, "t/u", here, "T", condition{}, absentOnly},
		{m, "T", here, "t/U", condition{}, condition{}},
		{m, "t/U/d", here, "t/U/bad\xff", condition{}, condition{}},
		{m, "t/U/d", here, "t/U/back\\slash", condition{}, condition{}},
		{root, "l", m, "l", condition{}, condition{}},
		{m, "l", here, "l2", notThere, condition{}},
		{m, "l", here, "b", condition{}, having("m/a")},
		{m, "l", root, "l", condition{}, condition{}},
		{root, "self", root, "self", condition{}, condition{}},
		{root, "ld/e", m, "e", condition{}, condition{}},
		{m, "e/h", root, "ld/h", condition{}, condition{}},
	} {
		a.move(mv.from, mv.path, mv.to, mv.newPath, mv.src, mv.dst)
		must("m/b")
	}
	for _, l := range []struct{ path, target string }{
		{"s1", "b"}, {"s1", "b"}, {"t/s2", "../b"}, {"t/s2", "b"}, {"t/U/s3", "../../b"}, {"t/s4", "missing/too"}, {"s5", ".."}, {"s5", "../m/b"}, {"t/s5", "../.."},
		{"s5", "/m/b"}, {"s5", ""}, {"s5", "t/../b"}, {"s5", "back\\slash"}, {"s5", strings.Repeat("b/", vfs.MaxPath/2)}, {"s5", "b/below"}, {"b", "a"}, {"b/s5", "a"}, {"missing/s5", "a"},
		{"bad\xff", "b"}, {"s6", "s6"}, {"s7", "s6"}, {"s8", "s1"}, {"t/s9", "../t/s2"},
	} {
		a.symlink(m, l.path, l.target)
	}
	for _, path := range []string{"s1", "s8", "t/s2", "t/s9", "t/U/s3", "t/s4"} {
		a.walk(m, path, false, true)
		a.walk(m, path, true, false)
	}
	for _, mv := range [][2]string{{"t/s2", "s2"}, {"t/U/s3", "s3"}, {"t/U/s3", "t/s3"}, {"t/s3", "t/U/s3"}, {"t/U", "U"}, {"t/s4", "s4"}, {"s1", "t/U/s1"}, {"t/s9", "t/s10"}} {
		a.move(m, mv[0], here, mv[1], condition{}, condition{})
	}
	a.move(m, "t", root, "up", condition{}, condition{})
	a.move(root, "up", m, "t", condition{}, condition{})
	a.glob(root, "m/**", "", 0)
	for _, path := range []string{"m/o/f", "m/o/g", "m/o/d/x", "m/o/e/x"} {
		a.createDir(root, "m/o")
		a.createDir(root, path[:strings.LastIndexByte(path, '/')])
		a.put(root, path, path, absentOnly, false)
	}
	a.remove(root, "m/o/e/x", condition{})
	o := a.openDir(m, "o")
	for _, mv := range []struct {
		from, to string
		is       condition
	}{
		{"f", "d", condition{}}, {"d", "f", condition{}}, {"f", "e", condition{}}, {"e", "d", condition{}}, {"missing", "f", condition{}},
		{"f", "g", notThere}, {"f", "g", absentOnly}, {"f", "g", condition{}}, {"d", "e", having("m/o/g")}, {"d", "e", condition{}}, {"e", "e", condition{}},
		{"e", "e/x", condition{}}, {"e/x", "e", condition{}}, {"g", "new", condition{}}, {"new", "e/x", having("m/o/d/x")},
	} {
		a.moveOver(o, mv.from, mv.to, mv.is)
	}
	a.tree("what was replaced", o)
	a.list(t, "", 0, true)

	// Copies.
	for _, path := range []string{"m/k", "m/k/d"} {
		a.createDir(root, path)
	}
	a.put(root, "m/k/f", "copied", condition{}, false)
	a.put(root, "m/k/d/x", "x", condition{}, false)
	k := a.openDir(m, "k")
	for _, cp := range []struct {
		from, to string
		src, dst condition
		over     bool
	}{
		{from: "f", to: "g"}, {from: "f", to: "g"}, {from: "f", to: "g", over: true}, {from: "d", to: "e"}, {from: "d", to: "e", over: true}, {from: "d/x", to: "g", over: true},
		{from: "f", to: "g", dst: notThere}, {from: "f", to: "g", dst: having("m/k/d/x")}, {from: "g", to: "new", src: notThere}, {from: "d", to: "d/in"}, {from: "d", to: "f"}, {from: "f", to: "d", over: true},
		{from: "missing", to: "new"}, {from: "f", to: "missing/f"}, {from: "f", to: "../f"}, {from: "", to: "new"}, {from: "d", to: ""}, {from: "d", to: "new", dst: absentOnly}, {from: "d", to: "new2", src: having("m/k/f")},
		{from: "f", to: "bad\xff"}, {from: "f", to: "f", over: true}, {from: "d/", to: "slash/"},
	} {
		a.copy(k, cp.from, dirCap{}, cp.to, cp.src, cp.dst, cp.over)
	}
	a.copy(root, "l", k, "l", condition{}, condition{}, false)
	a.tree("what was copied", k)

	// To a Dir of another kind, or to no Dir.
	f := a.openFile(root, "m/b")
	ro := a.readOnlyDir(m)
	taken, r := a.revocableDir(m)
	own := dirCap{a.hold(vat.Serve(chunkTable, &chunkSink{})), "what is not the host's"}
	missing := a.openDir(root, "m/missing")
	a.move(m, "b", dirCap(f), "x", condition{}, condition{})
	a.move(m, "b", ro, "x", condition{}, condition{})
	a.move(ro, "b", m, "x", condition{}, condition{})
	a.move(m, "b", own, "x", condition{}, condition{})
	a.move(m, "b", missing, "x", condition{}, condition{})
	// Archives.
	a.put(root, "m/k/nothing.zip", noEntries, condition{}, false)
	a.put(root, "m/k/some.zip", someZip(a), condition{}, false)
	for _, ex := range [][2]string{
		{"some.zip", "got"}, {"some.zip", "got"}, {"nothing.zip", "hollow"}, {"some.zip", "hollow"}, {"nothing.zip", "hollow"}, {"some.zip", "f"}, {"some.zip", "f/in"}, {"some.zip", "missing/in"}, {"some.zip", "../up"},
		{"some.zip", "bad\xff"}, {"some.zip", ""}, {"nothing.zip", ""}, {"f", "none"}, {"d", "none"}, {"missing", "none"}, {"", "none"}, {"../some.zip", "none"},
	} {
		a.extract(k, ex[0], dirCap{}, ex[1])
	}
	a.tree("what was extracted", k)

	for _, dst := range []dirCap{dirCap(f), ro, own, missing, taken} {
		a.copy(m, "b", dst, "copied", condition{}, condition{}, false)
		a.extract(k, "some.zip", dst, "extracted")
	}
	a.copy(ro, "b", m, "copied too", condition{}, condition{}, false)
	a.move(m, "b", taken, "x", condition{}, condition{})
	a.move(taken, "x", m, "b", condition{}, condition{})
	a.move(m, "t", taken, "y", condition{}, condition{})
	a.move(taken, "y", m, "y/y", condition{}, condition{})
	a.revoke(r)
	a.move(m, "b", taken, "x", condition{}, condition{})
	a.move(taken, "b", m, "x", condition{}, condition{})
}

// changeOpen changes open nodes, and asks about them afterwards.
func changeOpen(a *asker) {
	a.Helper()
	root := a.root
	for i, away := range []func(dir string){
		func(dir string) { a.remove(root, dir+"/f", condition{}) },
		func(dir string) { a.put(root, dir+"/f", "new", condition{}, false) },
		func(dir string) {
			a.remove(root, dir+"/f", condition{})
			a.put(root, dir+"/f", "again", absentOnly, false)
		},
		func(dir string) { a.remove(root, dir+"/f", condition{}); a.createDir(root, dir+"/f") },
		func(dir string) { a.move(root, dir+"/f", dirCap{}, dir+"/g", condition{}, condition{}) },
		func(dir string) { a.move(root, dir+"/d", dirCap{}, dir+"/e", condition{}, condition{}) },
		func(dir string) { a.move(root, dir, dirCap{}, dir+"x", condition{}, condition{}) },
		func(dir string) {
			a.move(root, dir, dirCap{}, dir+"x", condition{}, condition{})
			a.move(root, dir+"x", dirCap{}, dir, condition{}, condition{})
		},
		func(dir string) {
			a.move(root, dir, dirCap{}, dir+"x", condition{}, condition{})
			a.createDir(root, dir)
			a.createDir(root, dir+"/d")
			a.put(root, dir+"/f", "another", condition{}, false)
			a.put(root, dir+"/d/h", "another", condition{}, false)
		},
		func(dir string) { a.remove(root, dir+"/d/h", condition{}); a.remove(root, dir+"/d", condition{}) },
		func(dir string) {
			a.remove(root, dir+"/d/h", condition{})
			a.remove(root, dir+"/d", condition{})
			a.createDir(root, dir+"/d")
		},
		func(dir string) {
			a.remove(root, dir+"/d/h", condition{})
			a.remove(root, dir+"/d", condition{})
			a.put(root, dir+"/d", "a file", absentOnly, false)
		},
	} {
		dir := fmt.Sprintf("open%02d", i)
		a.createDir(root, dir)
		a.createDir(root, dir+"/d")
		a.put(root, dir+"/f", "old", absentOnly, false)
		a.put(root, dir+"/d/h", "old below", absentOnly, false)
		top, f, d, h := a.openDir(root, dir), a.openFile(root, dir+"/f"), a.openDir(root, dir+"/d"), a.openFile(root, dir+"/d/h")
		fw, hw := a.stageFile(f, condition{}), a.stage(d, "h", having("old below"), false)
		a.send(fw, "staged")
		a.send(hw, "staged")
		away(dir)
		for _, f := range []fileCap{f, h} {
			a.statFile(f, false)
			a.statFile(f, true)
			a.readText(f)
			a.read(f, 0, 10)
			a.stream(f, 0, 0)
			a.sync(f)
			a.write(f, 0, "!", notThere)
			a.write(f, 0, "!", condition{})
			a.append(f, "?", condition{})
			a.truncate(f, 2, condition{})
			a.writeText(f, "text", absentOnly)
			a.writeText(f, "text", condition{})
			a.readText(f)
			a.statFile(a.readOnlyFile(f), true)
		}
		for _, d := range []dirCap{top, d} {
			a.statDir(d, false)
			a.list(d, "", 0, true)
			a.get(d, "h")
			a.walk(d, "d/h", false, false)
			a.glob(d, "**", "", 0)
			a.put(d, "new", "new", condition{}, false)
			a.createFile(d, "made")
			a.createDir(d, "made too")
			a.move(d, "new", dirCap{}, "newer", condition{}, condition{})
			a.move(root, "z", d, "z", condition{}, condition{})
			a.move(d, "z", root, "z", condition{}, condition{})
			a.remove(d, "newer", condition{})
			a.list(a.readOnlyDir(d), "", 0, false)
		}
		a.commit(fw)
		a.commit(hw)
		for _, dir := range []string{dir, dir + "x"} {
			d := a.openDir(root, dir)
			a.tree(dir, d)
			a.wipe(d)
		}
		a.drop()
	}
}

// changeStaged writes whole files in parts.
func changeStaged(a *asker) {
	a.Helper()
	root := a.root
	a.createDir(root, "st")
	for _, method := range []string{"", "commit", "missing"} {
		askHelp(a, a.stage(root, "st/none", condition{}, false).Cap, schema.Writer_help, method)
	}
	w := a.stage(root, "st/f", absentOnly, false)
	a.commit(w) // empty
	a.commit(w)
	a.send(w, "late")
	w = a.stage(root, "st/f", having(""), false)
	a.send(w, strings.Repeat("w", 1<<20), strings.Repeat("w", 1<<20), strings.Repeat("w", 1<<20), strings.Repeat("w", 1<<20), strings.Repeat("w", 1<<20), "end")
	a.readText(a.openFile(root, "st/f"))
	a.commit(w)
	big := a.openFile(root, "st/f")
	a.statFile(big, true)
	a.readBytes(big)
	a.read(big, 5<<20, 100)
	a.stream(big, 1<<20, 3<<20)
	w = a.stageFile(big, condition{})
	a.send(w, "some", strings.Repeat("w", 1<<20+1), "more")
	a.commit(w)
	one, two := a.stageFile(big, condition{}), a.stageFile(big, condition{})
	a.send(two, "two")
	a.send(one, "one")
	a.commit(two)
	a.commit(one)
	a.readText(big)
	one, two = a.stage(root, "st/new", absentOnly, false), a.stage(root, "st/new", absentOnly, true)
	a.send(one, "one")
	a.send(two, "two")
	a.commit(two)
	a.commit(one)
	once, r := a.revocableDir(root)
	w = a.stage(once, "st/revoked", condition{}, false)
	a.send(w, "some")
	a.revoke(r)
	a.send(w, "more")
	a.commit(w)
	a.commit(a.stage(a.readOnlyDir(root), "st/f", condition{}, false))
	for _, path := range []string{"d", "l", "x", "nowhere", "out", "missing/f", "f/x"} {
		w = a.stage(root, path, condition{}, true)
		a.send(w, "staged")
		a.commit(w)
	}
}

// changeDeep makes the deepest directories and longest paths that are allowed.
func changeDeep(a *asker) {
	a.Helper()
	root := a.root
	d := a.createDir(root, "deep")
	for i := range vfs.MaxDepth + 2 {
		d = a.createDir(d, "d")
		d.how = fmt.Sprintf("%d deep", i+2)
		if i > vfs.MaxDepth-6 {
			a.put(d, "f", "deep", condition{}, false)
			a.statFile(a.openFile(d, "f"), false)
			a.list(d, "", 0, false)
		}
	}
	a.glob(root, "deep/**/f", "", 0)
	a.move(root, "deep", a.openDir(root, "d"), "deep", condition{}, condition{})
	a.walk(root, "deep"+strings.Repeat("/d", vfs.MaxDepth-1), false, true)
	a.walk(root, "deep"+strings.Repeat("/d", vfs.MaxDepth-2), false, true)

	d = a.createDir(root, "long")
	name := strings.Repeat("l", 250)
	for i := range 18 {
		d = a.createDir(d, name)
		d.how = fmt.Sprintf("%d long", i+1)
		a.put(d, "f", "far", condition{}, false)
		a.statFile(a.openFile(d, "f"), false)
	}
	a.list(a.openDir(root, "long"), "", 0, false)
	a.move(root, "d/deep", root, "deep", condition{}, condition{}) // otherwise its end would be too deep to be removed
	for _, path := range []string{"deep", "long"} {
		a.wipe(a.openDir(root, path))
	}
}

// someZip is a zip file with a file and a directory.
func someZip(t testing.TB) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range []string{"in/file", "hollow/"} {
		_, err := z.Create(name)
		ok(t, err)
	}
	ok(t, z.Close())
	return b.String()
}
