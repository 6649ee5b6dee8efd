package reapi_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"capd/backend/cas"
	"capd/backend/cas/reapi"
	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

var is = check.Is

func source(t testing.TB, tree vfstest.Tree) vfs.Dir {
	t.Helper()
	m := memory.New(memory.Limits{Bytes: 1 << 30})
	vfstest.Fill(t, m.Root(), tree,
		vfstest.Symlink(m.Root()),
		vfstest.SetExec(m.Root()))
	return m.Root()
}

func TestSuite(t *testing.T) {
	for _, instance := range []string{"", "main/builds"} {
		t.Run("instance "+instance, func(t *testing.T) {
			vfstest.Run(t, vfstest.Store{Immutable: true, New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
				_, s := serve(t, nil, reapi.Options{InstanceName: instance})
				root, err := cas.Put(t.Context(), s, source(t, tree), cas.PutOptions{})
				if err != nil {
					t.Fatal(err)
				}
				d, err := cas.Open(t.Context(), s, root)
				if err != nil {
					t.Fatal(err)
				}
				return d
			}})
		})
	}
}

// noise returns n bytes, different each time.
func noise(n int, seed byte) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

func add(t testing.TB, s cas.Blobs, blobs ...[]byte) error {
	t.Helper()
	u, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for _, data := range blobs {
		d, err := u.Add(t.Context(), io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data))))
		if err != nil {
			return err
		}
		if d != cas.DigestOf(data) {
			t.Errorf("added as %v", d)
		}
	}
	return u.Commit(t.Context())
}

func read(t testing.TB, s cas.Blobs, d cas.Digest) ([]byte, error) {
	t.Helper()
	c, err := s.Open(t.Context(), d)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
}

func TestBlobsOfEverySize(t *testing.T) {
	const mib = 1 << 20
	for _, maxBatch := range []int64{mib, 1000, 0} {
		v, s := serve(t, func(v *server) { v.maxBatch = maxBatch }, reapi.Options{InstanceName: "i"})
		if maxBatch == 0 { // no limit of the server's; its messages have one
			v.maxBatch = 4 * mib
		}
		var blobs [][]byte
		for i, size := range []int{0, 1, 871, 872, 873, 999, 1000, 1001, 5000, mib - 1, mib, mib + 1, 3 * mib, 4 * mib, 4*mib + 1, 9 * mib} {
			blobs = append(blobs, noise(size, byte(i)))
		}
		if err := add(t, s, append(blobs, blobs...)...); err != nil {
			t.Fatal(err)
		}
		for range 2 { // fetched, and kept
			for _, data := range blobs {
				got, err := read(t, s, cas.DigestOf(data))
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("%d bytes were read as %d, %v", len(data), len(got), err)
				}
			}
		}
		if n := v.count("Read") + v.count("BatchReadBlobs"); n != len(blobs)-1 {
			t.Errorf("%d blobs were fetched by %d calls", len(blobs), n)
		}
		writes, updates := v.count("Write"), v.count("BatchUpdateBlobs")
		if err := add(t, s, blobs...); err != nil {
			t.Fatal(err)
		}
		if v.count("Write") != writes || v.count("BatchUpdateBlobs") != updates {
			t.Error("what the server has was sent again")
		}
		absent := cas.DigestOf([]byte("absent"))
		missing, err := s.Missing(t.Context(), []cas.Digest{cas.DigestOf(blobs[1]), absent, cas.Empty, {Hash: absent.Hash, Size: 7}})
		if err != nil || len(missing) != 2 || missing[0] != absent {
			t.Errorf("Missing = %v, %v", missing, err)
		}
		for _, size := range []int64{6, 2 * mib, 5 * mib} {
			_, err = read(t, s, cas.Digest{Hash: absent.Hash, Size: size})
			is(t, "reading what is not there", err, vfs.NotFound)
		}
	}
}

