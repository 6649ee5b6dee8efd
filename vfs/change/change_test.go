package change_test

import (
	"context"
	"crypto/sha256"
	"strconv"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/meter"
	"capd/vfs"
	"capd/vfs/change"
	"capd/vfs/edit"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/step"
	"capd/vfs/vfstest/check"
)

// world returns a tree of two mounts, "" and "m", behind a membrane, as a host gives it to a guest.
func world(t *testing.T, guards ...membrane.Guard) vfs.Dir {
	t.Helper()
	names := namespace.New()
	names.SetJournal(memory.New(memory.Limits{}).Root(), func(string) string { return "" })
	check.OK(t, names.Mount("", memory.New(memory.Limits{}).Root(), namespace.Options{}))
	check.OK(t, names.Mount("m", memory.New(memory.Limits{}).Root(), namespace.Options{}))
	return membrane.Guarded(names.Root(), nil, guards...)
}

func put(path, text string) step.Step {
	return step.Step{Verb: step.Put, Path: path, Data: []byte(text)}
}

// edited is a step that edits path.
func edited(path, from, to string) step.Step {
	return step.Step{Verb: step.Edit, Path: path, Edits: []edit.Edit{{Old: []byte(from), New: []byte(to)}}}
}

func version(text string) vfs.If { return vfs.If{Is: sha256.Sum256([]byte(text))} }

// tree returns the paths in d and the texts of files, in tree order.
func tree(t *testing.T, ctx context.Context, d vfs.Dir, at string) string {
	t.Helper()
	var all strings.Builder
	for e, err := range d.List(ctx) {
		check.OK(t, err)
		n, err := d.Lookup(ctx, e.Name)
		check.OK(t, err)
		all.WriteString(at + e.Name)
		switch n := n.(type) {
		case vfs.Dir:
			all.WriteString("/ " + tree(t, ctx, n, at+e.Name+"/"))
		case vfs.File:
			b := make([]byte, 100)
			k, _ := n.ReadAt(ctx, b, 0)
			all.WriteString("=" + string(b[:k]) + " ")
		}
		n.Close()
	}
	return all.String()
}

