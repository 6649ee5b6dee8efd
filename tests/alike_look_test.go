//go:build linux

package tests

import (
	"fmt"
	"slices"
	"strings"

	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
)

// alikeTree has one of everything that every kind of store can keep.
var alikeTree = func() vfstest.Tree {
	tree := vfstest.Tree{
		"f": {Data: "the old content\n"}, "empty": {}, "x": {Data: "#!/bin/sh\n", Exec: true},
		"page": {Data: strings.Repeat("0123456789", 500)}, "big": {Data: strings.Repeat("abcdefg", 50_000)},
		"huge": {Data: strings.Repeat("x", 4<<20+1)}, "binary": {Data: "\xff\xfe\x00\x01"}, "nul": {Data: "a\x00b"},
		"d/g": {Data: "below"}, "d/e/h": {Data: "further below"}, "d/e/x": {Data: "run", Exec: true},
		"hollow": {Dir: true}, "d/hollow": {Dir: true}, "only/one": {Data: "1"},
		// Names whose order differs by bytes, for people, and in git.
		"d.txt": {}, "d-": {}, "d0": {}, "Z": {}, "z": {}, "a b": {Data: "spaced"}, "-dash": {}, "~": {}, "a:b": {}, "...": {}, ".hidden": {Data: "dot"},
		"\u00e9": {Data: "composed"}, "e\u0301": {Data: "decomposed"}, "日本語/ファイル": {Data: "深い"}, "\U0001f642": {Data: "smile"},
		"*": {Data: "star"}, "[a]": {}, strings.Repeat("n", vfs.MaxName): {Data: "long"},
		// Links that stay inside, dangle, lead out and loop.
		"l": {Link: "f"}, "ld": {Link: "d"}, "lx": {Link: "x"}, "lhop": {Link: "ld/e/h"}, "lslash": {Link: "d/"}, "ldots": {Link: "./d/.././f"},
		"ltwice": {Link: "l"}, "d/up": {Link: "../f"}, "d/e/upup": {Link: "../../d/g"}, "dot": {Link: "."}, "d/dotdot": {Link: ".."},
		"nowhere": {Link: "missing"}, "nowhere2": {Link: "d/missing/more"}, "lfile": {Link: "f/below"},
		"out": {Link: "../outside"}, "d/out": {Link: "../../outside"}, "updown": {Link: "../served/f"}, "abs": {Link: "/etc/passwd"}, "absroot": {Link: "/"},
		"self": {Link: "self"}, "loop1": {Link: "loop2"}, "loop2": {Link: "loop1"}, "d/loop": {Link: "../d/loop/x"},
	}
	for i := range vfs.MaxLinks + 2 {
		tree[fmt.Sprintf("chain/%02d", i)] = vfstest.Node{Link: fmt.Sprintf("%02d", i+1)}
	}
	tree[fmt.Sprintf("chain/%02d", vfs.MaxLinks+2)] = vfstest.Node{Data: "the end of the chain"}
	for i := range 30 {
		tree[fmt.Sprintf("many/%02d", 29-i)] = vfstest.Node{Data: strings.Repeat("m", i)}
	}
	return tree
}()

// wrongPaths exist in no tree, or are invalid.
var wrongPaths = []string{
	"", ".", "..", "/", "/f", "f/", "d//g", "d/../f", "./f", "missing", "missing/below", "d/missing", "f/below", "d/g/below/more", "x/..",
	"l/below", "nowhere", "nowhere/below", "nowhere2", "lfile", "out", "out/below", "d/out", "updown", "abs", "abs/below", "absroot", "self", "self/below", "loop1", "d/loop",
	"chain/00", "chain/01", "chain/02", "chain/03", "a\x00b", "bad\xff", "d/bad\xff/x", "back\\slash", "bell\a", "turn\u202e", "zero\u200bwidth", "\ufeff",
	strings.Repeat("n", vfs.MaxName+1), strings.Repeat("é", 127) + "e", strings.Repeat("a/", vfs.MaxDepth-1) + "a", strings.Repeat("a/", vfs.MaxDepth) + "a",
	strings.Repeat(strings.Repeat("p", 200)+"/", 21) + "p", "F", "D/g", "E\u0301", "f ", "f.", "con", "nul ", "f:stream", "d\\g",
}

