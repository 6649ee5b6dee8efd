package server

import (
	"cmp"
	"os"

	"capd/backend/physical"
	"capd/state"
	"capd/vfs"
)

// A private directory is one of the host's own, which no mount may show: guests would reach what is in it.
type private struct {
	dir   string // it need not exist
	what  string // for people
	field string // of Server: where another is named
	parts bool   // no mount may show a part of it either, but what lies in free
	free  []string
}

// privates returns the host's private directories.
func (s *Server) privates(st state.Dir) []private {
	all := []private{stateDir(st)}
	dir := s.Socket.directory(st)
	if fi, err := os.Lstat(dir); dir != "" && (err != nil || fi.IsDir()) { // otherwise no socket is opened there
		all = append(all, private{dir: dir, what: "the directory of the guests' socket", field: "Socket.Dir"})
	}
	now := s.Hooks
	if set := s.hooked.Load(); set != nil {
		now = *set
	}
	return append(all, programs(now)...)
}

// programs returns those of hooks.
func programs(hooks []Hook) (all []private) {
	for _, h := range hooks {
		all = append(all, private{dir: h.Command[0], what: "the program of the hook " + h.Name, field: "Hooks"})
	}
	return all
}

func stateDir(st state.Dir) private {
	return private{dir: string(st), what: "the state directory", field: "State", parts: true, free: []string{st.AllUnsynced(), st.Roots(), st.Scratch()}}
}

// apart answers invalid if store, which is of dir, shows one of the private directories.
func apart(all []private, dir string, store *physical.Store) error {
	for _, p := range all {
		inside, err := store.Holds(p.dir)
		if err != nil {
			return vfs.Errorf(vfs.Invalid, "the path of %s %s cannot be found: %v", p.what, vfs.Printable(p.dir), state.Reason(err))
		}
		if inside || boundIn(dir, p.dir) {
			return vfs.Errorf(vfs.Invalid, "%s %s lies in a served directory, where guests would reach it; name another in %s", p.what, vfs.Printable(p.dir), p.field)
		}
		if part, err := p.part(dir); err != nil || part {
			return cmp.Or(err, vfs.Errorf(vfs.Invalid, "%s lies in %s %s, which is the host's own; name another directory", vfs.Printable(dir), p.what, vfs.Printable(p.dir)))
		}
	}
	return nil
}

// part reports whether dir is a part of p that no mount may show.
func (p private) part(dir string) (bool, error) {
	if !p.parts {
		return false, nil
	}
	inside, err := holds(p.dir, dir)
	if err != nil || !inside && !boundIn(p.dir, dir) {
		return false, err
	}
	for _, dirs := range p.free {
		if free, err := holds(dirs, dir); free || err != nil {
			return !free, err
		}
	}
	return true, nil
}
