package batch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/batch"
	"capd/vfs/diff"
	"capd/vfs/faultfs"
)

// before has one of everything, and edits are what a batch makes of it.
var (
	before = tree{
		"a": "file:old", "b": "file:gone", "x": "exec:#!", "l": "link:a", "k": "link:b",
		"d": "dir", "d/e": "dir", "d/e/f": "file:deep", "d/g": "file:", "d-": "file:beside",
		"t": "dir", "t/u": "dir", "t/u/v": "file:v", "t/w": "link:../a",
		"turn": "file:to be a directory", "keep": "file:kept",
	}
	edits = map[string]tree{
		"content":          {"a": "file:new"},
		"exec":             {"a": "exec:old", "x": "file:#!"},
		"large":            {"a": big},
		"new":              {"n": "file:n", "d/n": "file:", "m": "dir", "m/o": "dir", "m/o/p": "file:p"},
		"gone":             {"b": "", "d": "", "d/e": "", "d/e/f": "", "d/g": "", "l": ""},
		"links":            {"l": "link:b", "n": "link:nowhere", "k": ""},
		"file to dir":      {"turn": "dir", "turn/in": "file:in", "turn/e": "dir"},
		"dir to file":      {"t": "file:t", "t/u": "", "t/u/v": "", "t/w": ""},
		"dir to link":      {"t": "link:d", "t/u": "", "t/u/v": "", "t/w": ""},
		"link to dir":      {"l": "dir", "l/n": "link:x"},
		"link and file":    {"l": "file:l", "a": "link:b"},
		"moved":            {"b": "", "moved": "file:gone"},
		"exchanged":        {"a": "file:gone", "b": "file:old"},
		"all of it":        {"a": big, "b": "", "x": "file:#!", "l": "dir", "l/n": "file:n", "t": "file:t", "t/u": "", "t/u/v": "", "t/w": "", "turn": "dir", "turn/in": "exec:in", "d/e/f": "file:deeper", "d/e/n": "link:f", "k": ""},
		"one below beside": {"d-": "", "d/g": "file:g"},
	}
)

func TestRun(t *testing.T) {
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			d, j := store(t, before), journal()
			after := before.with(edit)
			var calls, of int
			_, err := batch.Run(ctx, j, d, changes(before, after), batch.Options{Progress: func(done, total int) {
				calls++
				if of = total; done != calls {
					t.Errorf("progress says %d for step %d", done, calls)
				}
			}})
			ok(t, err)
			if calls == 0 || calls != of {
				t.Errorf("%d calls of Progress of %d", calls, of)
			}
			holds(t, d, after)
			empty(t, j)
			id, err := batch.Run(ctx, j, d, changes(before, after), batch.Options{})
			if id != "" || err != nil {
				t.Errorf("again: %q, %v; want nothing to do", id, err)
			}
		})
	}
}

// A content need not be brought when a file of the batch has it.
func TestContentOfAnother(t *testing.T) {
	d, after := store(t, before), before.with(edits["exchanged"])
	all := changes(before, after)
	for i := range all {
		all[i].Content = nil
	}
	_, err := batch.Run(t.Context(), journal(), d, all, batch.Options{})
	ok(t, err)
	holds(t, d, after)
}

func TestUndo(t *testing.T) {
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			d, j := store(t, before), journal()
			after := before.with(edit)
			id, err := batch.Run(ctx, j, d, changes(before, after), batch.Options{Name: "n", Keep: true})
			ok(t, err)
			if got, err := batch.Recover(ctx, j, nil); len(got) != 1 || got[0].ID != id || !got[0].Done || !got[0].Kept || err != nil {
				t.Errorf("Recover of what is done and kept: %v, %v", got, err)
			}
			if got := kept(t, j); !slices.Equal(got, []string{id}) {
				t.Errorf("the journal keeps %q, want %s", got, id)
			}
			ok(t, batch.Undo(ctx, j, id, d))
			holds(t, d, before)
			empty(t, j)
			if err := batch.Undo(ctx, j, id, d); vfs.CodeOf(err) != vfs.NotFound {
				t.Errorf("the second Undo: %v, want notFound", err)
			}
		})
	}
}

func TestUndoConflicts(t *testing.T) {
	ctx := t.Context()
	d, j := store(t, before), journal()
	after := before.with(edits["all of it"])
	id, err := batch.Run(ctx, j, d, changes(before, after), batch.Options{Keep: true})
	ok(t, err)
	put(t, d, "a", "another's")
	err = batch.Undo(ctx, j, id, d)
	inConflict(t, err, "a")
	holds(t, d, after.with(tree{"a": "file:another's"}))
	ok(t, d.Remove(ctx, "a", vfs.If{}))
	fill(t, d, tree{"a": after["a"]})
	ok(t, batch.Undo(ctx, j, id, d))
	holds(t, d, before)
}

