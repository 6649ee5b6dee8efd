package tests

import (
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"

	"capd/database"
	"capd/record"
	"capd/state"
	"capd/vfs"
)

// noted is what the record says.
type noted struct {
	granted, revoked map[string]bool   // by id of the grant
	asked            map[string]bool   // by id of the request
	decided          map[string]string // answers
	put              map[string]string // versions of the files that were put, by path
	done             map[string]bool   // operations and paths
	mounted, hooked  map[string]bool   // by path and by name
	open             int               // changes of earlier hosts without an end
}

// recorded verifies the record, and compares it with what the state and the served directory have.
func (w *world) recorded() {
	w.must("", "audit", "verify")
	ctx := context.Background()
	view, err := database.OpenView(ctx, state.Dir(w.state))
	w.Check(err)
	defer view.Close()
	r := w.read(ctx, view)
	w.Check(view.Read(ctx, func(rows *database.Rows) error {
		w.compareGrants(rows, r)
		w.compareAsks(rows, r)
		w.compareNames(rows, "SELECT path FROM mounts", r.mounted)
		w.compareNames(rows, "SELECT name FROM hooks", r.hooked)
		return nil
	}))
	for change := range w.changes {
		if !r.done[change] {
			w.unrecordedf("%s", change)
		}
	}
	if r.open > 0 {
		w.unrecordedf("%d changes have no end", r.open)
	}
	for path, version := range r.put {
		content, err := os.ReadFile(filepath.Join(w.dir, strings.TrimPrefix(path, "project/")))
		if err != nil || vfs.Version(sha256.Sum256(content)).String() != version {
			w.unrecordedf("%s has %q, which is not what was put last", path, content)
		}
	}
}

func (w *world) unrecordedf(format string, args ...any) {
	w.unrecorded++
	w.Logf("UNRECORDED: "+format, args...)
}

// entries calls do with each entry of the record.
func (w *world) entries(do func(record.Numbered)) {
	ctx := context.Background()
	view, err := database.OpenView(ctx, state.Dir(w.state))
	w.Check(err)
	defer view.Close()
	for e, err := range record.Entries(ctx, view, record.Query{}) {
		w.Check(err)
		do(e)
	}
}

func (w *world) read(ctx context.Context, view *database.View) noted {
	r := noted{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]string{}, map[string]string{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, 0}
	open, began := map[int64]record.Entry{}, int64(0)
	for e, err := range record.Entries(ctx, view, record.Query{}) {
		w.Check(err)
		switch e.Kind {
		case record.Started:
			began = e.Number
		case record.Granted, record.Shared:
			r.granted[e.Grants[0].ID] = true
		case record.Revoked:
			r.revoked[e.Grants[0].ID] = true
		case record.Asked:
			r.asked[e.Ask] = true
		case record.Decided:
			r.decided[e.Ask] = e.Answer
		case record.Mounted, record.Unmounted:
			r.mounted[string(e.Path)] = e.Kind == record.Mounted
		case record.Hook:
			r.hooked[e.Hooks[0].Name] = e.Hooks[0].Said == "registered"
		case record.Intended:
			open[e.Number] = e.Entry
		case record.Ended, record.Settled:
			r.end(open[e.Of], e.Result)
			delete(open, e.Of)
		}
	}
	for n, of := range open {
		if n < began {
			r.open++
		}
		delete(r.put, string(of.Path)) // how that ended is written within a second
	}
	return r
}

// end follows what was put where.
func (r *noted) end(of record.Entry, result record.Result) {
	path, to := string(of.Path), string(of.To)
	if result == record.Done || result == record.Unknown && (of.Op == "append" || of.Op == "write") { // what it was does not tell
		r.done[of.Op+" "+path] = true
	}
	if result != record.Done {
		return
	}
	switch of.Op {
	case "replace":
		if strings.HasPrefix(path, "project/") { // and not in an overlay
			r.put[path] = of.Version
		}
	case "rename":
		if v, put := r.put[path]; put {
			r.put[to] = v
		}
		delete(r.put, path)
	default: // it is gone, or another since
		delete(r.put, path)
	}
}

// compareGrants compares the rows of grants with their entries.
func (w *world) compareGrants(rows *database.Rows, r noted) {
	all, err := rows.Query("SELECT 'g' || id, ifnull(ended, '') FROM grants")
	w.Check(err)
	defer all.Close()
	for all.Next() {
		var id, ended string
		w.Check(all.Scan(&id, &ended))
		if !r.granted[id] {
			w.unrecordedf("grant %s", id)
		}
		if r.revoked[id] != (ended == "revoked") {
			w.unrecordedf("grant %s: ended %q, revoked %v", id, ended, r.revoked[id])
		}
		delete(r.granted, id)
	}
	for id := range r.granted {
		w.unrecordedf("grant %s is recorded, and is not there", id)
	}
}

// compareAsks compares the rows of requests with their entries, and with what was answered.
func (w *world) compareAsks(rows *database.Rows, r noted) {
	all, err := rows.Query("SELECT lower(hex(id)), ifnull(decision, '') FROM asks")
	w.Check(err)
	defer all.Close()
	n := len(r.asked)
	for all.Next() {
		var id, decision string
		w.Check(all.Scan(&id, &decision))
		if n--; !r.asked[id] || r.decided[id] != decision {
			w.unrecordedf("request %s: %q, recorded as %q", id, decision, r.decided[id])
		}
		if want := w.decided[id]; decision != want && want != "" {
			w.lost++
			w.Logf("LOST: request %s is %q, and was answered with %q", id, decision, want)
		}
	}
	if n != 0 {
		w.unrecordedf("%d requests are recorded, and are not there", n)
	}
}

// compareNames compares the names that a query returns with those of which the record says that they are there.
func (w *world) compareNames(rows *database.Rows, query string, recorded map[string]bool) {
	all, err := rows.Query(query)
	w.Check(err)
	defer all.Close()
	for all.Next() {
		var name string
		w.Check(all.Scan(&name))
		if !recorded[name] {
			w.unrecordedf("%s: %s", query, name)
		}
		delete(recorded, name)
	}
	for name, there := range recorded {
		if there {
			w.unrecordedf("%s is recorded, and is not there (%s)", name, query)
		}
	}
}
