package git

import (
	"bufio"
	"bytes"
	"io"
	"sync"

	"github.com/klauspost/compress/zlib"
)

// inflater reads a zlib stream inside a file. It is reused: its tables are larger than
// most objects.
type inflater struct {
	in  *bufio.Reader
	out io.ReadCloser // nil until first used
}

// readAhead is how many bytes of a file are read at once, enough for a whole small
// object.
const readAhead = 16 << 10

var inflaters = sync.Pool{New: func() any { return &inflater{in: bufio.NewReaderSize(nil, readAhead)} }}

// newInflater returns an inflater that reads from r. release puts it back.
func newInflater(r io.Reader) *inflater {
	f := inflaters.Get().(*inflater)
	f.in.Reset(r)
	return f
}

func (f *inflater) release() {
	f.in.Reset(bytes.NewReader(nil)) // drop the reference to the file
	inflaters.Put(f)
}

// start begins a stream at the position of f.in.
func (f *inflater) start() (err error) {
	if f.out == nil {
		f.out, err = zlib.NewReader(f.in)
		return err
	}
	return f.out.(zlib.Resetter).Reset(f.in, nil)
}

// maxRatio is above the highest compression ratio of deflate.
const maxRatio = 1032

// inflateAll reads the rest of the stream, which must be size bytes. It never allocates
// more than the stream can hold, whatever size claims.
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

// end checks that the stream ends here with a valid checksum.
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
