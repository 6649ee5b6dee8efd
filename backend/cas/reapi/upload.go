package reapi

import (
	"context"
	"crypto/sha256"
	"io"
	"sync"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"capd/backend/cas"
	"capd/vfs"
)

// upload collects small blobs into batches and streams large ones. If it is closed
// without a Commit, what it has sent stays on the server, which drops blobs that nobody
// asks for.
type upload struct {
	s *Store

	adding sync.RWMutex // shared by every Add in progress

	mu      sync.Mutex
	known   map[cas.Digest]struct{} // what was added
	pending []blob
	size    int64 // of the pending blobs, with their overhead
	stored  int64
	err     error // the first
	over    bool
}

type blob struct {
	digest cas.Digest
	data   []byte
}

// maxBatched is the size, in bytes, above which a blob is streamed instead of read into
// memory. perBlob is the overhead of one blob in a batch, and maxBlobs how many may be
// in one.
const (
	maxBatched = 1 << 20
	perBlob    = 128
	maxBlobs   = 4096
)

// Begin implements [cas.Blobs].
func (s *Store) Begin(ctx context.Context) (cas.Upload, error) {
	return &upload{s: s, known: map[cas.Digest]struct{}{}}, ctx.Err()
}

// Add implements [cas.Upload]. It reads a large r twice, since the server needs the
// digest first.
func (u *upload) Add(ctx context.Context, r *io.SectionReader) (d cas.Digest, err error) {
	u.adding.RLock()
	defer u.adding.RUnlock()
	defer func() {
		if err != nil {
			u.fail(err)
		}
	}()
	switch {
	case ctx.Err() != nil:
		return cas.Digest{}, ctx.Err()
	case r.Size() == 0:
		return cas.Empty, nil
	case u.s.maxBlob > 0 && r.Size() > u.s.maxBlob:
		return cas.Digest{}, vfs.Errorf(vfs.TooLarge, "the store takes contents of at most %d bytes", u.s.maxBlob)
	case r.Size() <= min(maxBatched, u.s.maxBatch-perBlob):
		return u.addSmall(ctx, r)
	}
	return u.addLarge(ctx, r)
}

func (u *upload) addSmall(ctx context.Context, r *io.SectionReader) (cas.Digest, error) {
	data := make([]byte, r.Size())
	if _, err := r.ReadAt(data, 0); err != nil && err != io.EOF {
		return cas.Digest{}, err
	} else if n, _ := r.ReadAt(data[len(data)-1:], r.Size()-1); n == 0 {
		return cas.Digest{}, errShorter
	}
	b := blob{cas.DigestOf(data), data}
	full, err := u.queue(b)
	if err == nil {
		err = u.send(ctx, full)
	}
	return b.digest, err
}

var errShorter = vfs.Errorf(vfs.Conflict, "it became shorter while it was read; put it again")

// queue puts b into the batch, unless it was added before. If b does not fit, it
// returns the previous batch.
func (u *upload) queue(b blob) (full []blob, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over {
		return nil, errOver
	}
	if _, ok := u.known[b.digest]; ok {
		return nil, nil
	}
	u.known[b.digest] = struct{}{}
	size := b.digest.Size + perBlob
	if u.size+size > u.s.maxBatch || len(u.pending) == maxBlobs {
		full, u.pending, u.size = u.pending, nil, 0
	}
	u.pending = append(u.pending, b)
	u.size += size
	return full, nil
}

var errOver = vfs.Errorf(vfs.Stale, "the upload is over; begin another")

// send sends those blobs of a batch that the server lacks.
func (u *upload) send(ctx context.Context, batch []blob) error {
	if len(batch) == 0 {
		return nil
	}
	byDigest := make(map[cas.Digest][]byte, len(batch))
	digests := make([]cas.Digest, len(batch))
	for i, b := range batch {
		byDigest[b.digest], digests[i] = b.data, b.digest
	}
	missing, err := u.s.Missing(ctx, digests)
	if err != nil {
		return err
	}
	for try := 1; len(missing) > 0; try++ {
		failed, why, err := u.update(ctx, missing, byDigest)
		if err != nil {
			return err
		}
		missing = failed
		if len(missing) > 0 {
			if err := again(ctx, why, try); err != nil {
				return err
			}
		}
	}
	return nil
}

// update makes one call and returns the digests for which the server was unavailable.
func (u *upload) update(ctx context.Context, digests []cas.Digest, data map[cas.Digest][]byte) (failed []cas.Digest, why, err error) {
	request := &repb.BatchUpdateBlobsRequest{InstanceName: u.s.o.InstanceName, DigestFunction: repb.DigestFunction_SHA256}
	for _, d := range digests {
		request.Requests = append(request.Requests, &repb.BatchUpdateBlobsRequest_Request{Digest: message(d), Data: data[d]})
	}
	answer, err := call(ctx, u.s, func(ctx context.Context) (*repb.BatchUpdateBlobsResponse, error) {
		return u.s.cas.BatchUpdateBlobs(ctx, request, u.s.received())
	})
	if err != nil {
		return nil, nil, err
	}
	said := map[string]error{}
	for _, r := range answer.GetResponses() {
		said[r.GetDigest().GetHash()] = status.ErrorProto(r.GetStatus())
	}
	for _, d := range digests {
		err, ok := said[d.String()]
		switch {
		case !ok:
			return nil, nil, vfs.Errorf(vfs.Corrupt, "the store does not say whether it stored the content; try again")
		case unavailable(err):
			failed, why = append(failed, d), err
		case err != nil:
			return nil, nil, explain(ctx, err)
		default:
			u.count(d)
		}
	}
	return failed, why, nil
}

func (u *upload) count(d cas.Digest) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stored += d.Size
}

// addLarge hashes r, and streams it if the server lacks it.
func (u *upload) addLarge(ctx context.Context, r *io.SectionReader) (cas.Digest, error) {
	h := sha256.New()
	d := cas.Digest{Size: r.Size()}
	if _, err := vfs.Copy(ctx, h, r); err == io.ErrUnexpectedEOF {
		return cas.Digest{}, errShorter
	} else if err != nil {
		return cas.Digest{}, err
	}
	h.Sum(d.Hash[:0])
	u.mu.Lock()
	_, known := u.known[d]
	over := u.over
	u.known[d] = struct{}{}
	u.mu.Unlock()
	if over {
		return cas.Digest{}, errOver
	}
	if known {
		return d, nil
	}
	missing, err := u.s.Missing(ctx, []cas.Digest{d})
	if err != nil || len(missing) == 0 {
		return d, err
	}
	if err := u.s.write(ctx, d, r); err != nil {
		return cas.Digest{}, err
	}
	u.count(d)
	return d, nil
}

func (u *upload) fail(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err == nil {
		u.err = err
	}
}

// Stored implements [cas.Upload].
func (u *upload) Stored() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.stored
}

// Commit implements [cas.Upload]. Nothing is declared to vfs.Commit, since no tree
// changes.
func (u *upload) Commit(ctx context.Context) error {
	u.adding.Lock()
	defer u.adding.Unlock()
	u.mu.Lock()
	rest, err := u.pending, u.err
	if u.over {
		err = errOver
	}
	u.pending, u.over = nil, true
	u.mu.Unlock()
	if err != nil {
		return err
	}
	return u.send(ctx, rest)
}

// Close implements [cas.Upload].
func (u *upload) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over, u.pending = true, nil
	return nil
}

// unknown reports whether the server does not know of a write.
func unknown(err error) bool {
	c := status.Code(err)
	return c == codes.NotFound || c == codes.Unimplemented
}
