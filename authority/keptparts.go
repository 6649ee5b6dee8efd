package authority

import (
	"context"
	"slices"
	"sync"

	"capd/history"
	"capd/vfs"
)

// copiers is how many files of one change are copied to the shelf at once. Most of that time they wait for the disk.
const copiers = 8

// readyParts makes a row of each of parts, which are sorted by path, and which become what they say below the directory of the change, and copies the files that they
// displace. The store keeps none of them: it is not known which one will displace what.
func (k *keeping) readyParts(ctx context.Context, parts []vfs.Part) {
	for _, p := range parts {
		r := k.row
		if p.Path != "" {
			r.Path = vfs.Join(k.row.Path, p.Path)
		}
		if p.WasKind != vfs.Other {
			r.Was = k.host.look(ctx, r.Path)
		}
		if p.Kind != vfs.Other {
			r.Now = history.State{Kind: p.Kind, Size: p.Size, Exec: p.Exec, Target: p.Target}
		}
		if p.Kind == vfs.FileKind {
			r.Now.Version = p.Version.String()
		}
		r.Op = history.Named(r.Was, r.Now)
		k.parts = append(k.parts, r)
	}
	undoOrder(k.parts)
	var copying sync.WaitGroup
	room := make(chan struct{}, copiers)
	for i := range k.parts {
		r := &k.parts[i]
		if r.Was.Kind != vfs.FileKind || r.Was.Size > maxCopied {
			continue
		}
		room <- struct{}{}
		copying.Go(func() {
			defer func() { <-room }()
			k.copy(ctx, r)
		})
	}
	copying.Wait()
}

// leftParts notes what the nodes of a copied directory are now. Sizes and times are not known before.
func (k *keeping) leftParts() {
	for i := range k.parts {
		r := &k.parts[i]
		if is := k.host.look(context.Background(), r.Path); is.Kind == r.Now.Kind {
			r.Now = is
		}
	}
}

// undoOrder numbers rows, which are sorted by their paths. They are undone from the last number on: first what was made goes, from the inside
// out; then what was there comes back, from the outside in.
func undoOrder(rows []history.Row) {
	part := len(rows)
	for i := range slices.Backward(rows) {
		if rows[i].Was.Absent() {
			rows[i].Part = part
			part--
		}
	}
	for i := range rows {
		if !rows[i].Was.Absent() {
			rows[i].Part = part
			part--
		}
	}
}
