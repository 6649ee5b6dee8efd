package vfstest

import (
	"strings"
	"sync"
	"time"

	"capd/vfs"
)

var overtakeRules = []rule{{"Commit/Overtaken", local, testCommitOvertaken}}

// overtaken is a change, and another that is made after the first was planned and
// before it is committed.
type overtaken struct {
	name  string
	do    func(*world, vfs.File, vfs.Dir) error
	other func(*world) error
	code  vfs.Code // the first change's answer then; "" is success
	f     string   // content of the file f at the end
}

func cut(size int64) func(*world) error {
	return func(w *world) error { return w.file("f").Truncate(w.ctx, size, vfs.If{}) }
}

func theirs(name string) func(*world) error {
	return func(w *world) error {
		_, err := w.root.Replace(w.ctx, name, strings.NewReader("theirs"), vfs.If{})
		return err
	}
}

var overtakings = []overtaken{
	{"Replace of what was cut", replaces("f", "mine", vfs.If{}), cut(0), "", "mine"},
	{"Replace of what was removed", replaces("f", "mine", vfs.If{}),
		func(w *world) error { return w.root.Remove(w.ctx, "f", vfs.If{}) }, "", "mine"},
	{"WriteAt to what was cut", writesAt("END", 5, vfs.If{}), cut(3), "", "the\x00\x00END"},
	{"Truncate of what was cut", truncates(5, vfs.If{}), cut(3), "", "the\x00\x00"},
	{"Replace of a version", replaces("f", "mine", vfs.If{Is: sum("the old content")}), theirs("f"), vfs.Conflict, "theirs"},
	{"WriteAt to a version", writesAt("mine", 0, vfs.If{Is: sum("the old content")}), theirs("f"), vfs.Conflict, "theirs"},
	{"Truncate of a version", truncates(0, vfs.If{Is: sum("the old content")}), theirs("f"), vfs.Conflict, "theirs"},
	{"Remove of a version", removes("f", vfs.If{Is: sum("the old content")}), theirs("f"), vfs.Conflict, "theirs"},
	{"Rename over a version", renames("x", "f", vfs.If{Is: sum("the old content")}), theirs("f"), vfs.Conflict, "theirs"},
	{"Rename to what was made", renames("x", "new", vfs.If{}), theirs("new"), vfs.Exists, "the old content"},
	{"Replace of what was made", replaces("new", "mine", vfs.If{Absent: true}), theirs("new"), vfs.Conflict, "the old content"},
	{"Remove of what was filled", removes("hollow", vfs.If{}), func(w *world) error {
		_, err := w.dir("hollow").Create(w.ctx, "new")
		return err
	}, vfs.NotEmpty, "the old content"},
}

// testCommitOvertaken makes another change between a change's plan and its commit. What
// was declared must cover what is done, and conditions must hold at the commit. A store
// that blocks the other change must declare correctly too.
func testCommitOvertaken(w *world) {
	for _, o := range overtakings {
		w.make(sample)
		before := w.picture()
		var l ledger
		var once sync.Once
		var wg sync.WaitGroup
		got, through := error(nil), false
		counted := w.committing(l.commit)
		err := o.do(w.committing(func(e vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
			once.Do(func() {
				done := make(chan error, 1)
				wg.Go(func() { done <- o.other(counted) })
				select {
				case got = <-done:
					through = true
				case <-time.After(patience):
				}
			})
			return l.commit(e, change)
		}), w.file("f"), nil)
		wg.Wait()
		w.settle(o.name, &l, before)
		if !through {
			continue
		}
		w.ok("the change that overtakes "+o.name, got)
		if o.code == "" {
			w.ok(o.name, err)
		} else {
			w.is(o.name, err, o.code)
		}
		w.has("f", o.f)
	}
}
