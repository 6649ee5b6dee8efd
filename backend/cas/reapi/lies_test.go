package reapi_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"

	"capd/backend/cas"
	"capd/backend/cas/reapi"
	"capd/vfs"
)

// A server that lies is found out, whatever it says.
func TestLies(t *testing.T) {
	small, large, huge := noise(1000, 1), noise(3<<20, 2), noise(6<<20, 3)
	first := func(change func(r *repb.BatchReadBlobsResponse_Response)) func(*server) {
		return func(v *server) { v.batch = func(a *repb.BatchReadBlobsResponse) { change(a.Responses[0]) } }
	}
	pieces := func(f func(off int64, some []byte) ([]byte, error)) func(*server) {
		return func(v *server) { v.piece = func(_ int, off int64, some []byte) ([]byte, error) { return f(off, some) } }
	}
	for _, c := range []struct {
		what string
		of   [][]byte
		lie  func(*server)
		code vfs.Code
	}{
		{"another byte", [][]byte{small}, first(func(r *repb.BatchReadBlobsResponse_Response) { r.Data = noise(1000, 9) }), vfs.Corrupt},
		{"too little", [][]byte{small}, first(func(r *repb.BatchReadBlobsResponse_Response) { r.Data = r.Data[1:] }), vfs.Corrupt},
		{"too much", [][]byte{small}, first(func(r *repb.BatchReadBlobsResponse_Response) { r.Data = append(r.Data, 0) }), vfs.Corrupt},
		{"nothing", [][]byte{small}, first(func(r *repb.BatchReadBlobsResponse_Response) { r.Data = nil }), vfs.Corrupt},
		{"another digest", [][]byte{small}, first(func(r *repb.BatchReadBlobsResponse_Response) { r.Digest.SizeBytes++ }), vfs.Corrupt},
		{"what is compressed", [][]byte{small}, first(func(r *repb.BatchReadBlobsResponse_Response) { r.Compressor = repb.Compressor_ZSTD }), vfs.Corrupt},
		{"no answer", [][]byte{small}, func(v *server) { v.batch = func(a *repb.BatchReadBlobsResponse) { a.Responses = nil } }, vfs.Corrupt},
		{"two answers", [][]byte{small}, func(v *server) {
			v.batch = func(a *repb.BatchReadBlobsResponse) { a.Responses = append(a.Responses, a.Responses[0]) }
		}, vfs.Corrupt},
		{"a huge batch", [][]byte{small}, first(func(r *repb.BatchReadBlobsResponse_Response) { r.Data = make([]byte, 8<<20) }), vfs.Limit},

		{"another byte", [][]byte{large, huge}, pieces(func(off int64, some []byte) ([]byte, error) {
			if len(some) == 0 {
				return nil, io.EOF
			}
			if off == 0 {
				some = bytes.Clone(some)
				some[7]++
			}
			return some, nil
		}), vfs.Corrupt},
		{"the end too soon", [][]byte{large, huge}, pieces(func(off int64, some []byte) ([]byte, error) {
			if off > 1<<20 {
				return nil, io.EOF
			}
			return some, nil
		}), vfs.Corrupt},
		{"no end", [][]byte{large, huge}, pieces(func(int64, []byte) ([]byte, error) { return make([]byte, 100_000), nil }), vfs.Corrupt},
		{"a huge piece", [][]byte{large, huge}, pieces(func(int64, []byte) ([]byte, error) { return make([]byte, 8<<20), nil }), vfs.Limit},
		{"no progress", [][]byte{large, huge}, pieces(func(int64, []byte) ([]byte, error) {
			time.Sleep(time.Millisecond)
			return nil, nil
		}), vfs.Busy},
	} {
		o := reapi.Options{}
		if c.what == "no progress" {
			o.Timeout = 300 * time.Millisecond
		}
		v, s := serve(t, c.lie, o)
		for _, data := range c.of {
			v.put(data)
			for range 2 { // it is not kept
				_, err := read(t, s, cas.DigestOf(data))
				is(t, c.what, err, c.code)
			}
		}
	}
}

func TestLiesOfUploads(t *testing.T) {
	small, large := noise(1000, 1), noise(3<<20, 2)
	_, s := serve(t, func(v *server) {
		v.wrote = func(a *repb.BatchUpdateBlobsResponse) { a.Responses = nil }
	}, reapi.Options{})
	is(t, "a batch that is not answered for", add(t, s, small), vfs.Corrupt)
	for _, committed := range []int64{0, -1, 1, 3<<20 - 1, 3<<20 + 1} {
		_, s = serve(t, func(v *server) { v.done = func(int64) int64 { return committed } }, reapi.Options{})
		is(t, "a write of which too much or little was committed", add(t, s, large), vfs.Corrupt)
	}
	_, s = serve(t, func(v *server) {
		v.found = func(a *repb.FindMissingBlobsResponse) {
			a.MissingBlobDigests = append(a.MissingBlobDigests, digestOf([]byte("never asked for")), nil)
		}
	}, reapi.Options{})
	if err := add(t, s, small, large); err != nil {
		t.Errorf("a server that misses what it was not asked for: %v", err)
	}
}

// changing is a reader whose bytes differ each time.
type changing struct{ reads int }

func (c *changing) ReadAt(p []byte, off int64) (int, error) {
	c.reads++
	for i := range p {
		p[i] = byte(c.reads)
	}
	return len(p), nil
}

func TestAFileThatChanges(t *testing.T) {
	v, s := serve(t, nil, reapi.Options{})
	u, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	_, err = u.Add(t.Context(), io.NewSectionReader(&changing{}, 0, 3<<20))
	is(t, "a file that changes", err, vfs.Conflict)
	is(t, "its commit", u.Commit(t.Context()), vfs.Conflict)
	for _, size := range []int64{10, 3 << 20} {
		u, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = u.Add(t.Context(), io.NewSectionReader(strings.NewReader("short"), 0, size))
		is(t, "a file that becomes shorter", err, vfs.Conflict)
		u.Close()
		_, err = u.Add(t.Context(), io.NewSectionReader(strings.NewReader("short"), 0, 5))
		if err == nil {
			err = u.Commit(t.Context())
		}
		if err == nil {
			t.Error("an upload goes on after it was closed")
		}
	}
	if len(v.blobs) > 0 {
		t.Errorf("%d blobs were stored", len(v.blobs))
	}
}