func TestDo(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []step.Step
		want  string // of a, d/x and m/y, each with its name
		code  vfs.Code
		says  string
	}{
		{name: "put, remove, move and make", steps: []step.Step{put("a", "A"), {Verb: step.Mkdir, Path: "e"}, put("e/f", "new"), {Verb: step.Move, Path: "d/x", To: "e/x"}, {Verb: step.Remove, Path: "d"}}, want: "a=A e/ e/f=new e/x=x m/ m/y=y "},
		{name: "across mounts", steps: []step.Step{{Verb: step.Move, Path: "a", To: "m/a"}, put("m/y", "Y"), put("m/z", "")}, want: "d/ d/x=x m/ m/a=a m/y=Y m/z= "},
		{name: "a directory across mounts", steps: []step.Step{put("d/z", "z"), {Verb: step.Move, Path: "d", To: "m/d"}}, want: "a=a m/ m/d/ m/d/x=x m/d/z=z m/y=y "},
		{name: "exchange", steps: []step.Step{{Verb: step.Move, Path: "a", To: "t"}, {Verb: step.Move, Path: "d/x", To: "a"}, {Verb: step.Move, Path: "t", To: "d/x"}}, want: "a=x d/ d/x=a m/ m/y=y "},
		{name: "over a file", steps: []step.Step{{Verb: step.Move, Path: "a", To: "d/x", IfTarget: version("x")}}, want: "d/ d/x=a m/ m/y=y "},
		{name: "a file becomes a directory", steps: []step.Step{{Verb: step.Remove, Path: "a"}, {Verb: step.Mkdir, Path: "a"}, put("a/b", "b")}, want: "a/ a/b=b d/ d/x=x m/ m/y=y "},
		{name: "conditions that hold", steps: []step.Step{{Path: "a", Data: []byte("A"), If: version("a")}, {Path: "n", If: vfs.If{Absent: true}}}, want: "a=A d/ d/x=x m/ m/y=y n= "},
		{name: "edit", steps: []step.Step{edited("a", "a", "AA"), edited("a", "AA", "AB"), put("m/n", "new"), edited("m/n", "new", "old"), {Verb: step.Move, Path: "d/x", To: "d/z"}, edited("d/z", "x", "z")}, want: "a=AB d/ d/z=z m/ m/n=old m/y=y "},
		{name: "an edit that does not match", steps: []step.Step{put("m/y", "Y"), edited("a", "b", "c")}, code: vfs.Conflict, says: "conflict: a: step 2 of 2: "},
		{name: "an edit of nothing", steps: []step.Step{put("m/y", "Y"), edited("q", "b", "c")}, code: vfs.NotFound},
		{name: "an edit of a directory", steps: []step.Step{put("m/y", "Y"), edited("d", "b", "c")}, code: vfs.IsDir},
		{name: "an edit by lines without a version", steps: []step.Step{{Verb: step.Edit, Path: "a", Edits: []edit.Edit{{ByLines: true, Lines: edit.Range{First: 1, Count: 1}, New: []byte("b")}}}}, code: vfs.Invalid},
		{name: "nothing", want: "a=a d/ d/x=x m/ m/y=y "},
		{name: "back again", steps: []step.Step{put("a", "A"), put("a", "a")}, want: "a=a d/ d/x=x m/ m/y=y "},

		{name: "a condition that does not hold", steps: []step.Step{put("m/y", "Y"), {Path: "a", If: version("b")}}, code: vfs.Conflict, says: "conflict: a: step 2 of 2: the file was changed; read it again; nothing was changed"},
		{name: "absent", steps: []step.Step{put("m/y", "Y"), {Path: "a", If: vfs.If{Absent: true}}}, code: vfs.Conflict},
		{name: "no such directory", steps: []step.Step{put("m/y", "Y"), put("q/a", "")}, code: vfs.NotFound, says: "its directory is not there"},
		{name: "in a file", steps: []step.Step{put("m/y", "Y"), put("a/b", "")}, code: vfs.NotDir},
		{name: "in what was removed", steps: []step.Step{{Verb: step.Remove, Path: "d/x"}, {Verb: step.Remove, Path: "d"}, put("d/y", "")}, code: vfs.NotFound},
		{name: "a directory", steps: []step.Step{put("m/y", "Y"), put("d", "")}, code: vfs.IsDir},
		{name: "not empty", steps: []step.Step{put("m/y", "Y"), {Verb: step.Remove, Path: "d"}}, code: vfs.NotEmpty},
		{name: "nothing to remove", steps: []step.Step{put("m/y", "Y"), {Verb: step.Remove, Path: "q"}}, code: vfs.NotFound},
		{name: "something at the target", steps: []step.Step{put("m/y", "Y"), {Verb: step.Move, Path: "a", To: "d/x"}}, code: vfs.Exists},
		{name: "another version at the target", steps: []step.Step{{Verb: step.Move, Path: "a", To: "d/x", IfTarget: version("y")}}, code: vfs.Conflict},
		{name: "into itself", steps: []step.Step{{Verb: step.Move, Path: "d", To: "d/e"}}, code: vfs.Invalid},
		{name: "a mount", steps: []step.Step{put("a", "A"), {Verb: step.Remove, Path: "m/y"}, {Verb: step.Remove, Path: "m"}}, code: vfs.Busy},
		{name: "above", steps: []step.Step{put("../a", "")}, code: vfs.Invalid},
		{name: "too many", steps: make([]step.Step, step.Max+1), code: vfs.Limit},
	} {
		ctx := t.Context()
		d := world(t)
		_, err := change.Do(ctx, d, []step.Step{put("a", "a"), {Verb: step.Mkdir, Path: "d"}, put("d/x", "x"), put("m/y", "y")}, change.Options{})
		check.OK(t, err)
		if c.code != "" {
			c.want = "a=a d/ d/x=x m/ m/y=y "
		}
		for _, dry := range []bool{true, false} {
			_, err = change.Do(ctx, d, c.steps, change.Options{DryRun: dry})
			if dry && c.code == vfs.Busy { // whoever holds the mounts says so
				continue
			}
			check.Is(t, c.name, err, c.code)
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %q", c.name, err, c.says)
			}
			want := c.want
			if dry {
				want = "a=a d/ d/x=x m/ m/y=y "
			}
			if got := tree(t, ctx, d, ""); got != want {
				t.Errorf("%s, dry %v: %q, want %q", c.name, dry, got, want)
			}
		}
	}
}

