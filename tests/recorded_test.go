package tests

import (
	"context"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"capd/client"
	"capd/database"
	"capd/operator"
	"capd/record"
	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/step"
	"capd/vfs/vfstest"
)

// What the methods of a guest's interfaces do. A method that looks changes nothing. One that changes something leaves an
// entry in the record. The others do neither: they narrow or hand out a capability, or prepare what a later call does.
const (
	guestLooks = `Session.help Session.restore Session.restoreDir Session.restoreFile Session.restorePetitioner Session.shares Petitioner.roots Petitioner.help
		Dir.list Dir.get Dir.walk Dir.openDir Dir.openFile Dir.subDir Dir.stat Dir.glob Dir.grep Dir.archive Dir.readMany Dir.tree Dir.history Dir.readPast Dir.changedSince Dir.changes Dir.help Dir.rights Dir.explain
		File.readText File.readBytes File.readLines File.read File.stream File.stat File.help File.rights Writer.help Revoker.help`
	guestNeither = `Dir.turn Dir.temp Dir.readOnly Dir.narrow Dir.revocable Dir.stage File.readOnly File.narrow File.revocable File.stage File.sync
		Writer.write Sink.write Sink.done`
	guestRequests = `Petitioner.requestDir Petitioner.requestFile` // a human's answer, or a grant: testdata/script/invite.txtar
)

// guestChanges are the methods that change something, with the operation that the record has.
var guestChanges = map[string]change{
	"Dir.put":        operated("put", "f", "replace"),
	"Dir.createDir":  operated("createDir", "new", "mkdir"),
	"Dir.createFile": operated("createFile", "new", "create"),
	"Dir.symlink":    operated("symlink", "new", "symlink"),
	"Dir.remove":     operated("remove", "f", "remove"),
	"Dir.move":       operated("move from", "f", "rename"),
	"Dir.copy": {func(t *testing.T, _ *client.Conn, d *client.Dir) {
		_, err := d.CreateDir(t.Context(), "made")
		ok(t, err)
		_, err = d.Copy(t.Context(), "made", d, "new", vfs.If{}, vfs.If{})
		ok(t, err)
	}, "copy"},
	"Dir.extract": {func(t *testing.T, _ *client.Conn, d *client.Dir) {
		_, err := d.Put(t.Context(), "z.zip", strings.NewReader(noEntries), vfs.If{})
		ok(t, err)
		_, err = d.Extract(t.Context(), "z.zip", d, "new")
		ok(t, err)
	}, "copy"},
	"Dir.patch": {func(t *testing.T, _ *client.Conn, d *client.Dir) {
		_, err := d.Patch(t.Context(), []byte("--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+new\n"), client.PatchOptions{})
		ok(t, err)
	}, "change"},
	"Dir.change": {func(t *testing.T, _ *client.Conn, d *client.Dir) {
		ok(t, d.Change(t.Context(), []step.Step{{Verb: step.Mkdir, Path: "new"}}, false))
	}, "change"},
	"File.writeText":  operated("writeText", "f", "replace"),
	"File.writeBytes": operated("writeBytes", "f", "replace"),
	"File.edit":       operated("edit", "f", "replace"),
	"File.write":      operated("write", "f", "write"),
	"File.append":     operated("append", "f", "append"),
	"File.truncate":   operated("truncate", "f", "truncate"),

	"File.setAttributes": operated("setAttributes", "f", "attributes"),

	"Writer.commit": operated("stage file", "f", "replace"),
	"Dir.undo": {func(t *testing.T, _ *client.Conn, d *client.Dir) {
		_, err := d.Put(t.Context(), "f", strings.NewReader("other"), vfs.If{})
		ok(t, err)
		_, err = d.Undo(t.Context(), vfs.Undo{Last: 1})
		ok(t, err)
	}, "replace"},
	"Session.share": {func(t *testing.T, c *client.Conn, d *client.Dir) { sharedOf(t, c, d) }, "shared"},
	"Session.revokeShare": {func(t *testing.T, c *client.Conn, d *client.Dir) {
		id, _ := sharedOf(t, c, d)
		ok(t, c.RevokeShare(t.Context(), d, id))
	}, "revoked"},
	"Revoker.revoke": {func(t *testing.T, c *client.Conn, d *client.Dir) {
		_, r := sharedOf(t, c, d)
		ok(t, r.Revoke(t.Context()))
	}, "revoked"},
}