// Load gives all of a batch back, after a restart too.
func TestLoad(t *testing.T) {
	ctx := t.Context()
	d, j := store(t, before), journal()
	all := changes(before, before.with(edits["all of it"]))
	id, err := batch.Run(ctx, j, d, all, batch.Options{Keep: true})
	ok(t, err)
	loaded, err := batch.Load(ctx, j, id)
	ok(t, err)
	if len(loaded) != len(all) {
		t.Fatalf("%d changes, want %d", len(loaded), len(all))
	}
	for _, c := range loaded {
		i := slices.IndexFunc(all, func(o diff.Change) bool { return o.Path == c.Path })
		if i < 0 || all[i].Was != c.Was || all[i].Is != c.Is {
			t.Errorf("%s was %v and becomes %v", c.Path, c.Was, c.Is)
		}
		same(t, c.Is, c.Content)
		same(t, c.Was, c.Old)
	}
	ok(t, batch.Forget(ctx, j, id))
	empty(t, j)
	for what, err := range map[string]error{
		"Forget": batch.Forget(ctx, j, id),
		"Load":   func() error { _, err := batch.Load(ctx, j, id); return err }(),
	} {
		if vfs.CodeOf(err) != vfs.NotFound {
			t.Errorf("%s of what is forgotten: %v, want notFound", what, err)
		}
	}
	for _, id := range []string{"", "..", "a/b", strings.Repeat("0", 30), "0123456789abc-0123456789abcdeX"} {
		if err := batch.Forget(ctx, j, id); vfs.CodeOf(err) != vfs.Invalid {
			t.Errorf("Forget(%q): %v, want invalid", id, err)
		}
	}
}

func same(t *testing.T, s diff.State, open func(context.Context) (io.ReadCloser, error)) {
	t.Helper()
	if s.Kind != vfs.FileKind {
		if open != nil {
			t.Errorf("a %v has a content", s)
		}
		return
	}
	r, err := open(t.Context())
	ok(t, err)
	defer r.Close()
	b, err := io.ReadAll(r)
	ok(t, err)
	if version(string(b)) != s.Version {
		t.Errorf("a copy is not what it should be")
	}
}

func put(t *testing.T, d vfs.Dir, name, data string) {
	t.Helper()
	_, err := d.Replace(t.Context(), name, strings.NewReader(data), vfs.If{})
	ok(t, err)
}

// inConflict says that err is about these paths and no others.
func inConflict(t *testing.T, err error, paths ...string) {
	t.Helper()
	c, ok := errors.AsType[*diff.Conflicts](err)
	if !ok || vfs.CodeOf(err) != vfs.Conflict {
		t.Fatalf("%v, want conflicts", err)
	}
	var got []string
	for _, p := range c.Paths {
		got = append(got, p.Path)
	}
	if !slices.Equal(got, paths) {
		t.Errorf("conflicts at %q, want %q: %v", got, paths, err)
	}
}

// Each of these trees differs from what the batch takes it to be.
func TestConflicts(t *testing.T) {
	for _, c := range []struct {
		name string
		edit tree
		is   tree // instead
		at   []string
	}{
		{"content", tree{"a": "file:new"}, tree{"a": "file:other"}, []string{"a"}},
		{"exec", tree{"a": "file:new"}, tree{"a": "exec:old"}, []string{"a"}},
		{"gone", tree{"a": "file:new"}, tree{"a": ""}, []string{"a"}},
		{"taken", tree{"n": "file:new"}, tree{"n": "file:other"}, []string{"n"}},
		{"taken by a link", tree{"n": "file:new"}, tree{"n": "link:a"}, []string{"n"}},
		{"removed and changed", tree{"b": ""}, tree{"b": "file:other"}, []string{"b"}},
		{"another link", tree{"l": "link:n"}, tree{"l": "link:m"}, []string{"l"}},
		{"a directory made a link", tree{"d/g": "file:new", "d/n": "file:n"}, tree{"d": "link:t", "d/e": "", "d/e/f": "", "d/g": ""}, []string{"d/g", "d/n"}},
		{"a directory gone", tree{"d/e/n": "file:n"}, tree{"d/e": "", "d/e/f": ""}, []string{"d/e/n"}},
		{"more in a directory that goes", tree{"d": "", "d/e": "", "d/e/f": "", "d/g": ""}, tree{"d/new": "file:", "d/e/new": "dir"}, []string{"d/new", "d/e/new"}},
		{"more in one that turns", tree{"d": "link:t", "d/e": "", "d/e/f": "", "d/g": ""}, tree{"d/new": "link:x"}, []string{"d/new"}},
		{"all of them", tree{"a": "file:new", "b": "", "d/g": "file:new"}, tree{"a": "file:1", "b": "file:2", "d/g": "file:3"}, []string{"a", "b", "d/g"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			is := before.with(c.is)
			d, j := store(t, is), journal()
			_, err := batch.Run(t.Context(), j, d, changes(before, before.with(c.edit)), batch.Options{})
			inConflict(t, err, c.at...)
			holds(t, d, is)
			empty(t, j)
		})
	}
}

