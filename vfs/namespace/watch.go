package namespace

import (
	"context"
	"slices"
	"strings"

	"capd/vfs"
)

var _ vfs.Watcher = (*nsDir)(nil)

// watching is a Watch of several trees: the one that a directory is in, and those that are mounted below it. It ends when something is mounted or
// unmounted.
type watching struct {
	ns    *Namespace
	table *mountTable
	tell  func([]vfs.Notice)

	all []vfs.Watching
}

// Watch implements [vfs.Watcher]. It answers unsupported if one of the trees does.
func (d *nsDir) Watch(ctx context.Context, w vfs.Watch) (_ vfs.Watching, err error) {
	p, err := d.now()
	if err != nil {
		return nil, err
	}
	all := &watching{ns: d.ns, table: p.table, tell: w.Tell}
	defer func() {
		if err != nil {
			all.Stop()
		}
	}()
	if p.dir != nil {
		if err := all.add(ctx, p.dir, "", w); err != nil {
			return nil, err
		}
	}
	names := d.names()
	for _, m := range p.table.all {
		if len(m.names) > len(names) && slices.Equal(m.names[:len(names)], names) {
			if err := all.add(ctx, m.root, strings.Join(m.names[len(names):], "/"), w); err != nil {
				return nil, err
			}
		}
	}
	d.ns.watched.Store(all, nil)
	if d.ns.table.Load() != p.table {
		return nil, vfs.Errorf(vfs.Busy, "something was mounted here just now; try again")
	}
	return all, nil
}

// add watches tree, which is at path.
func (all *watching) add(ctx context.Context, tree vfs.Dir, path string, w vfs.Watch) error {
	if path != "" {
		tell := w.Tell
		w.Tell = func(notices []vfs.Notice) {
			notices = slices.Clone(notices)
			for i, n := range notices {
				if n.Kind != vfs.Happened {
					continue
				}
				notices[i].Path = path + "/" + n.Path
				if n.Event == vfs.Moved {
					notices[i].From = path + "/" + n.From
				}
			}
			tell(notices)
		}
	}
	one, err := vfs.WatchIn(ctx, tree, w)
	if err == nil {
		all.all = append(all.all, one)
	}
	return err
}

// Sync implements [vfs.Watching].
func (all *watching) Sync(ctx context.Context) error {
	for _, one := range all.all {
		if err := one.Sync(ctx); err != nil {
			return err
		}
	}
	if all.ns.table.Load() != all.table {
		return vfs.Stale
	}
	return ctx.Err()
}

// Stop implements [vfs.Watching].
func (all *watching) Stop() {
	all.ns.watched.Delete(all)
	for _, one := range all.all {
		one.Stop()
	}
}

// exchange makes t what is mounted now. Whoever watches is told.
func (n *Namespace) exchange(t *mountTable) {
	n.table.Store(t)
	n.watched.Range(func(key, _ any) bool {
		key.(*watching).tell([]vfs.Notice{{Kind: vfs.Lost}})
		return true
	})
}
