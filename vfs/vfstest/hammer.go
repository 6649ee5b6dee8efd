package vfstest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"capd/vfs"
)

// testHammer makes changes of every kind in a small tree from several goroutines at
// once. In the end the tree is consistent, agrees with what was declared to Commit, and
// holds nothing that nobody wrote.
func testHammer(w *world) {
	w.make(Tree{"a/f": {Data: "0000"}, "b/g": {Data: "1111"}, "c": {Dir: true}})
	before := w.picture()
	var l ledger
	hw := w
	if !w.s.Remote {
		hw = w.committing(l.commit)
	}
	together(4, func(i int) {
		random := rand.New(rand.NewPCG(uint64(i), 7))
		for range 250 {
			hw.randomChange(random)
		}
	})
	after := w.picture()
	if !w.s.Remote {
		w.settle("hammering", &l, before)
	}
	for path, n := range after.nodes {
		if !strings.HasPrefix(n, "file ") {
			continue
		}
		got, err := readAll(w.ctx, w.file(path))
		w.ok("reading", err)
		if strings.Trim(got, "0123456789\x00") != "" {
			w.Errorf("%s holds what nobody wrote: %s", path, short(got))
		}
	}
}

// randomChange makes one random change. It may fail, but only with a proper error.
func (w *world) randomChange(random *rand.Rand) {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	names := []string{"a", "b", "c", "f", "g"}
	name := func() string { return names[random.IntN(len(names))] }
	dir := func() vfs.Dir {
		d := w.root
		for range random.IntN(4) {
			n, err := d.Lookup(ctx, name())
			w.fit("Lookup", err)
			if below, ok := n.(vfs.Dir); ok {
				d = below
			}
		}
		return d
	}
	file := func() vfs.File {
		n, err := dir().Lookup(ctx, name())
		w.fit("Lookup", err)
		f, _ := n.(vfs.File)
		return f
	}
	data := strings.Repeat(string(rune('0'+random.IntN(10))), random.IntN(3000))
	condition := vfs.If{}
	f := file()
	if f != nil && random.IntN(3) == 0 {
		v, err := vfs.VersionOf(ctx, f)
		w.fit("VersionOf", err)
		condition.Is = v
	}
	var err error
	op := []string{"Create", "Mkdir", "Replace", "Replace", "Remove", "Rename", "Rename", "WriteAt", "Truncate", "Append", "List", "Open"}[random.IntN(12)]
	switch op {
	case "Create":
		_, err = dir().Create(ctx, name())
	case "Mkdir":
		_, err = dir().Mkdir(ctx, name())
	case "Replace":
		_, err = dir().Replace(ctx, name(), strings.NewReader(data), condition)
	case "Remove":
		err = dir().Remove(ctx, name(), condition)
	case "Rename":
		condition.Over = random.IntN(3) == 0
		err = dir().Rename(ctx, name(), dir(), name(), vfs.If{}, condition)
	case "List":
		_, err = list(ctx, dir())
	default:
		if f == nil {
			return
		}
		switch op {
		case "WriteAt":
			_, err = f.WriteAt(ctx, []byte(data), int64(random.IntN(5000)), condition)
		case "Truncate":
			err = f.Truncate(ctx, int64(random.IntN(5000)), condition)
		case "Append":
			_, err = vfs.Append(ctx, f, []byte(data), condition)
		case "Open":
			_, err = readAll(ctx, f)
		}
	}
	if err != nil {
		w.fit(fmt.Sprintf("hammering with %s", op), err)
	}
}
