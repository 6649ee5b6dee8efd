package reapi_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"capd/backend/cas/reapi"
)

// server is a CAS that follows the specification, except for the faults that a test asks
// for. It checks that its clients follow the specification too.
type server struct {
	repb.UnimplementedCapabilitiesServer
	repb.UnimplementedContentAddressableStorageServer
	bytestream.UnimplementedByteStreamServer

	t         testing.TB
	instance  string
	maxBatch  int64
	maxBlob   int64
	functions []repb.DigestFunction_Value
	tls       *tls.Certificate // nil: none
	token     string           // what a client has to say of itself

	mu      sync.Mutex
	blobs   map[string][]byte // by hash
	partial map[string][]byte // uploads by resource name
	calls   map[string]int    // by method
	names   []string          // every resource name of a write

	// Faults. Each may be nil.
	fail  func(method string, nth int) error                     // instead of the call
	piece func(read int, off int64, data []byte) ([]byte, error) // instead of what Read sends; read counts the calls
	batch func(*repb.BatchReadBlobsResponse)
	found func(*repb.FindMissingBlobsResponse)
	wrote func(*repb.BatchUpdateBlobsResponse)
	taken func(nth int, off int64) error // when a Write has come to off
	done  func(committed int64) int64
}

// serve starts a server and connects to it.
func serve(t testing.TB, change func(*server), o reapi.Options) (*server, *reapi.Store) {
	t.Helper()
	v := &server{
		t: t, instance: o.InstanceName, maxBatch: 1 << 20,
		functions: []repb.DigestFunction_Value{repb.DigestFunction_SHA1, repb.DigestFunction_SHA256},
		blobs:     map[string][]byte{}, partial: map[string][]byte{}, calls: map[string]int{},
	}
	if change != nil {
		change(v)
	}
	s, err := reapi.OpenAmbient(t.Context(), v.listen(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return v, s
}

// listen serves v and returns the address.
func (v *server) listen(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	options := []grpc.ServerOption{grpc.MaxRecvMsgSize(int(max(v.maxBatch+1<<20, 4<<20))), grpc.MaxSendMsgSize(1 << 30)}
	if v.tls != nil {
		options = append(options, grpc.Creds(credentials.NewServerTLSFromCert(v.tls)))
	}
	g := grpc.NewServer(options...)
	repb.RegisterCapabilitiesServer(g, v)
	repb.RegisterContentAddressableStorageServer(g, v)
	bytestream.RegisterByteStreamServer(g, v)
	go g.Serve(listener)
	t.Cleanup(g.Stop)
	return listener.Addr().String()
}

// connect serves v and connects to it.
func (v *server) connect(t testing.TB) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(v.listen(t), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func (v *server) called(method string) error {
	v.mu.Lock()
	v.calls[method]++
	nth := v.calls[method]
	v.mu.Unlock()
	if v.fail != nil {
		return v.fail(method, nth)
	}
	return nil
}

func (v *server) count(method string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.calls[method]
}

// put makes the server hold data.
func (v *server) put(data []byte) *repb.Digest {
	v.mu.Lock()
	defer v.mu.Unlock()
	d := digestOf(data)
	v.blobs[d.Hash] = data
	return d
}

func digestOf(data []byte) *repb.Digest {
	sum := sha256.Sum256(data)
	return &repb.Digest{Hash: hex.EncodeToString(sum[:]), SizeBytes: int64(len(data))}
}

func (v *server) get(d *repb.Digest) ([]byte, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	data, ok := v.blobs[d.Hash]
	return data, ok && int64(len(data)) == d.SizeBytes
}

// check refuses what no client may request.
func (v *server) check(instance string, function repb.DigestFunction_Value, ds ...*repb.Digest) error {
	if instance != v.instance {
		return v.refuse("the instance %q", instance)
	}
	if function != repb.DigestFunction_SHA256 {
		return v.refuse("the digest function %v", function)
	}
	for _, d := range ds {
		if b, err := hex.DecodeString(d.GetHash()); err != nil || len(b) != sha256.Size || strings.ToLower(d.Hash) != d.Hash || d.SizeBytes < 0 {
			return v.refuse("the digest %v", d)
		}
	}
	return nil
}

// refuse is for requests that a client which follows the specification never makes.
func (v *server) refuse(format string, args ...any) error {
	v.t.Errorf("the server was asked for "+format, args...)
	return grpcstatus.Errorf(codes.InvalidArgument, format, args...)
}

func (v *server) GetCapabilities(ctx context.Context, r *repb.GetCapabilitiesRequest) (*repb.ServerCapabilities, error) {
	if err := v.called("GetCapabilities"); err != nil {
		return nil, err
	}
	if r.InstanceName != v.instance {
		return nil, v.refuse("the instance %q", r.InstanceName)
	}
	if said := metadata.ValueFromIncomingContext(ctx, "authorization"); v.token != "" && !slices.Equal(said, []string{v.token}) {
		return nil, grpcstatus.Error(codes.Unauthenticated, "who are you?")
	}
	return &repb.ServerCapabilities{CacheCapabilities: &repb.CacheCapabilities{
		DigestFunctions: v.functions, MaxBatchTotalSizeBytes: v.maxBatch, MaxCasBlobSizeBytes: v.maxBlob,
	}}, nil
}

func (v *server) FindMissingBlobs(_ context.Context, r *repb.FindMissingBlobsRequest) (*repb.FindMissingBlobsResponse, error) {
	if err := v.called("FindMissingBlobs"); err != nil {
		return nil, err
	}
	if err := v.check(r.InstanceName, r.DigestFunction, r.BlobDigests...); err != nil {
		return nil, err
	}
	answer := &repb.FindMissingBlobsResponse{}
	for _, d := range r.BlobDigests {
		if _, ok := v.get(d); !ok {
			answer.MissingBlobDigests = append([]*repb.Digest{d}, answer.MissingBlobDigests...) // in any order
		}
	}
	if v.found != nil {
		v.found(answer)
	}
	return answer, nil
}

func (v *server) BatchUpdateBlobs(_ context.Context, r *repb.BatchUpdateBlobsRequest) (*repb.BatchUpdateBlobsResponse, error) {
	if err := v.called("BatchUpdateBlobs"); err != nil {
		return nil, err
	}
	answer, total := &repb.BatchUpdateBlobsResponse{}, int64(0)
	for _, b := range r.Requests {
		if err := v.check(r.InstanceName, r.DigestFunction, b.Digest); err != nil {
			return nil, err
		}
		total += int64(len(b.Data))
		said := &status.Status{}
		if d := digestOf(b.Data); d.Hash != b.Digest.Hash || d.SizeBytes != b.Digest.SizeBytes {
			said.Code = int32(codes.InvalidArgument)
			v.t.Errorf("the server was sent something else than %v", b.Digest)
		}
		answer.Responses = append(answer.Responses, &repb.BatchUpdateBlobsResponse_Response{Digest: b.Digest, Status: said})
	}
	if total > v.maxBatch {
		return nil, v.refuse("a batch of %d bytes", total)
	}
	if v.wrote != nil {
		v.wrote(answer)
	}
	for i, said := range answer.Responses {
		if i < len(r.Requests) && said.Status.GetCode() == 0 {
			v.put(r.Requests[i].Data)
		}
	}
	return answer, nil
}

func (v *server) BatchReadBlobs(_ context.Context, r *repb.BatchReadBlobsRequest) (*repb.BatchReadBlobsResponse, error) {
	if err := v.called("BatchReadBlobs"); err != nil {
		return nil, err
	}
	if err := v.check(r.InstanceName, r.DigestFunction, r.Digests...); err != nil {
		return nil, err
	}
	answer, total := &repb.BatchReadBlobsResponse{}, int64(0)
	for _, d := range r.Digests {
		data, ok := v.get(d)
		one := &repb.BatchReadBlobsResponse_Response{Digest: d, Data: data}
		if !ok {
			one.Data, one.Status = nil, &status.Status{Code: int32(codes.NotFound), Message: "not at secret.host.example"}
		}
		total += d.SizeBytes
		answer.Responses = append(answer.Responses, one)
	}
	if total > v.maxBatch {
		return nil, v.refuse("a batch of %d bytes", total)
	}
	if v.batch != nil {
		v.batch(answer)
	}
	return answer, nil
}

var (
	readName  = regexp.MustCompile(`^(?:(.+)/)?blobs/([0-9a-f]{64})/(0|[1-9][0-9]*)$`)
	writeName = regexp.MustCompile(`^(?:(.+)/)?uploads/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/blobs/([0-9a-f]{64})/(0|[1-9][0-9]*)$`)
)

// resource parses the name of a resource.
func (v *server) resource(form *regexp.Regexp, name string) (*repb.Digest, error) {
	m := form.FindStringSubmatch(name)
	if m == nil || m[1] != v.instance {
		return nil, v.refuse("the resource %q", name)
	}
	size, err := strconv.ParseInt(m[3], 10, 64)
	if err != nil {
		return nil, v.refuse("the resource %q", name)
	}
	return &repb.Digest{Hash: m[2], SizeBytes: size}, nil
}

func (v *server) Read(r *bytestream.ReadRequest, to bytestream.ByteStream_ReadServer) error {
	if err := v.called("Read"); err != nil {
		return err
	}
	d, err := v.resource(readName, r.ResourceName)
	if err != nil {
		return err
	}
	data, ok := v.get(d)
	if !ok {
		return grpcstatus.Error(codes.NotFound, "not at secret.host.example")
	}
	if r.ReadOffset < 0 || r.ReadOffset > d.SizeBytes || r.ReadLimit < 0 {
		return v.refuse("bytes from %d, at most %d", r.ReadOffset, r.ReadLimit)
	}
	nth := v.count("Read")
	for off := r.ReadOffset; off < d.SizeBytes || v.piece != nil; {
		some := data[min(off, d.SizeBytes):min(off+100_000, d.SizeBytes)]
		if v.piece != nil {
			if some, err = v.piece(nth, off, some); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
		if err := to.Send(&bytestream.ReadResponse{Data: some}); err != nil {
			return err
		}
		off += int64(len(some))
	}
	return nil
}

func (v *server) Write(from bytestream.ByteStream_WriteServer) error {
	if err := v.called("Write"); err != nil {
		return err
	}
	nth := v.count("Write")
	var name string
	var d *repb.Digest
	for finished := false; !finished; {
		r, err := from.Recv()
		if err != nil {
			if err == io.EOF {
				return v.refuse("a write that is not finished")
			}
			return err
		}
		switch {
		case name == "":
			if d, err = v.resource(writeName, r.ResourceName); err != nil {
				return err
			}
			name = r.ResourceName
			v.mu.Lock()
			v.names = append(v.names, name)
			v.mu.Unlock()
		case r.ResourceName != "" && r.ResourceName != name:
			return v.refuse("another resource in one stream")
		}
		v.mu.Lock()
		have := v.partial[name]
		v.mu.Unlock()
		if r.WriteOffset != int64(len(have)) {
			return v.refuse("a write at %d of %d", r.WriteOffset, len(have))
		}
		have = append(have, r.Data...)
		if v.taken != nil {
			if err := v.taken(nth, int64(len(have))); err != nil {
				return err
			}
		}
		v.mu.Lock()
		v.partial[name] = have
		v.mu.Unlock()
		finished = r.FinishWrite
	}
	v.mu.Lock()
	data := v.partial[name]
	v.mu.Unlock()
	if sum := digestOf(data); sum.Hash != d.Hash || sum.SizeBytes != d.SizeBytes {
		return v.refuse("%d bytes that are not %v", len(data), d)
	}
	v.put(data)
	committed := int64(len(data))
	if v.done != nil {
		committed = v.done(committed)
	}
	return from.SendAndClose(&bytestream.WriteResponse{CommittedSize: committed})
}

func (v *server) QueryWriteStatus(_ context.Context, r *bytestream.QueryWriteStatusRequest) (*bytestream.QueryWriteStatusResponse, error) {
	if err := v.called("QueryWriteStatus"); err != nil {
		return nil, err
	}
	d, err := v.resource(writeName, r.ResourceName)
	if err != nil {
		return nil, err
	}
	if _, ok := v.get(d); ok {
		return &bytestream.QueryWriteStatusResponse{CommittedSize: d.SizeBytes, Complete: true}, nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	have, ok := v.partial[r.ResourceName]
	if !ok {
		return nil, grpcstatus.Error(codes.NotFound, fmt.Sprint("no write of ", r.ResourceName))
	}
	return &bytestream.QueryWriteStatusResponse{CommittedSize: int64(len(have))}, nil
}
