//go:build linux

package tests

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// Questions about history.

// past asks for the newest entries of history. Ids and times are not compared.
func (a *asker) past(d dirCap, limit uint32) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.history limit %d", d.how, limit), schema.Dir_history, func(p schema.Dir_history_Params, _ *vat.Caps) error {
		p.SetLimit(limit)
		return nil
	}, func(r schema.Dir_history_Results, _ *vat.Caps) (string, error) {
		l, err := r.Entries()
		page, err := wire.PastPage(l, err, false, r.SinceMs())
		var b strings.Builder
		for _, e := range page.Entries {
			e.ID, e.AtMs, e.UndoneBy = 0, 0, min(e.UndoneBy, 1)
			fmt.Fprintf(&b, "%+v; ", e)
		}
		return b.String(), err
	})
}

// undo undoes what w says.
func (a *asker) undo(d dirCap, what string, w vfs.Undo) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.undo %s, dry %v", d.how, what, w.DryRun), schema.Dir_undo, func(p schema.Dir_undo_Params, _ *vat.Caps) error {
		to, err := p.NewWhat()
		p.SetDryRun(w.DryRun)
		if err != nil {
			return err
		}
		return wire.SetUndo(to, w)
	}, func(r schema.Dir_undo_Results, _ *vat.Caps) (string, error) {
		l, err := r.Steps()
		steps, err := wire.All(wire.UndoStep)(l, err)
		return fmt.Sprintf("%v, changed %v, entries %v", steps, r.Id() != 0, r.HasEntries()), err
	})
}

func (a *asker) readPast(d dirCap, path string, v vfs.Version, off uint64, length uint32) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.readPast %q %v %d %d", d.how, path, v, off, length), schema.Dir_readPast, func(p schema.Dir_readPast_Params, _ *vat.Caps) error {
		p.SetOffset(off)
		p.SetLength(length)
		if err := p.SetVersion(v[:]); err != nil {
			return err
		}
		return p.SetPath(path)
	}, func(r schema.Dir_readPast_Results, _ *vat.Caps) (string, error) {
		b, err := r.Data()
		return fmt.Sprintf("%q %v of %d", b, r.Eof(), r.SizeBytes()), err
	})
}

func (a *asker) turn(d dirCap, name string) dirCap {
	a.Helper()
	caps := open(a, d.Cap, fmt.Sprintf("%s.turn %q", d.how, name), schema.Dir_turn, func(p schema.Dir_turn_Params, _ *vat.Caps) error {
		return p.SetName(name)
	}, at(schema.Dir_turn_Results_dir))
	return dirCap{caps[0], d.how + " in " + name}
}

// undoes changes something of each kind, looks at the history of that, and undoes it.
func undoes(a *asker) {
	a.Helper()
	root := a.root
	one := vfs.Version(sha256.Sum256([]byte("one")))
	a.createDir(root, "u")
	a.put(root, "u/a", "one", condition{}, false)
	a.put(root, "u/a", "two", condition{}, false)
	a.past(root, 2)
	for _, path := range []string{"u/a", "u/none", "u", "../x", ""} {
		a.readPast(root, path, one, 0, 10)
		a.readPast(root, path, one, 1, 1)
		a.readPast(root, path, vfs.Version{}, 0, 1)
	}
	a.readPast(root, "u/a", one, 1<<63, 1)
	a.readPast(root, "u/a", one, 0, 1<<20+1)
	for _, dry := range []bool{true, false} {
		a.undo(root, "nothing", vfs.Undo{DryRun: dry})
		a.undo(root, "the last", vfs.Undo{Last: 1, DryRun: dry})
		a.undo(root, "none", vfs.Undo{ID: 1 << 50, DryRun: dry})
		a.undo(root, "no turn", vfs.Undo{Turn: "none", DryRun: dry})
	}
	turn := a.turn(root, "t")
	a.turn(root, strings.Repeat("x", 257))
	a.createFile(turn, "u/b")
	a.move(turn, "u/b", turn, "u/c", condition{}, condition{})
	a.remove(turn, "u/a", condition{})
	a.createDir(turn, "u/d")
	f := a.openFile(turn, "u/c")
	a.write(f, 2, "in place", condition{})
	a.past(root, 5)
	a.undo(root, "the turn", vfs.Undo{Turn: "t", DryRun: true})
	a.undo(root, "the turn", vfs.Undo{Turn: "t"})
	a.past(root, 1)
	a.list(root, "", 0, false)
	a.remove(root, "u/a", condition{})
	a.put(root, "u/a", "three", condition{}, false)
	a.remove(root, "u/a", condition{})
	a.undo(root, "the last three", vfs.Undo{Last: 3})
	a.undo(root, "all", vfs.Undo{SinceMs: 1, DryRun: true})
}