// look asks everything that changes nothing.
func look(a *asker) {
	a.Helper()
	root := a.root
	a.statDir(root, false)
	a.statDir(root, true)
	for _, after := range []string{"", "d", "d/", "d-", "e", "\xff", "\x00", "zzz", "../x", strings.Repeat("n", 300)} {
		for _, limit := range []uint32{0, 1, 3, 10_000, 1 << 31} {
			a.list(root, after, limit, limit == 3)
		}
	}
	for _, limit := range []uint32{1, 7} {
		many := a.openDir(root, "many")
		for entries := a.list(many, "", limit, true); len(entries) > 0; {
			entries = a.list(many, entries[len(entries)-1].Name, limit, true)
		}
	}
	var paths []string
	for path := range alikeTree.All() {
		paths = append(paths, path)
	}
	paths = append(paths, "ld/g", "ld/e/upup", "dot/f", "dot/dot/d/dotdot/f", "d/dotdot/d/dotdot/x", "lslash/e/h", "d/e/upup", "ld/dotdot/l")
	for _, path := range slices.Concat(paths, wrongPaths) {
		lookAt(a, root, path)
		a.drop()
	}
	for _, pattern := range []string{
		"*", "**", "**/*", "d/*", "d/**", "**/h", "d/**/x", "[a-e]*", "[!a-z]*", "{f,x,d/g}", "?", "??", "*.txt", "d*", "", "/", "/f", "../*", "*/..", "[", "{", "a\\*", "[[]a]", "\\*", "**/**/g",
		"l*", "ld/*", "many/*[05]", "missing/**", "f/**", "É", "é", "e\u0301", "日*/*", "bad\xff", "{" + strings.Repeat("a,", 70) + "b}", strings.Repeat("?", 256), "nowhere", "chain/**", "hollow/*", ".*", "d/.", "d//g",
	} {
		for _, limit := range []uint32{0, 2} {
			a.glob(root, pattern, "", limit)
		}
		a.glob(root, pattern, "d/e", 3)
	}
	for _, pattern := range []string{"**", "*/*", "d/**", "["} {
		a.globLeaving(root, pattern, true, false)
		a.globLeaving(root, pattern, false, true)
	}
	for _, path := range []string{"", "d", "ld", "f", "missing", "../x", "/"} {
		a.shape(root, path, 0, 0, 0, [3]bool{})
		a.shape(root, path, 1, 3, 0, [3]bool{true, false, true})
		a.shape(root, path, 0, 0, 20, [3]bool{false, true, false})
	}
	for _, after := range []string{"d", "d/e/h", "zzzz", "../x", "/", "\xff", "d//e"} {
		a.glob(root, "**", after, 5)
	}
	for _, path := range []string{"", "d", "f", "ld", "out", "missing", "../x", "many", "d/e/h"} {
		for flags := range uint(64) {
			a.grep(root, path, "e|o", "", flags)
		}
		for _, pattern := range []string{"", "^", "$", "[", "(?i)THE", "a\nb", "é", strings.Repeat("x", 2000), "(a{1000}){1000}"} {
			a.grep(root, path, pattern, "", 0)
		}
	}
	for _, after := range []string{"d", "d/e/h", "zzzz", "../x", "f\x003\x000\x001", "f\x00", "f\x00-1\x000\x000", "\x00", "missing\x001\x001\x001"} {
		a.grep(root, "", "e|o", after, 0)
	}
	for _, method := range []string{"", "list", "Glob", "missing", "help", "../x", "\xff", "nul\x00"} {
		f := a.openFile(root, "f")
		_, r := a.revocableDir(root)
		askHelp(a, a.session, schema.Session_help, method)
		askHelp(a, root.Cap, schema.Dir_help, method)
		askHelp(a, f.Cap, schema.File_help, method)
		askHelp(a, r.Cap, schema.Revoker_help, method)
	}
	below := a.subDir(root, "d") // fewer questions are asked inside it
	for _, path := range []string{"up", "dotdot", "e/upup", "out", "g", "loop", "../f", "e/h", "up/x"} {
		lookAt(a, below, path)
	}
	a.tree("d", below)
}