// All conflicts are listed, and the text is short.
func TestConflictsText(t *testing.T) {
	from, to := tree{}, tree{}
	for i := range 1000 {
		path := fmt.Sprintf("%0200d\u202e", i)
		from[path], to[path] = "file:1", "file:2"
	}
	_, err := batch.Run(t.Context(), journal(), store(t, tree{}), changes(from, to), batch.Options{})
	c, ok := errors.AsType[*diff.Conflicts](err)
	if !ok || len(c.Paths) != 1000 {
		t.Fatalf("%v, want 1000 conflicts", err)
	}
	if text := err.Error(); len(text) > 4000 || !strings.Contains(text, "and 990 more") || strings.Contains(text, "\u202e") {
		t.Errorf("the text is %q", text)
	}
	if e, ok := errors.AsType[*vfs.Error](err); !ok || e.Code != vfs.Conflict {
		t.Errorf("no *vfs.Error inside: %v", err)
	}
}

// What is there already, in whole or in part, is left alone.
func TestPartlyThere(t *testing.T) {
	after := before.with(edits["all of it"])
	part := before.with(tree{"a": big, "b": "", "k": ""})
	d, j := store(t, part), journal()
	id, err := batch.Run(t.Context(), j, d, changes(before, after), batch.Options{Keep: true})
	ok(t, err)
	holds(t, d, after)
	ok(t, batch.Undo(t.Context(), j, id, d))
	holds(t, d, part) // what it did not do it does not undo
}

func TestInvalid(t *testing.T) {
	file, dir := state("file:1"), state("dir")
	for name, c := range map[string]struct {
		changes []diff.Change
		code    vfs.Code
	}{
		"path":            {[]diff.Change{{Path: "/a", Is: dir}}, vfs.Invalid},
		"up":              {[]diff.Change{{Path: "a/../b", Is: dir}}, vfs.Invalid},
		"no path":         {[]diff.Change{{Is: dir}}, vfs.Invalid},
		"new name":        {[]diff.Change{{Path: "a\x01", Is: dir}}, vfs.Invalid},
		"deep":            {[]diff.Change{{Path: strings.Repeat("a/", 200) + "a", Is: dir}}, vfs.Limit},
		"twice":           {[]diff.Change{{Path: "n", Is: dir}, {Path: "n", Is: dir}}, vfs.Invalid},
		"no version":      {[]diff.Change{{Path: "n", Is: diff.State{Kind: vfs.FileKind}}}, vfs.Invalid},
		"no content":      {[]diff.Change{{Path: "n", Is: file}}, vfs.Invalid},
		"foreign":         {[]diff.Change{{Path: "n", Was: diff.State{Kind: diff.Foreign}}}, vfs.Invalid},
		"no target":       {[]diff.Change{{Path: "n", Is: diff.State{Kind: vfs.LinkKind}}}, vfs.Invalid},
		"dir and target":  {[]diff.Change{{Path: "n", Is: diff.State{Kind: vfs.DirKind, Target: "x"}}}, vfs.Invalid},
		"below a file":    {[]diff.Change{{Path: "n", Is: file, Content: content("file:1")}, {Path: "n/m", Is: dir}}, vfs.Invalid},
		"below what goes": {[]diff.Change{{Path: "d", Was: dir}, {Path: "d/m", Is: dir}}, vfs.Invalid},
		"idle content":    {[]diff.Change{{Path: "n", Is: file, Content: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(idle{}), nil }}}, vfs.Internal},
		"lying content":   {[]diff.Change{{Path: "n", Is: file, Content: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(lying{}), nil }}}, vfs.Invalid},
		"other content":   {[]diff.Change{{Path: "n", Is: file, Content: content("file:2")}}, vfs.Busy},
		"failing content": {[]diff.Change{{Path: "n", Is: file, Content: func(context.Context) (io.ReadCloser, error) {
			return nil, vfs.Quota
		}}}, vfs.Quota},
	} {
		t.Run(name, func(t *testing.T) {
			d, j := store(t, before), journal()
			_, err := batch.Run(t.Context(), j, d, c.changes, batch.Options{})
			if vfs.CodeOf(err) != c.code {
				t.Errorf("%v, want %s", err, c.code)
			}
			holds(t, d, before)
			empty(t, j)
		})
	}
	many := make([]diff.Change, batch.MaxChanges+1)
	if _, err := batch.Run(t.Context(), journal(), store(t, tree{}), many, batch.Options{}); vfs.CodeOf(err) != vfs.Limit {
		t.Errorf("too many changes: %v, want limit", err)
	}
}

