package git

import (
	"bufio"
	"bytes"
	"io"
	"sync"

	"github.com/klauspost/compress/zlib"
)

// inflater reads a zlib stream that stands somewhere in a file. It is used again and
// again: its tables are larger than most objects.
type inflater struct {
	in  *bufio.Reader
	out io.ReadCloser // nil until it is first used
}

// readAhead is how much of a file is read at once, in bytes: a small object whole.
const readAhead = 16 << 10

var inflaters = sync.Pool{New: func() any { return &inflater{in: bufio.NewReaderSize(nil, readAhead)} }}

// newInflater returns an inflater that reads from r; release gives it back.
func newInflater(r io.Reader) *inflater {
	f := inflaters.Get().(*inflater)
	f.in.Reset(r)
	return f
}

func (f *inflater) release() {
	f.in.Reset(bytes.NewReader(nil)) // not to keep a file
	inflaters.Put(f)
}

// start begins a stream where f.in stands.
func (f *inflater) start() (err error) {
	if f.out == nil {
		f.out, err = zlib.NewReader(f.in)
		return err
	}
	return f.out.(zlib.Resetter).Reset(f.in, nil)
}

// maxRatio is more than the most that deflate makes of one byte.
const maxRatio = 1032

// inflateAll reads the rest of the stream, which must be size bytes. It allocates no
// more than what the stream may hold, whatever size is claimed.
func (f *inflater) inflateAll(size int64) ([]byte, error) {
	const step = 1 << 20
	b := make([]byte, 0, min(size, step))
	for int64(len(b)) < size {
		if len(b) == cap(b) {
			grown := make([]byte, len(b), min(size, 2*int64(cap(b))))
			copy(grown, b)
			b = grown
		}
		n, err := io.ReadFull(f.out, b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err != nil {
			return nil, err
		}
	}
	return b, f.end()
}

// end says whether the stream ends here, by its own checksum too.
func (f *inflater) end() error {
	var one [1]byte
	switch n, err := io.ReadFull(f.out, one[:]); {
	case n > 0:
		return errMalformed
	case err != io.EOF:
		return err
	}
	return nil
}