// lookAt asks about one path in every way.
func lookAt(a *asker, d dirCap, path string) {
	a.Helper()
	a.get(d, path)
	for _, flags := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
		a.walk(d, path, flags[0], flags[1])
	}
	a.openNoFollow(d, path)
	a.readMany(d, path, "missing", path)
	a.changedSince(d, path, "missing")
	a.changes(d, nil)
	a.changes(d, []byte("no cursor"))
	sub := a.openDir(d, path)
	a.statDir(sub, true)
	a.list(sub, "", 5, true)
	a.temp(a.readOnlyDir(sub)) // a store that never changes does not refuse the others
	a.glob(a.subDir(d, path), "*", "", 3)
	f := a.openFile(d, path)
	a.statFile(f, false)
	a.statFile(f, true)
	a.readText(f)
	a.readBytes(f)
	a.readLines(f, 0, 0, false)
	a.readLines(f, 2, 1, true)
	a.readLines(f, 1<<63, 1, false)
	for _, r := range []struct {
		offset uint64
		length uint32
	}{{0, 0}, {0, 5}, {3, 4096}, {4096, 4096}, {1 << 40, 1}, {1<<63 - 1, 1}, {1 << 63, 1}, {0, 1 << 20}, {0, 1<<20 + 1}} {
		a.read(f, r.offset, r.length)
	}
	for _, r := range [][2]uint64{{0, 0}, {0, 3}, {4, 0}, {1 << 40, 0}, {1, 1 << 62}, {1 << 63, 0}, {0, 1 << 63}} {
		a.stream(f, r[0], r[1])
	}
	a.sync(f)
}

// wonder asks what may be done.
func wonder(a *asker) {
	for right := membrane.Read; right != 0; right <<= 1 {
		for _, path := range []string{"d", "f", "missing", "f/x", "../d"} {
			a.explain(a.root, right, path, "")
			a.explain(a.root, right, path, "d/new")
		}
	}
}

// handOn asks for attenuated and revocable capabilities, and for new secrets.
func handOn(a *asker) {
	a.Helper()
	root := a.root
	uses := func(d dirCap) {
		a.Helper()
		a.statDir(d, false)
		a.list(d, "", 2, false)
		f := a.openFile(d, "g")
		a.readText(f)
		a.put(d, "g", "changed", having("nothing like it"), false)
		a.put(d, "f/x", "changed", condition{}, false)
		a.remove(d, "missing", condition{})
		a.truncate(f, 0, having("nothing like it"))
		a.edit(f, false, condition{}, "nothing like it", "changed")
		a.readText(a.readOnlyFile(f))
		a.writeText(a.readOnlyFile(f), "changed", condition{})
	}
	d := a.openDir(root, "d")
	uses(a.readOnlyDir(d))
	for r := membrane.Read; r != 0; r <<= 1 {
		for _, keep := range []membrane.Rights{r &^ membrane.ChangeRights, membrane.AllRights &^ membrane.ChangeRights &^ r} { // as a store that never changes is compared with one that is read-only
			less := a.narrowDir(d, keep)
			a.dirRights(less)
			a.fileRights(a.narrowFile(a.openFile(less, "g"), membrane.AllRights))
			a.glob(less, "*", "", 0)
			uses(less)
		}
	}
	taken, r := a.revocableDir(d)
	kept := a.openFile(taken, "g")
	uses(taken)
	secret, sr := a.share("d, to be taken back", taken.Cap, false)
	other := a.restoreDir("of d", secret)
	uses(other)
	a.revoke(r)
	uses(taken)
	uses(other)
	a.readText(kept)
	a.writeText(kept, "changed", condition{})
	a.revoke(r)
	a.revoke(sr)
	a.restoreDir("of d, which was taken back", secret)

	secret, _ = a.share("d, to be taken back by its id", d.Cap, false)
	shared := a.restoreDir("of d once more", secret)
	for _, id := range a.shares(root) {
		a.revokeShare(root, id)
		a.revokeShare(root, id)
	}
	a.shares(root)
	a.statDir(shared, false)

	f := a.openFile(root, "f")
	secret, sr = a.share("f", f.Cap, true)
	file := a.restoreFile("of f", secret)
	a.statFile(file, true)
	a.readText(file)
	a.writeText(file, "changed", having("nothing like it"))
	a.revoke(sr)
	a.readText(file)
	once, r := a.revocableFile(f)
	a.readText(once)
	a.revoke(r)
	a.readText(once)
	a.statFile(once, true)

	a.share("nothing", nil, false)
	a.share("a Dir that is none", a.openDir(root, "missing").Cap, false)
	a.share("a revoker", r.Cap, false)
	own := a.hold(vat.Serve(chunkTable, &chunkSink{}))
	a.share("what is not the host's", own, true)
	for _, size := range []int{0, 31, 32, 33} {
		a.restoreDir(fmt.Sprintf("of %d bytes of no secret", size), make([]byte, size))
	}
}
