package server

import (
	"context"
	"slices"
	"strconv"

	"capd/database"
	"capd/operator"
	"capd/record"
	"capd/vfs"
	"capd/vfs/diff"
)

// maxChanges is how many paths the record has of one act.
const maxChanges = 1000

// recorder returns what writes to the record what an operator does, or nil if nothing is recorded.
func (s *Server) recorder() func(operator.Act) (string, func(error), error) {
	if s.record == nil {
		return nil
	}
	return func(a operator.Act) (string, func(error), error) {
		e := record.Entry{Op: a.Op, Path: record.Path(a.Path), Undoes: a.Of, Branch: a.Branch, Commit: a.Commit, Paths: len(a.Changes)}
		for _, c := range a.Changes[:min(len(a.Changes), maxChanges)] {
			w := record.Change{Path: record.Path(c.Path), From: record.Path(c.From)}
			w.WasKind, w.Was = stateText(c.Was)
			w.Kind, w.Version = stateText(c.Is)
			e.Changes = append(e.Changes, w)
		}
		i := s.record.Intend(e)
		if err := i.Wait(); err != nil {
			return "", nil, err
		}
		end := func(err error) { i.End(record.Outcome{Err: err}) }
		return actID(i.ID()), end, nil
	}
}

// stateText returns what the record has of a state: the version of a file, or what else is there.
func stateText(s diff.State) (kind, version string) {
	switch {
	case s.Absent():
		return "", ""
	case s.Kind == vfs.FileKind && !s.Version.IsZero():
		return "", s.Version.String()
	}
	return s.Kind.String(), ""
}

// stateOf returns the state of which stateText has returned kind and version. A version that cannot be read is none.
func stateOf(kind, version string) (s diff.State) {
	if version != "" {
		s.Kind = vfs.FileKind
		s.Version, _ = vfs.ParseVersion(version)
		return s
	}
	for _, k := range []vfs.Kind{vfs.FileKind, vfs.DirKind, vfs.LinkKind} {
		if k.String() == kind {
			s.Kind = k
		}
	}
	return s
}

// settled finds out how an act ended during which an earlier host was killed. It is no act if ok is false.
func (s *Server) settled(ctx context.Context, of record.Numbered) (r record.Result, ok bool) {
	if !slices.Contains(operator.Acts, of.Op) {
		return "", false
	}
	a := operator.Act{Op: of.Op, Path: string(of.Path), Of: of.Undoes, Branch: of.Branch, Commit: of.Commit}
	for _, c := range of.Changes {
		a.Changes = append(a.Changes, diff.Change{Path: string(c.Path), From: string(c.From), Was: stateOf(c.WasKind, c.Was), Is: stateOf(c.Kind, c.Version)})
	}
	switch done, known := s.fs.Settled(ctx, actID(of.Number), a); {
	case !known:
		return record.Unknown, true
	case done:
		return record.Done, true
	}
	return record.NotDone, true
}

// actID returns the id of an act, whose intent has the number n.
func actID(n int64) string { return "c" + strconv.FormatInt(n, 10) }

// noteMount adds to the record what was mounted or unmounted at path, in a transaction of the caller's.
func noteMount(tx *database.Tx, log *record.Log, kind record.Kind, path, url string) error {
	if log == nil {
		return nil
	}
	return log.Append(tx, record.Entry{Kind: kind, Path: record.Path(path), URL: url})
}
