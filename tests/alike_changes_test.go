//go:build linux

package tests

import (
	"slices"
	"strings"

	"capd/vfs"
	vfsedit "capd/vfs/edit"
	"capd/vfs/step"
)

var (
	notThere = having("nothing like it")
	noneSet  = condition{kind: "is"}
	zeroSet  = condition{"is", make([]byte, 32)}
	halfSet  = condition{"is", make([]byte, 16)}
	oddSet   = condition{kind: "neither"} // it is present but has no alternative set
)

// changeAt makes every change at each of many paths.
func changeAt(a *asker) {
	a.Helper()
	root := a.root
	there := []string{"z", "d.txt", "only/one", "d/e/x", "hollow", "d/hollow", "d/e", "d", "l", "d/up", "nowhere", "out", "abs", "self", "ld", "ld/e/h", "lx", "dot", "\u00e9", "日本語/ファイル", ".hidden", "*", "many"}
	for _, path := range slices.Concat(there, wrongPaths) {
		for _, c := range []condition{absentOnly, notThere, noneSet, zeroSet, halfSet, oddSet, {}, having("1"), absentOnly} {
			a.put(root, path, "1", c, false)
			a.put(root, path, "1", c, true)
		}
		for _, noFollow := range []bool{false, true} {
			w := a.stage(root, path, having("1"), noFollow)
			a.send(w, "sta", "ged")
			a.commit(w)
		}
		a.createFile(root, path)
		a.createDir(root, path)
		a.put(root, "bait", "bait", condition{}, false)
		for _, c := range []condition{{}, absentOnly, notThere, having("staged"), having("1")} {
			a.move(root, "bait", dirCap{}, path, condition{}, c)
			a.move(root, path, dirCap{}, "bait", c, condition{})
		}
		a.move(root, path, root, path, condition{}, condition{})
		a.move(root, path, root, "moved", notThere, condition{})
		a.move(root, path, root, "moved", condition{}, absentOnly)
		a.walk(root, path, true, false)
		for _, c := range []condition{notThere, absentOnly, oddSet, halfSet, having("bait")} {
			a.remove(root, path, c)
		}
		a.put(root, path+"/below", "below", condition{}, false)
		a.createDir(root, path+"/below")
		a.remove(root, path+"/below", condition{})
		a.remove(root, "moved", condition{})
		a.remove(root, "bait", condition{})
		a.drop()
	}
}

// changeNames makes nodes with names that some store might reserve, or write in
// another way.
func changeNames(a *asker) {
	a.Helper()
	root := a.root
	made := "--- /dev/null\n+++ b/patched/f\n@@ -0,0 +1 @@\n+one\n"
	for _, reverse := range []bool{false, true} {
		a.patch(root, made, reverse, true)
		a.patch(root, made, reverse, false)
		a.patch(root, made, reverse, false)
		a.patch(root, "*** Begin Patch\n*** Update File: patched/f\n*** Move to: patched/g\n-one\n+two\n*** End Patch\n", reverse, true)
	}
	for _, path := range []string{"l", "d", "../f", "con", "d/.git", "missing/below/more", "f/below", "zero\u200bwidth"} {
		a.patch(root, "*** Begin Patch\n*** Update File: "+path+"\n-a\n+b\n*** End Patch\n", false, false)
		a.patch(root, "*** Begin Patch\n*** Add File: "+path+"\n+a\n*** End Patch\n", false, true)
	}
	a.patch(root, "no patch", false, false)
	for _, dry := range []bool{true, false} {
		a.change(root, dry, step.Step{Verb: step.Mkdir, Path: "stepped"}, step.Step{Path: "stepped/f", Data: []byte("one")},
			step.Step{Verb: step.Edit, Path: "stepped/f", Edits: []vfsedit.Edit{{Old: []byte("one"), New: []byte("two")}}},
			step.Step{Verb: step.Move, Path: "stepped/f", To: "stepped/g"}, step.Step{Path: "stepped/h", If: vfs.If{Absent: true}})
		a.change(root, dry, step.Step{Verb: step.Remove, Path: "stepped/g"}, step.Step{Verb: step.Remove, Path: "stepped/h"}, step.Step{Verb: step.Remove, Path: "stepped"})
		a.change(root, dry, step.Step{Path: "stepped", Data: []byte("one")}, step.Step{Verb: step.Remove, Path: "nothing is there"})
	}
	a.createDir(root, "names")
	for _, name := range []string{
		".capd", ".capd-staging", ".capd-overlay", ".wh.f", ".wh..wh..opq", "data", "index", "journal", "HEAD", "objects", "tmp", "blobs", ".gitignore", ".gitmodules", ".gitattributes",
		"COM1", "aux.txt", "a\tb", "a\nb", "\u00a0", "\u2028", "\U000e0001", "a\u0300", "à", "İ", "ß", "ﬁ", "%2e", "a%00", "$x", "`id`", "'", "\"", "--", "a|b", "<", ">", "?", strings.Repeat("界", 85), strings.Repeat("界", 85) + "x",
	} {
		path := "names/" + name
		a.put(root, path, name, absentOnly, true)
		a.move(root, path, root, path+"+", condition{}, condition{})
		a.createDir(root, path)
		a.walk(root, path, true, false)
	}
	for _, name := range reservedNames {
		a.put(root, name, "mine", condition{}, false)
		a.createDir(root, name)
		a.createFile(root, "names/"+name)
		a.move(root, "names/data", root, "names/"+name, condition{}, condition{})
		a.get(root, name)
		a.remove(root, name, condition{})
		a.remove(root, "names/"+name, condition{})
	}
}

