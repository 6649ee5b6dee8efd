package cas

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"capd/hostfile"
	"capd/vfs"
)

// CollectOptions configure a collector.
type CollectOptions struct {
	// Grace is how long a blob that nothing keeps stays after it was last put. 0 means
	// [DefaultGrace]; below 0 means no time. It must be longer than the time from a Put
	// without a Pin until its root is opened or pinned, and longer than the host's
	// clock is ever set back.
	Grace    time.Duration
	DryRun   bool         // report, but change nothing
	Progress func(Report) // called from one goroutine while Collect runs
}

// DefaultGrace is the default of CollectOptions.Grace.
const DefaultGrace = time.Hour

// Report is what a collector found and did.
type Report struct {
	Blobs   int64 `json:"blobs"`   // stored blobs that were looked at
	Bytes   int64 `json:"bytes"`   // their bytes
	Removed int64 `json:"removed"` // blobs that were removed, or would be
	Freed   int64 `json:"freed"`   // their bytes
}

// Collect removes the blobs that nothing keeps. Pins, open trees and uploads of all
// processes keep blobs, and so does the period of grace. Readers and writers go on
// meanwhile. It answers busy while another collector runs. It answers corrupt when a
// pinned tree lacks a directory, since it cannot know what was below it; it then
// removes nothing more. Put that tree again, or unpin it.
func (s *Store) Collect(ctx context.Context, o CollectOptions) (Report, error) {
	alone, err := os.OpenFile(s.path(collecting), os.O_RDWR, 0)
	if err != nil {
		return Report{}, explain(err)
	}
	defer alone.Close()
	switch ok, err := hostfile.TryLock(alone, true); {
	case err != nil:
		return Report{}, explain(err)
	case !ok:
		return Report{}, vfs.Errorf(vfs.Busy, "another collector is at work; try again when it is done")
	}
	c := &collector{s: s, o: o, marks: newMarks(), seen: map[Digest]struct{}{}, lacking: map[Digest]struct{}{}}
	if err := c.setHorizon(alone); err != nil {
		return Report{}, explain(err)
	}
	err = c.run(ctx)
	return c.report, explain(err)
}

type collector struct {
	s       *Store
	o       CollectOptions
	horizon time.Time // blobs touched then or later stay
	marks   *marks
	seen    map[Digest]struct{} // marked roots
	lacking map[Digest]struct{} // missing or damaged directories below them, which may be put again
	report  Report
}

// setHorizon takes the time from the file system, since the blobs' times come from it.
func (c *collector) setHorizon(f *os.File) error {
	if _, err := f.WriteAt([]byte{'\n'}, 0); err != nil {
		return err
	}
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	c.horizon = fi.ModTime()
	switch {
	case c.o.Grace == 0:
		c.horizon = c.horizon.Add(-DefaultGrace)
	case c.o.Grace > 0:
		c.horizon = c.horizon.Add(-c.o.Grace)
	}
	oldest, err := c.s.sweepUploads()
	if err == nil && !oldest.IsZero() && oldest.Before(c.horizon) {
		c.horizon = oldest
	}
	return err
}

func (c *collector) run(ctx context.Context) error {
	leave, err := c.s.enter(ctx, true)
	if err != nil {
		return err
	}
	fresh, err := c.fresh(ctx)
	leave()
	if err == nil {
		err = c.mark(ctx, fresh)
	}
	if err != nil {
		return err
	}
	step("marked")
	shards, err := os.ReadDir(c.s.path(blobsDir))
	if err != nil {
		return err
	}
	for _, shard := range shards {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !shard.IsDir() {
			continue // not of this store
		}
		if err := c.shard(ctx, shard.Name()); err != nil {
			return err
		}
		if c.o.Progress != nil {
			c.o.Progress(c.report)
		}
	}
	if !c.o.DryRun {
		c.damaged()
	}
	return nil
}

// root is a root from which to mark.
type root struct {
	digest Digest
	pin    string // "" for an open tree
}

// fresh returns the roots that are not marked yet, and missing directories below others
// that were put again. The lock on the store must be held exclusively.
func (c *collector) fresh(ctx context.Context) ([]root, error) {
	pins, err := c.s.Pins(ctx)
	if err != nil {
		return nil, err
	}
	open, err := c.s.leases(c.o.DryRun)
	if err != nil {
		return nil, err
	}
	var fresh []root
	for _, p := range pins {
		if _, ok := c.seen[p.Root]; !ok {
			fresh = append(fresh, root{p.Root, p.Name})
		}
	}
	for _, d := range open {
		if _, ok := c.seen[d]; !ok {
			fresh = append(fresh, root{d, ""})
		}
	}
	for d := range c.lacking {
		there, err := c.s.has(d)
		if err != nil {
			return nil, err
		}
		if there {
			fresh = append(fresh, root{d, ""})
		}
	}
	return fresh, nil
}

