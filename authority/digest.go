package authority

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"capd/record"
	"capd/vfs"
)

const (
	// maxDigest is the size, in bytes, of the largest file whose version is recorded when a span of it has ended.
	maxDigest = 16 << 20
	// maxDigests is how many spans wait for that. Others are recorded without.
	maxDigests = 256
)

// digests are the spans that have ended and wait for the version of their file, which one goroutine computes. It rests as
// long as it works, so that guests who write in place cannot keep a processor busy. The zero value has none.
type digests struct {
	mu     sync.Mutex
	queue  []*span
	busy   *span         // whose version is being computed; nil for none
	free   chan struct{} // closed when that has ended
	runs   bool
	closed bool
	done   sync.WaitGroup
}

// spanEnded records how p ended, with the version of the file if that is known soon.
func (h *Host) spanEnded(p *span) {
	d := &h.digests
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.err != nil || d.closed || len(d.queue) >= maxDigests {
		p.end(vfs.Version{}, 0)
		return
	}
	d.queue = append(d.queue, p)
	if !d.runs {
		d.runs = true
		d.done.Go(h.digest)
	}
}

// end records how p ended.
func (p *span) end(v vfs.Version, size int64) {
	o := record.Outcome{Bytes: p.grew, Span: &p.wrote, Err: p.err, Size: size}
	if !v.IsZero() {
		o.Version = v.String()
	}
	if p.kept != nil {
		p.kept.row.Now.Kind, p.kept.row.Now.Size, p.kept.row.Now.Version = vfs.FileKind, cmp.Or(size, p.kept.row.Now.Size), o.Version
		p.kept.row.Now.Until = p.last.UnixMilli()
		o.Also = p.kept.ended(p.intent.ID(), p.err, nil)
	}
	p.intent.End(o)
}

// digest ends the spans of the queue.
func (h *Host) digest() {
	d := &h.digests
	for {
		d.mu.Lock()
		if d.runs = len(d.queue) > 0; !d.runs {
			d.mu.Unlock()
			return
		}
		p, closed := d.queue[0], d.closed
		d.queue = d.queue[1:]
		d.busy, d.free = p, make(chan struct{})
		d.mu.Unlock()
		began := time.Now()
		if closed {
			p.end(vfs.Version{}, 0)
		} else {
			h.endWithVersion(p)
		}
		d.mu.Lock()
		d.busy = nil
		close(d.free)
		d.mu.Unlock()
		if closed {
			continue
		}
		time.Sleep(min(time.Since(began), time.Second))
	}
}

// endWithVersion records how p ended, with the version of its file.
func (h *Host) endWithVersion(p *span) {
	v, size := h.versionAt(p.path)
	if p.kept != nil {
		p.kept.row.Now = h.look(context.Background(), p.path)
	}
	p.end(v, size)
}

// endOf ends at once the spans of the root grant top, and those that wait for their version.
func (h *Host) endOf(top int64) {
	of := func(p *span) bool { return p.kept != nil && p.kept.row.Top() == top }
	h.spans.closeIf(of)
	d := &h.digests
	d.mu.Lock()
	var mine []*span
	d.queue = slices.DeleteFunc(d.queue, func(p *span) bool {
		if of(p) {
			mine = append(mine, p)
		}
		return of(p)
	})
	busy, free := d.busy != nil && of(d.busy), d.free
	d.mu.Unlock()
	for _, p := range mine {
		h.endWithVersion(p)
	}
	if busy {
		<-free
	}
}

// versionAt returns the version and the size of the file at path, or zero if there is none that can be read soon.
func (h *Host) versionAt(path string) (v vfs.Version, size int64) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	n, release, err := h.walk(ctx, "", path)
	if err != nil {
		return v, 0
	}
	defer release()
	f, ok := n.(vfs.File)
	if !ok {
		return v, 0
	}
	info, err := f.Stat(ctx)
	if err != nil || info.Size > maxDigest {
		return v, 0
	}
	if v, err = vfs.VersionOf(ctx, f); err != nil {
		return vfs.Version{}, 0
	}
	return v, info.Size
}

// closeDigests ends the spans that wait, at the end of a host.
func (h *Host) closeDigests() {
	h.digests.mu.Lock()
	h.digests.closed = true
	h.digests.mu.Unlock()
	h.digests.done.Wait()
}