// changeFile writes to files, in place and as a whole.
func changeFile(a *asker) {
	a.Helper()
	root := a.root
	for _, path := range []string{"page", "x", "empty", "l", "big"} {
		f := a.openFile(root, path)
		told := func() {
			a.Helper()
			a.statFile(f, true)
			a.readBytes(f)
			a.walk(root, path, false, true)
		}
		a.write(f, 0, "", condition{})
		a.write(f, 0, "over", notThere)
		a.write(f, 0, "over", absentOnly)
		a.write(f, 0, "over", oddSet)
		a.write(f, 2, "over", condition{})
		told()
		a.write(f, 10_000, "past a gap", condition{})
		a.read(f, 9_000, 2_000)
		a.write(f, 1<<63, "too far", condition{})
		a.write(f, 1<<63-1, "too far", condition{})
		a.write(f, 0, strings.Repeat("w", 1<<20+1), condition{})
		told()
		a.append(f, "", condition{})
		a.append(f, "appended", condition{})
		a.append(f, "appended", notThere)
		a.append(f, "appended", absentOnly)
		a.append(f, strings.Repeat("w", 1<<20+1), condition{})
		told()
		for _, size := range []uint64{20_000, 20_000, 4097, 3, 0, 0, 1 << 63} {
			a.truncate(f, size, notThere)
			a.truncate(f, size, condition{})
			told()
		}
		for _, exec := range []*bool{nil, new(true), new(true), new(false)} {
			for _, ms := range []*int64{nil, new(int64(-1)), new(int64(1 << 40)), new(int64(1 << 60))} {
				a.setAttributes(f, exec, ms, condition{})
				a.setAttributes(f, exec, ms, notThere)
				a.setAttributes(f, exec, ms, absentOnly)
			}
			a.statFile(f, true)
		}
		a.append(f, "anew", having(""))
		a.edit(f, true, condition{}, "new", "\xff\r\n")
		a.edit(f, false, having("else"), "new", "old")
		a.edit(f, false, having("anew"), "new", "old", "o", "\x00\n")
		a.edit(f, false, condition{}, "missing", "x")
		a.edit(f, false, condition{}, "", "x")
		a.edit(f, false, absentOnly, "a", "x")
		a.edit(f, false, condition{})
		a.edit(f, false, condition{}, "a\x00\nld", "anew")
		told()
		a.writeText(f, "text", having("anew"))
		a.writeText(f, "text", having("anew"))
		a.writeText(f, "not text \xff", condition{})
		a.writeBytes(f, "\x00\xff", absentOnly)
		a.writeBytes(f, "\x00\xff", halfSet)
		a.writeBytes(f, "\x00\xff", condition{})
		a.writeBytes(f, strings.Repeat("w", 4<<20+1), condition{})
		a.write(f, 1, "in place", having("\x00\xff"))
		a.truncate(f, 5, having("\x00in place"))
		a.sync(f)
		told()
	}
	a.put(root, "over", strings.Repeat("w", 4<<20+1), condition{}, false)
	a.put(root, "over", strings.Repeat("w", 4<<20), condition{}, false)
	a.statFile(a.openFile(root, "over"), true)
	a.remove(root, "over", condition{})
	for _, path := range []string{"l", "ltwice", "nowhere", "out", "ld", "lx", "self", "ld/g", "d/up", "ldots"} {
		a.put(root, path, "through", absentOnly, false)
		a.put(root, path, "through", condition{}, false)
		a.put(root, path, "not through", condition{}, true)
	}
}
