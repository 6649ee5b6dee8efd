package virtualfs

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/help"
	"capd/operator"
	"capd/vat"
	"capd/vfs/diff"
)

type materialized struct {
	tree operator.Tree

	mu   sync.Mutex
	look []finding // the newest, while later pages of it may be asked for
}

// Release removes the directory in the background, since that may take long and Release
// runs where the connection is read. A failure is not reported: the host removes the
// rest at its next start.
func (m *materialized) Release() {
	go func() { _ = m.tree.Close() }()
}

var treeTable = vat.NewTable(
	vat.Handle(schema.Materialized_path, (*materialized).path),
	vat.Handle(schema.Materialized_changes, (*materialized).changes),
	vat.Handle(schema.Materialized_sync, (*materialized).sync),
	wire.Help(schema.Materialized_help, help.Text),
)

func (m *materialized) path(c vat.Call[schema.Materialized_path_Params, schema.Materialized_path_Results]) error {
	return c.Results().SetPath(m.tree.Path())
}

// finding is a change, or a path that is left out.
type finding struct {
	path   string
	change *diff.Change // nil if it is left out
	why    string
}

// cursor identifies a finding by its path and by which of the two it is.
func (f finding) cursor() string {
	if f.change != nil {
		return "c" + f.path
	}
	return "s" + f.path
}

func (f finding) compare(o finding) int {
	return cmp.Or(strings.Compare(f.path, o.path), strings.Compare(f.cursor(), o.cursor()))
}

func (f finding) size() int {
	if f.change != nil {
		return wire.ChangeSize(*f.change)
	}
	return wire.SkippedSize(f.skipped())
}

func (f finding) skipped() diff.Skipped { return diff.Skipped{Path: f.path, Why: f.why} }

func (m *materialized) changes(c vat.Call[schema.Materialized_changes_Params, schema.Materialized_changes_Results]) error {
	raw, err := wire.Param(c.Params().After())
	if err != nil {
		return err
	}
	after := string(raw)
	if after != "" && after[0] != 'c' && after[0] != 's' {
		return errCursor
	}
	look, err := m.findings(c, after)
	if err != nil {
		return err
	}
	p := page{limit: wire.PageSize(c.Params().Limit())}
	var changes []diff.Change
	var skipped []diff.Skipped
	cursor := ""
	for _, f := range look {
		if f.cursor() != cursor && !p.add(f.size()) { // findings with the same cursor stay on one page
			break
		}
		cursor = f.cursor()
		if f.change != nil {
			changes = append(changes, *f.change)
		} else {
			skipped = append(skipped, f.skipped())
		}
	}
	if !p.more {
		m.keep(nil)
	}
	r, err := c.ResultsFor(p.bytes)
	if err != nil {
		return err
	}
	if err := wire.SetAll(changes, r.NewChanges, wire.SetChange); err != nil {
		return err
	}
	if err := wire.SetAll(skipped, r.NewSkipped, wire.SetSkipped); err != nil {
		return err
	}
	if !p.more {
		return nil
	}
	r.SetMore(true)
	return r.SetCursor([]byte(cursor))
}

// findings returns the findings after a cursor. It takes the newest look, or makes a
// new one if there is none or the cursor is empty.
func (m *materialized) findings(c vat.Call[schema.Materialized_changes_Params, schema.Materialized_changes_Results], after string) ([]finding, error) {
	m.mu.Lock()
	look := m.look
	m.mu.Unlock()
	if after == "" || look == nil {
		changes, skipped, err := m.tree.Changes(c.Context())
		if err != nil {
			return nil, err
		}
		look = make([]finding, 0, len(changes)+len(skipped))
		for i := range changes {
			look = append(look, finding{path: changes[i].Path, change: &changes[i]})
		}
		for _, s := range skipped {
			look = append(look, finding{path: s.Path, why: s.Why})
		}
		slices.SortStableFunc(look, finding.compare)
		m.keep(look)
	}
	if after == "" {
		return look, nil
	}
	last := finding{path: after[1:]}
	if after[0] == 'c' {
		last.change = &diff.Change{}
	}
	i, _ := slices.BinarySearchFunc(look, last, func(f, last finding) int {
		if f.compare(last) <= 0 {
			return -1
		}
		return 1
	})
	return look[i:], nil
}

func (m *materialized) keep(look []finding) {
	m.mu.Lock()
	m.look = look
	m.mu.Unlock()
}

func (m *materialized) sync(c vat.Call[schema.Materialized_sync_Params, schema.Materialized_sync_Results]) error {
	progress, stop := report(c.Context(), c.Caps().Get(c.Params().Progress()))
	defer stop()
	n, skipped, err := m.tree.Sync(c.Context(), progress)
	m.keep(nil)
	conflicts, err := settled(err)
	if err != nil {
		return err
	}
	total := len(skipped)
	p := page{limit: total}
	for i, s := range skipped {
		if !p.add(wire.SkippedSize(s)) {
			skipped = skipped[:i]
			break
		}
	}
	r, err := c.ResultsFor(p.bytes + conflicts.bytes)
	if err != nil {
		return err
	}
	if conflicts.total == 0 {
		r.SetChanges(uint64(n))
	}
	r.SetSkippedTotal(uint64(total))
	if err := wire.SetAll(skipped, r.NewSkipped, wire.SetSkipped); err != nil {
		return err
	}
	r.SetConflictsTotal(conflicts.total)
	return conflicts.set(r.NewConflicts)
}
