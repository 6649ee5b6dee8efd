package dir

import (
	"context"
	"time"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/meter"
	"capd/vat"
	"capd/vfs"
)

// changedTime is after how long changedSince looks at no further path. It is shorter than what
// callers wait for an answer, and long enough for a large file.
const changedTime = 10 * time.Second

func (s *server) changedSince(c vat.Call[schema.Dir_changedSince_Params, schema.Dir_changedSince_Results]) error {
	known, err := wire.Sound[schema.Known_List](c.Params().HasKnown())(c.Params().Known())
	if err != nil {
		return err
	}
	if known.Len() > wire.MaxKnown {
		return vfs.Errorf(vfs.TooLarge, "%d paths are more than the %d of one call; use several", known.Len(), wire.MaxKnown)
	}
	if err := s.mayReadMany(); err != nil {
		return err
	}
	ctx := vfs.Unasked(c.Context())
	var all []wire.Differing
	room, looked := 0, 0
	for start := time.Now(); looked < known.Len() && (looked == 0 || time.Since(start) < changedTime); looked++ {
		d, err := s.differing(ctx, known.At(looked))
		if err != nil {
			return err
		}
		if d == nil {
			continue
		}
		d.Index = looked
		all = append(all, *d)
		room += d.Bytes()
	}
	r, err := c.ResultsFor(room)
	if err != nil {
		return err
	}
	if err := s.mayReadMany(); err != nil { // what was looked at first may have been revoked since
		return err
	}
	r.SetLooked(uint32(looked))
	return wire.SetAll(all, r.NewChanged, wire.SetDiffering)
}

// differing returns what is at a path, or nil if it is what was known.
func (s *server) differing(ctx context.Context, k schema.Known) (*wire.Differing, error) {
	want, err := wire.Param(wire.Version(k.Version()))
	if err != nil {
		return nil, err
	}
	path, err := wire.Path(k.PathBytes())
	var have vfs.Version
	if err == nil {
		have, err = versionAt(ctx, s.dir, path)
	}
	if err == nil {
		if have == want {
			return nil, nil
		}
		return &wire.Differing{Version: have}, nil
	}
	why, err := s.unread(ctx, path, err)
	if err != nil {
		return nil, err
	}
	switch vfs.CodeOf(why) {
	case vfs.NotFound, vfs.NotDir: // notDir: a file is on the way
		if want.IsZero() {
			return nil, nil
		}
	}
	return &wire.Differing{Err: why}, nil
}

// versionAt returns the version of the file at path.
func versionAt(ctx context.Context, d vfs.Dir, path string) (v vfs.Version, err error) {
	if err := meter.Yield(ctx); err != nil {
		return v, err
	}
	n, err := vfs.Walk(ctx, d, path)
	if err != nil {
		return v, err
	}
	f, err := vfs.AsFile(n)
	if err != nil {
		return v, err
	}
	defer f.Close()
	return vfs.VersionOf(ctx, f)
}
