package reapi

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"

	"google.golang.org/genproto/googleapis/bytestream"

	"capd/backend/cas"
	"capd/vfs"
)

// pieceSize is how many bytes of a blob are in one message.
const pieceSize = 256 << 10

// write streams r, whose digest is d, to the server. When the server was unavailable it
// continues where the server says.
func (s *Store) write(ctx context.Context, d cas.Digest, r *io.SectionReader) error {
	w := &writing{s: s, d: d, r: r, resource: s.resource(fmt.Sprintf("uploads/%s/blobs/%s/%d", newUUID(), d, d.Size))}
	off := int64(0)
	for try := 1; ; try++ {
		committed, err := w.from(ctx, off)
		if err == nil {
			if committed != d.Size {
				return vfs.Errorf(vfs.Corrupt, "the store took %d bytes of %d; try again", max(committed, 0), d.Size)
			}
			return nil
		}
		if err := again(ctx, err, try); err != nil {
			return err
		}
		there, done, err := w.status(ctx)
		if err != nil {
			return err
		}
		if done {
			return nil
		}
		if there > off {
			try = 1
		}
		off = there
	}
}

// newUUID returns a random UUID (RFC 9562).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

type writing struct {
	s        *Store
	d        cas.Digest
	r        *io.SectionReader
	resource string
}

// from makes one call, which sends r from off on. It returns how much the server has
// then.
func (w *writing) from(ctx context.Context, off int64) (committed int64, err error) {
	ctx, dog, cancel := w.s.watched(ctx)
	defer cancel()
	stream, err := w.s.stream.Write(ctx)
	if err != nil {
		return 0, err
	}
	var sum hash.Hash // nil if the server has a part, which it checks itself
	if off == 0 {
		sum = sha256.New()
	}
	piece := make([]byte, pieceSize)
	for name, finished := w.resource, false; !finished; name = "" {
		n, err := w.r.ReadAt(piece[:min(int64(len(piece)), w.d.Size-off)], off)
		if err != nil && err != io.EOF {
			return 0, err
		}
		finished = off+int64(n) == w.d.Size
		if sum != nil {
			sum.Write(piece[:n])
		}
		switch {
		case !finished && n == 0:
			return 0, errShorter
		case finished && sum != nil && string(sum.Sum(nil)) != string(w.d.Hash[:]):
			return 0, vfs.Errorf(vfs.Conflict, "it changed while it was read; put it again")
		}
		err = stream.Send(&bytestream.WriteRequest{ResourceName: name, WriteOffset: off, Data: piece[:n], FinishWrite: finished})
		if err == io.EOF {
			break // the server has answered: an error, or that it has the blob already
		}
		if err != nil {
			return 0, err
		}
		dog.progress()
		off += int64(n)
	}
	answer, err := stream.CloseAndRecv()
	return answer.GetCommittedSize(), err
}

// status returns how much of the blob the server has, and whether that is all.
func (w *writing) status(ctx context.Context) (committed int64, done bool, err error) {
	type result = *bytestream.QueryWriteStatusResponse
	answer, err := call(ctx, w.s, func(ctx context.Context) (result, error) {
		answer, err := w.s.stream.QueryWriteStatus(ctx, &bytestream.QueryWriteStatusRequest{ResourceName: w.resource})
		if unknown(err) {
			return nil, nil // start again
		}
		return answer, err
	})
	if err != nil {
		return 0, false, err
	}
	committed = answer.GetCommittedSize()
	if committed < 0 || committed > w.d.Size {
		return 0, false, vfs.Errorf(vfs.Corrupt, "the store says that it received more than was sent; try again")
	}
	return committed, answer.GetComplete() && committed == w.d.Size, nil
}