func sharedOf(t *testing.T, c *client.Conn, d *client.Dir) (id string, r *client.Revoker) {
	t.Helper()
	id, _, r, err := c.ShareOn(t.Context(), d, client.ShareTerms{})
	ok(t, err)
	t.Cleanup(func() { r.Close() })
	return id, r
}

// noEntries is a zip file that holds nothing.
const noEntries = "PK\x05\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// change is a method that changes something. leaves is the operation or the kind of the entry that it leaves.
type change struct {
	do     func(*testing.T, *client.Conn, *client.Dir)
	leaves string
}

func operated(name, path, leaves string) change {
	return change{func(t *testing.T, _ *client.Conn, d *client.Dir) {
		_, err := try(t.Context(), name, d.Cap(), path)
		ok(t, err)
	}, leaves}
}

// TestEveryGuestCallIsRecordedOrRead calls what changes something, over a socket, and looks for its entry. A new method fails
// until somebody says what it does.
func TestEveryGuestCallIsRecordedOrRead(t *testing.T) {
	looks, neither := strings.Fields(guestLooks), strings.Fields(guestNeither)
	listed := slices.Concat(looks, neither, strings.Fields(guestRequests), slices.Collect(maps.Keys(guestChanges)))
	slices.Sort(listed)
	if all := guestMethods(t); !slices.Equal(all, listed) {
		t.Errorf("the schema has %q, and listed is %q", all, listed)
	}
	for name, m := range guestChanges {
		t.Run(name, func(t *testing.T) {
			g := recordedGuest(t)
			m.do(t, g.conn, g.conn.Dir(t.Context()))
			if left := g.left(t); !slices.Contains(left, m.leaves) {
				t.Errorf("it left %q, want %s", left, m.leaves)
			}
		})
	}
}

// What only looks leaves no entry of a change.
func TestLooksAreNoChanges(t *testing.T) {
	g := recordedGuest(t)
	for name := range strings.SplitSeq(opens+", "+reads+", glob", ", ") {
		path := "f"
		if slices.Contains([]string{"openDir", "subDir", "list"}, name) {
			path = "d"
		}
		_, err := try(t.Context(), name, g.conn.Dir(t.Context()).Cap(), path)
		ok(t, err)
	}
	if left := g.left(t); len(left) > 0 {
		t.Errorf("they left %q", left)
	}
}

// guestMethods returns the methods of all interfaces in the guests' schema.
func guestMethods(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../schema/guest.capnp")
	ok(t, err)
	in := ""
	for line := range strings.Lines(string(text)) {
		if m := regexp.MustCompile(`^interface (\w+)`).FindStringSubmatch(line); m != nil {
			in = m[1]
		}
		if m := regexp.MustCompile(`^  (\w+) @\d+ \(.*->`).FindStringSubmatch(line); m != nil {
			all = append(all, in+"."+m[1])
		}
	}
	slices.Sort(all)
	return all
}

// recorded is a guest of a host that keeps a record.
type recorded struct {
	conn *client.Conn
	db   *database.DB
	from int64 // the first entry that is not of the grant itself
}

func recordedGuest(t *testing.T) *recorded {
	db := database.Memory()
	t.Cleanup(func() { ok(t, db.Close()) })
	h := scene.Serve(t, scene.InMemory(t, vfstest.Tree{"f": {Data: "text"}, "d/f": {Data: "text"}}), scene.Options{Record: true, DB: db})
	loc, _ := h.GrantOn(t, "agent", "", operator.Terms{Links: true})
	g := &recorded{conn: scene.Dial(t, loc), db: db}
	g.left(t)
	return g
}

// left returns the operations of the changes, and the kinds of all else, that the record has since the last call.
func (g *recorded) left(t *testing.T) (all []string) {
	t.Helper()
	for e, err := range record.Entries(context.Background(), g.db, record.Query{From: g.from}) {
		ok(t, err)
		g.from = e.Number + 1
		switch e.Kind {
		case record.Intended:
			all = append(all, e.Op)
		case record.Ended, record.Denied:
		default:
			all = append(all, e.Kind.String())
		}
	}
	return all
}
