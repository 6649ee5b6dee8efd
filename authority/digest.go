package authority

import (
	"context"
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
		d.mu.Unlock()
		if closed {
			p.end(vfs.Version{}, 0)
			continue
		}
		began := time.Now()
		p.end(h.versionAt(p.path))
		time.Sleep(min(time.Since(began), time.Second))
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