// TestRights makes changes without a right that one of the steps needs.
func TestRights(t *testing.T) {
	ctx := t.Context()
	d := world(t)
	_, err := change.Do(ctx, d, []step.Step{put("a", "a")}, change.Options{})
	check.OK(t, err)
	for i, c := range []struct {
		name string
		keep membrane.Rights
		step step.Step
		code vfs.Code
	}{
		{"put with write alone", membrane.Write, put("a", "b"), vfs.Denied},
		{"put what is absent with write alone", membrane.Write, step.Step{Path: "fresh", If: vfs.If{Absent: true}}, ""},
		{"put with write and read", membrane.Write | membrane.Read, put("a", "b"), ""},
		{"edit without read", membrane.AllRights &^ membrane.Read, edited("a", "b", "c"), vfs.Denied},
		{"edit without write", membrane.AllRights &^ membrane.Write, edited("a", "b", "c"), vfs.ReadOnly},
		{"edit with write and read", membrane.Write | membrane.Read, edited("a", "b", "c"), ""},
		{"put without", membrane.AllRights &^ membrane.Write, put("a", "c"), vfs.ReadOnly},
		{"a condition without read", membrane.Write, step.Step{Path: "a", If: version("b")}, vfs.Denied},
		{"put an executable without metadata", membrane.Write | membrane.Read, step.Step{Path: "a", Data: []byte("b"), Exec: new(true)}, vfs.Denied},
		{"put an executable", membrane.Write | membrane.Read | membrane.Metadata, step.Step{Path: "a", Data: []byte("b"), Exec: new(true)}, ""},
		{"remove without", membrane.AllRights &^ membrane.Delete, step.Step{Verb: step.Remove, Path: "a"}, vfs.ReadOnly},
		{"move without", membrane.AllRights &^ membrane.Move, step.Step{Verb: step.Move, Path: "a", To: "c"}, vfs.ReadOnly},
		{"move without read", membrane.AllRights &^ membrane.Read, step.Step{Verb: step.Move, Path: "a", To: "c"}, vfs.Denied},
		{"move without delete and list", membrane.Read | membrane.Write | membrane.Move, step.Step{Verb: step.Move, Path: "a", To: "c"}, ""},
	} {
		n, err := membrane.Narrow(d, c.keep)
		check.OK(t, err)
		_, err = change.Do(ctx, n.(vfs.Dir), []step.Step{c.step, {Path: "other" + strconv.Itoa(i), If: vfs.If{Absent: true}}}, change.Options{})
		check.Is(t, c.name, err, c.code)
		n.Close()
	}
	locked, control, err := membrane.RevocableDir(d)
	check.OK(t, err)
	check.OK(t, control.Revoke())
	_, err = change.Do(ctx, locked, []step.Step{put("a", "c")}, change.Options{})
	check.Is(t, "after a revoke", err, vfs.Revoked)
}