// idle never gives anything, and lying says that it gave more than there is.
type (
	idle  struct{}
	lying struct{}
)

func (idle) Read([]byte) (int, error)    { return 0, nil }
func (lying) Read(p []byte) (int, error) { return len(p) + 1, nil }

// bare is a Dir without anything that not every Dir has.
type bare struct{ vfs.Dir }

// A store without links and executable files refuses those before it is changed.
func TestUnable(t *testing.T) {
	from := tree{"a": "file:old", "b": "file:b"}
	for _, edit := range []tree{{"b": "", "l": "link:a"}, {"b": "", "a": "exec:old"}} {
		d, j := store(t, from), journal()
		_, err := batch.Run(t.Context(), j, bare{d}, changes(from, from.with(edit)), batch.Options{
			Step: func(step string) { t.Errorf("%v: it is not seen at once, but after the step %q", edit, step) }})
		if vfs.CodeOf(err) != vfs.Unsupported {
			t.Errorf("%v: %v, want unsupported", edit, err)
		}
		holds(t, d, from)
		empty(t, j)
	}
	d := store(t, from)
	_, err := batch.Run(t.Context(), journal(), bare{d}, changes(from, from.with(tree{"a": "file:new"})), batch.Options{})
	ok(t, err)
	holds(t, d, tree{"a": "file:new", "b": "file:b"})
}

// A context that ends while contents are staged ends the batch; later it does not.
func TestCancelled(t *testing.T) {
	after := before.with(edits["all of it"])
	for _, at := range []string{"staged", "held", "intent"} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		d, j := store(t, before), journal()
		_, err := batch.Run(ctx, j, d, changes(before, after), batch.Options{Step: func(step string) {
			if step == at {
				cancel()
			}
		}})
		ok(t, err)
		holds(t, d, after)
		empty(t, j)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d, j := store(t, before), journal()
	all := changes(before, after)
	for i := range all {
		if all[i].Path == "a" {
			all[i].Content = func(context.Context) (io.ReadCloser, error) {
				cancel()
				return content(big)(ctx)
			}
		}
	}
	if _, err := batch.Run(ctx, j, d, all, batch.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while staging: %v", err)
	}
	holds(t, d, before)
	empty(t, j)
}

// What changes between the check and a step undoes the batch, and stays.
func TestOvertaken(t *testing.T) {
	after := before.with(edits["all of it"])
	for _, c := range []struct{ path, data string }{{"b", "another's"}, {"a", "another's"}, {"keep", "another's"}} {
		d, j := store(t, before), journal()
		_, err := batch.Run(t.Context(), j, d, changes(before, after), batch.Options{Step: func(step string) {
			if step == "intent" {
				put(t, d, c.path, c.data)
			}
		}})
		if c.path == "keep" {
			ok(t, err)
			continue
		}
		inConflict(t, err, c.path)
		holds(t, d, before.with(tree{c.path: "file:" + c.data}))
		empty(t, j)
	}
}

// What changes after a step has looked, and before its change is made, undoes the batch,
// and stays: each step has its condition in the store.
func TestOvertakenAtTheLastMoment(t *testing.T) {
	from := tree{"new": "", "old": "file:old", "gone": "file:gone"}
	for _, c := range []struct {
		name, path, becomes string
		op                  faultfs.Op
	}{
		{"put of a new file", "new", "file:mine", faultfs.Install},
		{"put in place of another", "old", "file:mine", faultfs.Install},
		{"remove", "gone", "", faultfs.Remove},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := tree{}.with(from)
			d, j := store(t, before), journal()
			plan := &faultfs.Plan{}
			pause := plan.Pause(c.op, faultfs.Before, 1)
			go func() {
				<-pause.Reached()
				put(t, d, c.path, "another's")
				pause.Resume()
			}()
			change := diff.Change{Path: c.path, Was: state(before[c.path]), Is: state(c.becomes), Content: content(c.becomes)}
			_, err := batch.Run(t.Context(), j, faultfs.New(d, plan), []diff.Change{change}, batch.Options{})
			inConflict(t, err, c.path)
			holds(t, d, before.with(tree{c.path: "file:another's"}))
			empty(t, j)
		})
	}
}
