package authority_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"capd/authority"
	"capd/backend/physical"
	"capd/database"
	"capd/operator"
	"capd/state"
	"capd/vfs"
	"capd/vfs/membrane"
)

// moment is what the disk had when the process could have been killed, and what was known by then.
type moment struct {
	at     string
	state  state.Dir
	known  map[string]vfs.Code // what restoring the locator of that name answers, of what was answered by then
	either string              // the name whose answer was under way, or ""
	used   int                 // uses that were answered
}

// TestKilledAtEachStep keeps what is on disk before and after each commit of grants, shares, uses, revokes and locks, as kill -9
// leaves it. Of each of these states a host starts, in which what was answered holds, and nothing else does.
func TestKilledAtEachStep(t *testing.T) {
	tree, dir, copies := t.TempDir(), state.Dir(t.TempDir()), t.TempDir()
	ok(t, os.MkdirAll(filepath.Join(tree, "a/b"), 0o755))
	store, err := physical.OpenAmbient(tree, physical.Options{})
	ok(t, err)
	now := moment{known: map[string]vfs.Code{}}
	var all []moment
	db, err := database.Open(dir, database.Options{Logf: t.Logf, Step: func(at string) {
		m := now
		m.at, m.known = fmt.Sprintf("%s %s", at, now.either), maps.Clone(now.known)
		m.state = state.Dir(filepath.Join(copies, fmt.Sprint(len(all))))
		ok(t, os.Mkdir(string(m.state), 0o700))
		for _, suffix := range []string{"", "-wal"} {
			content, err := os.ReadFile(dir.Database() + suffix)
			ok(t, err)
			ok(t, os.WriteFile(m.state.Database()+suffix, content, 0o600))
		}
		all = append(all, m)
	}})
	ok(t, err)
	h := &lasting{t: t, Host: authority.Open(store.Root(), authority.Options{DB: db})}

	secrets := map[string][]byte{}
	var taken *membrane.Control
	does := func(name string, code vfs.Code, do func()) {
		now.either = name
		do()
		now.known[name], now.either = code, ""
	}
	for _, name := range []string{"kept", "revoked", "locked"} {
		does(name, "", func() { secrets[name] = h.grant(name, "a", operator.Terms{}) })
	}
	does("uses", "", func() { secrets["uses"] = h.grant("uses", "a", operator.Terms{Uses: 2}) })
	does("share", "", func() { secrets["share"], _ = h.share(secrets["kept"], "b") })
	does("taken", "", func() { secrets["taken"], taken = h.share(secrets["kept"], "b") })
	does("of revoked", "", func() { secrets["of revoked"], _ = h.share(secrets["revoked"], "b") })
	does("taken", vfs.Revoked, func() { ok(t, taken.Revoke()) })
	for range 2 {
		now.either = "uses"
		h.restored("a use", secrets["uses"], "")
		now.used++
		now.either = ""
	}
	now.known["uses"] = vfs.Expired
	does("revoked", vfs.Revoked, func() {
		_, err := h.Revoke("revoked")
		ok(t, err)
	})
	now.known["of revoked"] = vfs.Revoked
	does("locked", vfs.ReadOnly, func() {
		_, err := h.SetWritable("locked", false)
		ok(t, err)
	})
	ok(t, h.Close())
	ok(t, db.Close())

	lost, undone := 0, 0
	for _, m := range all {
		l, u := m.check(t, tree, secrets)
		lost, undone = lost+l, undone+u
	}
	fmt.Printf("authority: killed %d times, %d lost, %d undone\n", len(all), lost, undone)
	if len(all) < 20 || lost+undone > 0 {
		t.Errorf("%d moments", len(all))
	}
}

// check starts a host of what the disk had, and counts what was granted and is lost, and what was taken away and is back.
func (m moment) check(t *testing.T, tree string, secrets map[string][]byte) (lost, undone int) {
	report, err := database.Check(t.Context(), m.state)
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("%s: %v, %q", m.at, err, report.Problems)
	}
	h := &lasting{t: t, tree: tree, state: m.state}
	h.start()
	defer h.end()
	for name, want := range m.known {
		if name == m.either || name == "of "+m.either || name == "uses" {
			continue
		}
		got := h.answers(secrets[name])
		switch {
		case got == want:
		case want == "":
			lost++
			t.Errorf("%s: %s answers %q", m.at, name, got)
		default:
			undone++
			t.Errorf("%s: %s answers %q, want %q", m.at, name, got, want)
		}
	}
	if _, given := m.known["uses"]; given {
		left := 0
		for left <= 2 && h.answers(secrets["uses"]) == "" {
			left++
		}
		if left > 2-m.used || m.either != "uses" && left < 2-m.used {
			undone++
			t.Errorf("%s: %d uses are left after %d", m.at, left, m.used)
		}
	}
	return lost, undone
}

// answers restores a secret and tries a change with it.
func (h *lasting) answers(secret []byte) vfs.Code {
	n, _, err := h.Restore(h.t.Context(), secret)
	if err != nil {
		return vfs.CodeOf(err)
	}
	defer n.Close()
	d, err := n.(vfs.Dir).Mkdir(h.t.Context(), "new")
	if err != nil {
		return vfs.CodeOf(err)
	}
	d.Close()
	ok(h.t, n.(vfs.Dir).Remove(h.t.Context(), "new", vfs.If{}))
	return ""
}