// TestTakesBack makes changes of which one fails in the middle. All before it are taken back, whatever is refused from then on: that was
// answered for before.
func TestTakesBack(t *testing.T) {
	for name, stop := range map[string]func(t *testing.T, d vfs.Dir, c *membrane.Control, m *meter.Meter) (end func()){
		"a guard": func(*testing.T, vfs.Dir, *membrane.Control, *meter.Meter) func() { return func() {} },
		"a revoke": func(t *testing.T, d vfs.Dir, c *membrane.Control, _ *meter.Meter) func() {
			return shutting(t, c.Revoke, func() bool { _, err := membrane.RightsOf(d); return vfs.CodeOf(err) == vfs.Revoked })
		},
		"a lock": func(t *testing.T, d vfs.Dir, c *membrane.Control, _ *meter.Meter) func() {
			return shutting(t, func() error { return c.SetWritable(false) }, func() bool { r, err := membrane.RightsOf(d); return err == nil && r&membrane.Write == 0 })
		},
		"no reading": func(t *testing.T, d vfs.Dir, c *membrane.Control, _ *meter.Meter) func() {
			return shutting(t, func() error { return c.SetReadable(false) }, func() bool { r, err := membrane.RightsOf(d); return err == nil && r&membrane.Read == 0 })
		},
		"an allowance": func(_ *testing.T, _ vfs.Dir, _ *membrane.Control, m *meter.Meter) func() {
			m.Set(meter.Limits{meter.StoredBytes: 1, meter.StoredNodes: 1, meter.StagedBytes: 1, meter.Nodes: 1, meter.Streams: 1})
			return func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			most := meter.Limits{meter.StoredBytes: 1 << 20, meter.StoredNodes: 1000, meter.StagedBytes: 1 << 20, meter.Nodes: 1000, meter.Streams: 1000}
			m := meter.New("", "the test", most)
			var stopped, end func()
			at := "" // from where on everything is refused
			guard := membrane.Guard{Around: func(ctx context.Context, op membrane.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
				if op.Batch == membrane.InBatch && op.Path == at {
					at = "*"
					stopped()
				}
				if at == "*" && op.Kind != membrane.OpChange {
					return vfs.Effect{}, vfs.Errorf(vfs.Denied, "the test refuses it")
				}
				return do(ctx)
			}}
			whole := world(t, guard, membrane.Guard{Meter: m})
			d, c := check.Controlled(t, whole)
			_, err := change.Do(ctx, d, []step.Step{put("a", "long enough"), put("b", "b"), put("z", "long enough")}, change.Options{})
			check.OK(t, err)
			before, bytes, nodes := tree(t, ctx, d, ""), m.Used(meter.StoredBytes), m.Used(meter.StoredNodes)
			at, stopped = "b", func() { end = stop(t, d, c, m) }
			_, err = change.Do(ctx, d, []step.Step{put("a", "A"), {Verb: step.Mkdir, Path: "e"}, put("e/f", "new"), {Verb: step.Remove, Path: "z"}, {Verb: step.Remove, Path: "b"}}, change.Options{})
			if name == "a revoke" {
				check.Is(t, "the change", err, vfs.Revoked)
			} else if check.Is(t, "the change", err, vfs.Denied); !strings.Contains(err.Error(), "the test refuses it") {
				t.Error(err)
			}
			if end == nil {
				t.Fatal("nothing was stopped")
			}
			end()
			at = ""
			m.Set(most)
			if got, nodesNow := m.Used(meter.StoredBytes), m.Used(meter.StoredNodes); got != bytes || nodesNow != nodes {
				t.Errorf("%d bytes and %d nodes are charged, want %d and %d", got, nodesNow, bytes, nodes)
			}
			for _, k := range []meter.Kind{meter.StagedBytes, meter.Streams} {
				if n := m.Used(k); n != 0 {
					t.Errorf("%d of %v are still taken", n, k)
				}
			}
			if got := tree(t, ctx, whole, ""); got != before {
				t.Errorf("there is %q, want %q", got, before)
			}
		})
	}
}

// shutting begins to shut a gate, and returns when it is shut, while the call still waits for what is under way.
func shutting(t *testing.T, shut func() error, is func() bool) (end func()) {
	done := make(chan error, 1)
	go func() { done <- shut() }()
	check.Eventually(t, "it is shut", is)
	return func() { check.OK(t, <-done) }
}