// mark marks roots. A missing directory below a pin is an error. Below an open root it
// is ignored: its reader gets the error when it looks there.
func (c *collector) mark(ctx context.Context, roots []root) error {
	for _, r := range roots {
		delete(c.lacking, r.digest)
		bad := func(d Digest, err error) error {
			switch vfs.CodeOf(err) {
			case vfs.NotFound, vfs.Corrupt, vfs.TooLarge:
				if r.pin == "" {
					if vfs.CodeOf(err) == vfs.NotFound || errors.Is(err, errDamaged) {
						c.lacking[d] = struct{}{}
					}
					return nil
				}
				return vfs.At(r.pin, vfs.Errorf(vfs.Corrupt, "the tree pinned under this name lacks a directory; put it again, or unpin it, and then collect"))
			}
			return err
		}
		if err := c.marks.mark(ctx, c.s, r.digest, nil, bad); err != nil {
			return err
		}
		c.seen[r.digest] = struct{}{}
	}
	return nil
}

// candidate is a blob that may have to be removed.
type candidate struct {
	path string
	hash [sha256.Size]byte
}

// shard looks at the blobs whose hash begins with the two digits of name.
func (c *collector) shard(ctx context.Context, name string) error {
	const atOnce = 128 // others wait meanwhile
	var candidates []candidate
	entries, err := os.ReadDir(c.s.path(blobsDir, name))
	if err != nil {
		return err
	}
	for _, e := range entries {
		var hash [sha256.Size]byte
		if !parseHash(&hash, name+e.Name()) {
			continue // not of this store
		}
		fi, err := e.Info()
		if err != nil {
			continue // just removed
		}
		c.report.Blobs++
		c.report.Bytes += fi.Size()
		if c.old(fi) && !c.marks.has(hash) {
			candidates = append(candidates, candidate{c.s.path(blobsDir, name, e.Name()), hash})
		}
	}
	for tries := 1; len(candidates) > 0; tries++ {
		n := min(atOnce, len(candidates))
		done, err := c.remove(ctx, candidates[:n], tries > patience)
		if err != nil {
			return err
		}
		if done {
			candidates, tries = candidates[n:], 0
		}
	}
	return nil
}

// patience is how often others may interrupt a removal before it makes them wait.
const patience = 3

func (c *collector) old(fi fs.FileInfo) bool { return fi.ModTime().Before(c.horizon) }

// remove removes those of batch that are still unused. If somebody pinned or opened a
// root meanwhile, it marks that root instead and reports false. If held is set it marks
// with everybody waiting, and goes on.
func (c *collector) remove(ctx context.Context, batch []candidate, held bool) (bool, error) {
	step("removing")
	leave, err := c.s.enter(ctx, true)
	if err != nil {
		return false, err
	}
	defer func() { leave() }()
	fresh, err := c.fresh(ctx)
	if err != nil {
		return false, err
	}
	if len(fresh) > 0 {
		if !held {
			leave()
			leave = func() {}
		}
		if err := c.mark(ctx, fresh); err != nil || !held {
			return false, err
		}
	}
	for _, b := range batch {
		fi, err := os.Lstat(b.path)
		if err != nil || !c.old(fi) || c.marks.has(b.hash) {
			continue
		}
		if !c.o.DryRun {
			if err := os.Remove(b.path); err != nil {
				if errors.Is(err, fs.ErrNotExist) || hostfile.OpenFilesStay { // somebody is reading it
					continue
				}
				return false, err
			}
			step("removed")
		}
		c.report.Removed++
		c.report.Freed += fi.Size()
	}
	return true, nil
}

// damaged removes damaged files that were moved away before the horizon.
func (c *collector) damaged() {
	entries, err := os.ReadDir(c.s.path(damagedDir))
	if err != nil {
		return
	}
	for _, e := range entries {
		if fi, err := e.Info(); err == nil && c.old(fi) {
			os.Remove(filepath.Join(c.s.path(damagedDir), e.Name()))
		}
	}
}
