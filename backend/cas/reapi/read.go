package reapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"syscall"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc/status"

	"capd/backend/cas"
	"capd/backend/internal/held"
	"capd/vfs"
)

// Open implements [cas.Blobs]. It fetches and verifies the whole blob, unless the blob
// is cached.
func (s *Store) Open(ctx context.Context, d cas.Digest) (vfs.Content, error) {
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case d.Size < 0:
		return nil, vfs.Errorf(vfs.Invalid, "a digest needs its size here")
	case d == cas.Empty:
		return vfs.NewContent(ctx, held.InMemory(nil), 0), nil
	}
	cache := s.memory
	if d.Size > maxInMemory {
		cache = s.spooled
	}
	b, err := cache.Open(ctx, d, func() (*held.Blob, int64, error) { return s.fetch(ctx, d) })
	if err != nil {
		return nil, err
	}
	return vfs.NewContent(ctx, b, d.Size), nil
}

// fetch reads a blob from the server, and returns what it weighs in its cache.
func (s *Store) fetch(ctx context.Context, d cas.Digest) (*held.Blob, int64, error) {
	if d.Size <= maxInMemory {
		data, err := s.readSmall(ctx, d)
		return held.InMemory(data), d.Size + 256, err
	}
	b, err := held.Spooled()
	if err != nil {
		return nil, 0, spoolFailed(err)
	}
	if err := s.read(ctx, d, b); err != nil {
		b.Close()
		return nil, 0, err
	}
	return b, d.Size, nil
}

func spoolFailed(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return vfs.Errorf(vfs.Limit, "the disk that holds large contents while they are read is full; ask the host for room")
	}
	return vfs.Hide(err)
}

func (s *Store) readSmall(ctx context.Context, d cas.Digest) ([]byte, error) {
	if d.Size > s.maxBatch {
		b := bytes.NewBuffer(make([]byte, 0, d.Size))
		err := s.read(ctx, d, b)
		return b.Bytes(), err
	}
	request := &repb.BatchReadBlobsRequest{
		InstanceName:   s.o.InstanceName,
		Digests:        []*repb.Digest{message(d)},
		DigestFunction: repb.DigestFunction_SHA256,
	}
	return call(ctx, s, func(ctx context.Context) ([]byte, error) {
		answer, err := s.cas.BatchReadBlobs(ctx, request, s.received())
		if err != nil {
			return nil, err
		}
		if len(answer.GetResponses()) != 1 || !is(answer.Responses[0].GetDigest(), d) {
			return nil, vfs.Errorf(vfs.Corrupt, "the store answered for another content than the requested one")
		}
		r := answer.Responses[0]
		if err := status.ErrorProto(r.GetStatus()); err != nil {
			return nil, err
		}
		if r.GetCompressor() != repb.Compressor_IDENTITY || cas.DigestOf(r.GetData()) != d {
			return nil, errOther
		}
		return r.GetData(), nil
	})
}

var errOther = vfs.Errorf(vfs.Corrupt, "the store sent content that does not match the digest; put it again")

// read streams a blob to w. When the server was unavailable it continues at the same
// offset. What was written is only valid if read returns no error.
func (s *Store) read(ctx context.Context, d cas.Digest, w io.Writer) error {
	r := &reading{s: s, d: d, w: w, hash: sha256.New()}
	for try := 1; ; try++ {
		before := r.off
		err := r.rest(ctx)
		if err == nil {
			break
		}
		if r.off > before {
			try = 1
		}
		if err := again(ctx, err, try); err != nil {
			return err
		}
	}
	if r.off != d.Size || string(r.hash.Sum(nil)) != string(d.Hash[:]) {
		return errOther
	}
	return nil
}

type reading struct {
	s    *Store
	d    cas.Digest
	w    io.Writer
	hash hash.Hash
	off  int64 // bytes written
}

// rest makes one call for the rest of the blob.
func (r *reading) rest(ctx context.Context) error {
	ctx, dog, cancel := r.s.watched(ctx)
	defer cancel()
	stream, err := r.s.stream.Read(ctx, &bytestream.ReadRequest{
		ResourceName: r.s.resource(fmt.Sprintf("blobs/%s/%d", r.d, r.d.Size)),
		ReadOffset:   r.off,
	}, r.s.received())
	if err != nil {
		return err
	}
	for {
		piece, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		data := piece.GetData()
		if int64(len(data)) > r.d.Size-r.off {
			return errOther
		}
		if len(data) == 0 {
			continue
		}
		dog.progress()
		if _, err := r.w.Write(data); err != nil {
			return spoolFailed(err)
		}
		r.hash.Write(data)
		r.off += int64(len(data))
	}
}
