package dir

import (
	"context"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/meter"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/search"
)

// maxWork bounds the work of one page of a search, in entries of a simple pattern. An
// entry counts as more if its pattern is more work.
const maxWork = 50_000

// maxMissed bounds the directories that one page reports as missed. It is larger than
// the number that a search can miss again when it continues: the directories on its
// way, for each alternative of the pattern.
const maxMissed = 1000

func (s *server) glob(c vat.Call[schema.Dir_glob_Params, schema.Dir_glob_Results]) error {
	pattern, err := wire.Path(c.Params().PatternBytes())
	if err != nil {
		return err
	}
	after, err := wire.Param(c.Params().After())
	if err != nil {
		return err
	}
	if err := vfs.CheckPathSize(pattern); err != nil {
		return vfs.At(pattern, err)
	}
	limit := wire.PageSize(c.Params().Limit())
	p, err := search.Compile(pattern)
	if err != nil {
		return vfs.At(pattern, err)
	}
	if c.Params().NoHidden() {
		p = p.NoHidden()
	}
	f := findings{ctx: c.Context(), limit: limit, cursor: string(after)}
	err = search.Search{Pattern: p, After: string(after), IgnoreFiles: c.Params().IgnoreFiles(), Visit: f.visit, Missed: f.miss}.In(c.Context(), s.dir)
	if err == nil {
		err = c.Context().Err()
	}
	if err != nil {
		return vfs.At(pattern, err)
	}
	r := c.Results()
	r.SetMore(f.more)
	if f.more {
		if err := r.SetCursor([]byte(f.cursor)); err != nil {
			return err
		}
	}
	if err := setMissed(f.missed, r.NewMissed); err != nil {
		return err
	}
	return s.setEntries(c.Context(), r.NewEntries, f.page, false)
}

// findings is one page of the results of a search.
type findings struct {
	ctx    context.Context
	limit  int
	page   []vfs.Entry
	missed []missed
	cursor string // last path that was looked at
	more   bool

	looked, work, bytes int
}

// missed is a directory that a search could not list.
type missed struct {
	path string
	why  error
}

func (f *findings) visit(path string, kind vfs.Kind, hit bool, work int) bool {
	if len(f.page) >= f.limit || len(f.missed) >= maxMissed || f.work >= maxWork || f.bytes > maxPageBytes {
		f.more = true
		return false
	}
	f.work += work
	f.cursor = path
	if hit {
		f.page = append(f.page, vfs.Entry{Name: path, Kind: kind})
		f.bytes += len(path) + 16
	}
	if f.looked++; f.looked%256 == 0 {
		return meter.Yield(f.ctx) == nil
	}
	return f.ctx.Err() == nil
}

func (f *findings) miss(path string, why error) {
	f.missed = append(f.missed, missed{path, why})
	f.bytes += len(path) + 128
}

func setMissed(all []missed, list func(int32) (schema.Missed_List, error)) error {
	if len(all) == 0 {
		return nil
	}
	return wire.SetAll(all, list, func(w schema.Missed, m missed) error { return wire.SetMissed(w, m.path, m.why) })
}