// The same tree has the same root in a local store, which can be filled from a remote
// one.
func TestFromOneStoreToAnother(t *testing.T) {
	tree := vfstest.Tree{"d/f": {Data: "f"}, "big": {Data: string(noise(5<<20, 1))}, "x": {Data: "x", Exec: true}, "l": {Link: "../up"}}
	_, remote := serve(t, nil, reapi.Options{})
	local, err := cas.OpenAmbient(filepath.Join(t.TempDir(), "store"), cas.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want, err := cas.Put(t.Context(), local, source(t, tree), cas.PutOptions{Pin: "p"})
	if err != nil {
		t.Fatal(err)
	}
	var last cas.Progress
	d, err := cas.Open(t.Context(), local, want)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, err := cas.Put(t.Context(), remote, d, cas.PutOptions{Progress: func(p cas.Progress) { last = p }})
	if err != nil || got != want || last.Files != 3 || last.NewBytes < 5<<20 {
		t.Fatalf("%v, %v, %+v, want %v", got, err, last, want)
	}
	_, err = cas.Put(t.Context(), remote, d, cas.PutOptions{Pin: "p"})
	is(t, "a pin of a store that has none", err, vfs.Unsupported)
	other, err := cas.OpenAmbient(filepath.Join(t.TempDir(), "other"), cas.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := cas.Open(t.Context(), remote, want)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if back, err := cas.Put(t.Context(), other, r, cas.PutOptions{}); err != nil || back != want {
		t.Errorf("back again: %v, %v", back, err)
	}
}

func TestReadGoesOn(t *testing.T) {
	data := noise(5<<20, 1)
	v, s := serve(t, nil, reapi.Options{})
	v.put(data)
	sent := map[int]int64{} // by call
	v.piece = func(nth int, off int64, some []byte) ([]byte, error) {
		if sent[nth] == 0 && nth > 1 && off == 0 {
			t.Error("a read began again")
		}
		if len(some) == 0 {
			return nil, io.EOF
		}
		if sent[nth] >= 700_000 { // more often than a call without progress is made again
			return nil, grpcstatus.Error(codes.Unavailable, "secret.host.example went away")
		}
		sent[nth] += int64(len(some))
		return some, nil
	}
	got, err := read(t, s, cas.DigestOf(data))
	if err != nil || !bytes.Equal(got, data) || len(sent) < 6 {
		t.Errorf("%d bytes in %d calls, %v", len(got), len(sent), err)
	}
}

func TestWriteGoesOn(t *testing.T) {
	for name, lost := range map[string]bool{"the server knows how far it came": false, "the server forgot": true} {
		t.Run(name, func(t *testing.T) {
			data := noise(5<<20, 2)
			v, s := serve(t, nil, reapi.Options{InstanceName: "a/b"})
			v.taken = func(nth int, off int64) error {
				if nth <= 3 && off > int64(nth)<<20 {
					if lost {
						v.mu.Lock()
						clear(v.partial)
						v.mu.Unlock()
					}
					return grpcstatus.Error(codes.Unavailable, "gone")
				}
				return nil
			}
			if err := add(t, s, data); err != nil {
				t.Fatal(err)
			}
			if _, ok := v.get(digestOf(data)); !ok || v.count("Write") != 4 || v.count("QueryWriteStatus") != 3 {
				t.Errorf("stored: %v, after %d writes and %d questions", ok, v.count("Write"), v.count("QueryWriteStatus"))
			}
			for _, n := range v.names {
				if n != v.names[0] {
					t.Errorf("a write went on as %s, not %s", n, v.names[0])
				}
			}
		})
	}
}

func TestUnavailable(t *testing.T) {
	small, large := noise(10, 1), noise(2<<20, 2)
	for _, method := range []string{"FindMissingBlobs", "BatchUpdateBlobs", "BatchReadBlobs", "Read", "Write"} {
		v, s := serve(t, nil, reapi.Options{})
		v.fail = func(m string, nth int) error {
			if m == method && nth <= 2 {
				return grpcstatus.Error(codes.Unavailable, "secret.host.example")
			}
			return nil
		}
		if err := add(t, s, small, large); err != nil {
			t.Errorf("%s fails twice: %v", method, err)
		}
		for _, data := range [][]byte{small, large} {
			if got, err := read(t, s, cas.DigestOf(data)); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s fails twice: %v", method, err)
			}
		}
		v, s = serve(t, nil, reapi.Options{})
		v.fail = func(m string, nth int) error {
			if m == method {
				return grpcstatus.Error(codes.Unavailable, "secret.host.example")
			}
			return nil
		}
		err := add(t, s, small, large)
		for _, data := range [][]byte{small, large} {
			if err == nil {
				_, err = read(t, s, cas.DigestOf(data))
			}
		}
		is(t, method+" fails always", err, vfs.Busy)
	}
}

func TestCodes(t *testing.T) {
	data := noise(10, 1)
	for from, want := range map[codes.Code]vfs.Code{
		codes.NotFound: vfs.NotFound, codes.InvalidArgument: vfs.Invalid, codes.ResourceExhausted: vfs.Limit, codes.Unimplemented: vfs.Unsupported,
		codes.DeadlineExceeded: vfs.Busy, codes.Canceled: vfs.Busy, codes.Aborted: vfs.Busy, codes.PermissionDenied: vfs.Denied,
		codes.Unauthenticated: vfs.Denied, codes.DataLoss: vfs.Corrupt, codes.Internal: vfs.Internal, codes.Unknown: vfs.Internal,
	} {
		failing := func(method string, _ int) error {
			if method != "GetCapabilities" {
				return grpcstatus.Error(from, "secret.host.example")
			}
			return nil
		}
		v, s := serve(t, func(v *server) { v.fail = failing }, reapi.Options{})
		_, err := read(t, s, cas.DigestOf(data))
		is(t, from.String(), err, want)
		_, err = read(t, s, cas.DigestOf(noise(2<<20, 1)))
		is(t, from.String()+" of a stream", err, want)
		is(t, from.String()+" of an upload", add(t, s, data), want)
		v.fail = nil
		v.wrote = func(answer *repb.BatchUpdateBlobsResponse) {
			answer.Responses[0].Status = &status.Status{Code: int32(from), Message: "secret.host.example"}
		}
		is(t, from.String()+" of one blob", add(t, s, data), want)
	}
}

func TestABlobOfABatchIsSentAgain(t *testing.T) {
	v, s := serve(t, nil, reapi.Options{})
	n := 0
	v.wrote = func(answer *repb.BatchUpdateBlobsResponse) {
		if n++; n == 1 {
			answer.Responses[1].Status = &status.Status{Code: int32(codes.Unavailable)}
		} else if len(answer.Responses) != 1 {
			t.Errorf("%d blobs were sent again", len(answer.Responses))
		}
	}
	if err := add(t, s, noise(10, 1), noise(10, 2), noise(10, 3)); err != nil || n != 2 || len(v.blobs) != 3 {
		t.Errorf("%d blobs after %d batches, %v", len(v.blobs), n, err)
	}
}

func TestWhatAServerCannot(t *testing.T) {
	v := &server{t: t, maxBatch: 1 << 20, functions: []repb.DigestFunction_Value{repb.DigestFunction_BLAKE3}, calls: map[string]int{}}
	_, err := reapi.New(t.Context(), v.connect(t), reapi.Options{})
	is(t, "a server without SHA256", err, vfs.Unsupported)
	for _, name := range []string{"/", "a//b", "a/", "blobs", "a/uploads/b"} {
		_, err := reapi.New(t.Context(), v.connect(t), reapi.Options{InstanceName: name})
		is(t, "an instance called "+name, err, vfs.Invalid)
	}
	_, s := serve(t, func(v *server) { v.maxBlob = 100 }, reapi.Options{})
	is(t, "a blob above the server's limit", add(t, s, noise(101, 1)), vfs.TooLarge)
	if err := add(t, s, noise(100, 1)); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := reapi.OpenAmbient(ctx, "unix:"+filepath.Join(t.TempDir(), "nobody"), reapi.Options{}); err == nil {
		t.Error("a server that is not there was reached")
	}
}

// token is a credential of a client.
type token string

func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": string(t)}, nil
}

