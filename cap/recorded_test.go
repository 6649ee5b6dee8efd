package cap_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"capd/client"
	"capd/database"
	"capd/operator"
	"capd/record"
	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// recorded runs do with a host that keeps a record, and returns the entries of a kind when the host has ended.
func recorded(t *testing.T, kind record.Kind, do func(t *testing.T, h *scene.Host)) (all []record.Entry) {
	t.Helper()
	db := database.Memory()
	defer func() { ok(t, db.Close()) }()
	t.Run("host", func(t *testing.T) {
		tree := vfstest.Tree{}
		for _, n := range slices.Concat(dirNeeds, fileNeeds) { // a directory for each
			tree[n.method+"/f"], tree[n.method+"/sub/g"], tree[n.method+"/sub/l"] = vfstest.Node{Data: "content"}, vfstest.Node{Data: "g"}, vfstest.Node{Data: "l"}
		}
		do(t, scene.Serve(t, scene.InMemory(t, tree), scene.Options{Record: true, DB: db}))
	})
	for e, err := range record.Entries(t.Context(), db, record.Query{Kinds: []record.Kind{kind}}) {
		ok(t, err)
		all = append(all, e.Entry)
	}
	return all
}

// opOf is the operation that a method is recorded as.
var opOf = map[string]string{
	"Dir.list": "list", "Dir.readMany": "read", "Dir.changedSince": "read", "Dir.changes": "watch", "Dir.glob": "list", "Dir.grep": "list", "Dir.tree": "list", "Dir.history": "read", "Dir.undo": "read", "Dir.readPast": "read", "Dir.stat": "stat", "Dir.put": "replace", "Dir.stage": "replace", "Dir.createDir": "mkdir", "Dir.temp": "mkdir",
	"Dir.createFile": "create", "Dir.symlink": "symlink", "Dir.remove": "remove", "Dir.move": "rename", "Dir.copy": "copy", "Dir.extract": "read", "Dir.archive": "archive", "Dir.patch": "change", "Dir.change": "change",
	"File.readText": "read", "File.readBytes": "read", "File.read": "read", "File.readLines": "read", "File.edit": "replace", "File.stream": "read", "File.writeText": "replace",
	"File.writeBytes": "replace", "File.stage": "replace", "File.write": "write", "File.append": "append", "File.truncate": "truncate",
	"File.setAttributes": "attributes", "File.sync": "sync", "File.stat": "stat",
}

// TestDenialsAreRecorded: each method that is refused leaves an entry, which says who was refused what.
func TestDenialsAreRecorded(t *testing.T) {
	var want []string
	try := func(t *testing.T, h *scene.Host, iface string, all []needing) {
		for _, n := range all {
			if n.rights == 0 && n.method != "sync" { // what needs nothing is not refused
				continue
			}
			who := iface + n.method
			at, _ := h.Grant(t, who, n.method, false)
			less := scene.Dial(t, at).Dir(context.Background()).Narrow(0)
			err := n.do(t.Context(), less, less.OpenFile("f"))
			want = append(want, fmt.Sprintf("%s %s %s", who, opOf[iface+"."+n.method], vfs.CodeOf(err)))
		}
	}
	var got []string
	for _, e := range recorded(t, record.Denied, func(t *testing.T, h *scene.Host) {
		try(t, h, "Dir", dirNeeds)
		try(t, h, "File", fileNeeds)
	}) {
		if e.Times != 1 || len(e.Grants) != 1 {
			t.Errorf("%+v", e)
		}
		got = append(got, fmt.Sprintf("%s %s %s", e.Grants[0].Name, e.Op, e.Code))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("recorded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestExplainedDenialsAreRecorded: a guest that asks whether it may do something leaves the same entry as one that tries.
func TestExplainedDenialsAreRecorded(t *testing.T) {
	all := []struct {
		right          client.Rights
		path, to, want string
	}{
		{client.Read, "stat/f", "", "read"}, {client.Write, "stat/new", "", "replace"}, {client.Delete, "stat/f", "", "remove"},
		{client.List, "stat/sub", "", "list"}, {client.Metadata, "stat/f", "", "stat"}, {client.Move, "stat/f", "list/f", "rename"},
	}
	var got, want []string
	for _, e := range recorded(t, record.Denied, func(t *testing.T, h *scene.Host) {
		d := h.Guest(t)
		less := d.Narrow(0)
		for _, c := range all {
			x, err := less.Explain(t.Context(), c.right, c.path, c.to)
			ok(t, err)
			code, _, _ := strings.Cut(strings.TrimPrefix(x.Reasons[len(x.Reasons)-1], "capd: "), ":")
			want = append(want, fmt.Sprintf("agent %s %s %s %s", c.want, c.path, c.to, code))
			for _, path := range []string{c.path, "stat/none"} { // what is allowed, or fails for another reason, is no refusal
				_, err = d.Explain(t.Context(), c.right, path, c.to)
				ok(t, err)
			}
		}
	}) {
		got = append(got, fmt.Sprintf("%s %s %s %s %s", e.Grants[0].Name, e.Op, e.Path, e.To, e.Code))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("recorded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestReadsAreRecorded: each method that reads or lists is counted, and no other.
func TestReadsAreRecorded(t *testing.T) {
	want, got := []string{}, []string{}
	for _, e := range recorded(t, record.Counted, func(t *testing.T, h *scene.Host) {
		for _, n := range slices.Concat(dirNeeds, fileNeeds) {
			at, _ := h.GrantOn(t, n.method, n.method, operator.Terms{Links: true})
			d := scene.Dial(t, at).Dir(context.Background())
			if n.method == "extract" {
				_, err := d.Put(t.Context(), "z.zip", strings.NewReader(noEntries), vfs.If{})
				ok(t, err)
				want = append(want, `extract "extract" 1 0`)
			}
			ok(t, n.do(t.Context(), d, d.OpenFile("f")))
			switch n.method {
			case "changes":
				want = append(want, `changes "changes" 0 1`)
			case "list":
				want = append(want, `list "list" 0 1`)
			case "history":
				want = append(want, `history "history" 0 1`)
			case "archive":
				want = append(want, `archive "archive/sub" 2 1`)
			case "copy":
				want = append(want, `copy "copy" 1 0`) // a small file is read once
			case "glob":
				want = append(want, `glob "glob/sub" 0 1`)
			case "grep":
				want = append(want, `grep "grep/sub" 2 1`)
			case "tree":
				want = append(want, `tree "tree" 0 1`, `tree "tree/sub" 0 1`)
			case "readText", "readBytes", "readMany", "changedSince", "readLines", "read", "stream", "edit", "patch":
				want = append(want, fmt.Sprintf(`%s "%[1]s" 1 0`, n.method))
			}
		}
	}) {
		for _, d := range e.Dirs {
			got = append(got, fmt.Sprintf("%s %q %d %d", e.Grants[0].Name, d.Path, d.Reads, d.Lists))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("recorded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
