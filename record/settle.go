package record

import (
	"path"
	"slices"

	"capd/database"
)

// Unsettled returns the intents of which it is not known how they ended: the host was killed. The caller finds out and
// calls Settle for each, before guests are served.
func (l *Log) Unsettled() []Numbered { return l.unsettled }

// Settle adds how a change ended that Unsettled returned. also, if not nil, writes more in the same transaction.
func (l *Log) Settle(of Numbered, r Result, also func(*database.Tx) error) error {
	return l.soonWith(also, Entry{Kind: Settled, Of: of.Number, Grants: of.Grants[:min(1, len(of.Grants))], Result: r})
}

// Precedes reports whether e is older than other, which changes the same path or a directory above it.
func (e Numbered) Precedes(other Numbered) bool {
	return e.Number < other.Number && slices.ContainsFunc(e.paths(), func(p string) bool {
		return slices.ContainsFunc(other.paths(), func(o string) bool { return below(p, o) })
	})
}

// paths returns what e is about.
func (e *Entry) paths() []string {
	switch {
	case e.To != "":
		return []string{string(e.Path), string(e.To)}
	case len(e.Changes) > 0:
		all := make([]string, 0, len(e.Changes)+1)
		for _, c := range e.Changes {
			all = append(all, path.Join(string(e.Path), string(c.Path)))
		}
		if e.Paths > len(all) { // of the others it is known where they are
			all = append(all, string(e.Path))
		}
		return all
	case e.Kind == Counted:
		all := make([]string, len(e.Dirs))
		for i, d := range e.Dirs {
			all[i] = string(d.Path)
		}
		return all
	}
	return []string{string(e.Path)}
}