func (t token) RequireTransportSecurity() bool { return true }

func TestTLS(t *testing.T) {
	known := httptest.NewTLSServer(nil) // which has a certificate for this host
	defer known.Close()
	roots := x509.NewCertPool()
	roots.AddCert(known.Certificate())
	_, s := serve(t, func(v *server) {
		v.tls, v.token = &known.TLS.Certificates[0], "the guest's"
	}, reapi.Options{TLS: &tls.Config{RootCAs: roots}, Credentials: token("the guest's")})
	if err := add(t, s, noise(10, 1)); err != nil {
		t.Error(err)
	}
	v := &server{t: t, maxBatch: 1 << 20, tls: &known.TLS.Certificates[0], token: "the guest's", calls: map[string]int{}}
	at := v.listen(t)
	_, err := reapi.OpenAmbient(t.Context(), at, reapi.Options{TLS: &tls.Config{RootCAs: roots}, Credentials: token("another's")})
	is(t, "another's token", err, vfs.Denied)
	_, err = reapi.OpenAmbient(t.Context(), at, reapi.Options{TLS: &tls.Config{}})
	is(t, "a certificate that nobody knows", err, vfs.Busy)
	_, err = reapi.OpenAmbient(t.Context(), at, reapi.Options{})
	is(t, "no TLS where there has to be", err, vfs.Busy)
}

// Of many readers of one large blob, one fetches it.
func TestOneFetches(t *testing.T) {
	data := noise(6<<20, 1)
	v, s := serve(t, nil, reapi.Options{})
	v.put(data)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got, err := read(t, s, cas.DigestOf(data)); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	all.Wait()
	if n := v.count("Read"); n != 1 {
		t.Errorf("it was fetched %d times", n)
	}
}

// A content lives longer than its cached copy, and ends with its context.
func TestContent(t *testing.T) {
	data := noise(6<<20, 1)
	v, s := serve(t, nil, reapi.Options{Spool: 13 << 20, Memory: 1 << 20})
	v.put(data)
	ctx, cancel := context.WithCancel(t.Context())
	c, err := s.Open(ctx, cas.DigestOf(data))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 { // which push it out
		other := noise(6<<20, byte(i+10))
		v.put(other)
		if _, err := read(t, s, cas.DigestOf(other)); err != nil {
			t.Fatal(err)
		}
	}
	p := make([]byte, 100)
	if n, err := c.ReadAt(p, 5<<20); n != 100 || err != nil || !bytes.Equal(p, data[5<<20:5<<20+100]) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := c.ReadAt(p, -1); vfs.CodeOf(err) != vfs.Invalid {
		t.Errorf("an offset below 0: %v", err)
	}
	cancel()
	if _, err := c.ReadAt(p, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context: %v", err)
	}
	for range 2 {
		c.Close()
	}
	if _, err := s.Open(ctx, cas.DigestOf(data)); !errors.Is(err, context.Canceled) {
		t.Errorf("Open: %v", err)
	}
	if _, err := s.Open(t.Context(), cas.Digest{Size: -1}); vfs.CodeOf(err) != vfs.Invalid {
		t.Errorf("Open without a size: %v", err)
	}
}
