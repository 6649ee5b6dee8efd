// Package reapi stores blobs in a content-addressable storage that speaks the Remote
// Execution API, version 2, over gRPC. It uses the services Capabilities,
// ContentAddressableStorage and ByteStream, with SHA256 and without compression. See
// build/bazel/remote/execution/v2/remote_execution.proto in
// github.com/bazelbuild/remote-apis.
//
// The server is trusted only to keep the blobs. What it sends is compared with its
// digest before anybody sees a byte, and Store accepts no more bytes than it asked for.
// A server may drop a blob; pins are not supported.
package reapi

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"slices"
	"strings"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"capd/backend/cas"
	"capd/backend/internal/held"
	"capd/vfs"
)

// Options say how to reach a store. The zero value has no instance name and no TLS.
type Options struct {
	InstanceName string
	TLS          *tls.Config                   // nil means no TLS, for a server on the same machine
	Credentials  credentials.PerRPCCredentials // sent with every call; may be nil

	Timeout time.Duration // of a call, or of a stream without progress; 0 means a minute

	// Sizes of the caches, in bytes. Fetched blobs of up to 4 MiB are cached in memory,
	// larger ones in unnamed files.
	Memory int64 // 0 means 64 MiB
	Spool  int64 // 0 means 4 GiB
}

// maxInMemory is the size, in bytes, above which a blob is spooled to a file.
const maxInMemory = 4 << 20

// Store implements [cas.Blobs].
type Store struct {
	o        Options
	conn     io.Closer // nil if the caller closes it
	cas      repb.ContentAddressableStorageClient
	stream   bytestream.ByteStreamClient
	maxBatch int64 // total size, in bytes, of the blobs in one call
	maxBlob  int64 // size, in bytes, of the largest blob that the server accepts; 0 means any
	memory   *held.Cache[cas.Digest]
	spooled  *held.Cache[cas.Digest]
}

var _ cas.Blobs = (*Store)(nil)

// OpenAmbient connects to the server at target with the process's own authority over
// the network. target is a gRPC name (host:port, dns:///host:port, unix:path). Its
// errors are for the host and may name the server; those of the store's methods do not.
func OpenAmbient(ctx context.Context, target string, o Options) (*Store, error) {
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if o.TLS != nil {
		options[0] = grpc.WithTransportCredentials(credentials.NewTLS(o.TLS))
	}
	if o.Credentials != nil {
		options = append(options, grpc.WithPerRPCCredentials(o.Credentials))
	}
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		return nil, err
	}
	s, err := New(ctx, conn, o)
	if err != nil {
		conn.Close()
		return nil, err
	}
	s.conn = conn
	return s, nil
}

// New returns the store at the other end of conn. The caller closes conn. It asks for
// the server's capabilities. It answers unsupported when SHA256 is not among them, and
// busy when the server cannot be reached.
func New(ctx context.Context, conn grpc.ClientConnInterface, o Options) (*Store, error) {
	if err := checkInstance(o.InstanceName); err != nil {
		return nil, err
	}
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	o.Memory = cmp.Or(o.Memory, 64<<20)
	o.Spool = cmp.Or(o.Spool, 4<<30)
	s := &Store{
		o:        o,
		cas:      repb.NewContentAddressableStorageClient(conn),
		stream:   bytestream.NewByteStreamClient(conn),
		maxBatch: maxBatch,
		memory:   held.NewCache[cas.Digest](o.Memory),
		spooled:  held.NewCache[cas.Digest](o.Spool),
	}
	capabilities := repb.NewCapabilitiesClient(conn)
	answer, err := call(ctx, s, func(ctx context.Context) (*repb.ServerCapabilities, error) {
		return capabilities.GetCapabilities(ctx, &repb.GetCapabilitiesRequest{InstanceName: o.InstanceName})
	})
	if err != nil {
		return nil, err
	}
	cache := answer.GetCacheCapabilities()
	if !slices.Contains(cache.GetDigestFunctions(), repb.DigestFunction_SHA256) {
		return nil, vfs.Errorf(vfs.Unsupported, "the server does not store blobs by their SHA256")
	}
	if most := cache.GetMaxBatchTotalSizeBytes(); most > 0 {
		s.maxBatch = min(s.maxBatch, most)
	}
	s.maxBlob = max(cache.GetMaxCasBlobSizeBytes(), 0)
	return s, nil
}

// Close closes the connection, unless the caller owns it, and drops the caches.
func (s *Store) Close() error {
	s.memory.Clear()
	s.spooled.Clear()
	if s.conn != nil {
		return s.conn.Close()
	}
	return nil
}

// checkInstance refuses instance names that would turn the name of a blob into that of
// another resource.
func checkInstance(name string) error {
	if name == "" {
		return nil
	}
	reserved := []string{"", "blobs", "uploads", "actions", "actionResults", "operations", "capabilities", "compressed-blobs"}
	for segment := range strings.SplitSeq(name, "/") {
		if slices.Contains(reserved, segment) {
			return vfs.Errorf(vfs.Invalid, "an instance name has an empty segment, or one that the API reserves")
		}
	}
	return nil
}

// resource returns the resource name of path in the instance.
func (s *Store) resource(path string) string {
	if s.o.InstanceName == "" {
		return path
	}
	return s.o.InstanceName + "/" + path
}

// maxBatch is the total size, in bytes, of the blobs in one call, unless the server asks
// for less. gRPC takes 4 MiB, and the rest of the message needs some of that.
const maxBatch = 4<<20 - 64<<10

// maxMessage is the size, in bytes, of a message without its blobs.
const maxMessage = 1 << 20

// received bounds the messages of one call.
func (s *Store) received() grpc.CallOption {
	return grpc.MaxCallRecvMsgSize(int(s.maxBatch) + maxMessage)
}

// Missing implements [cas.Blobs].
func (s *Store) Missing(ctx context.Context, ds []cas.Digest) ([]cas.Digest, error) {
	var missing []cas.Digest
	for some := range slices.Chunk(ds, 4096) {
		request := &repb.FindMissingBlobsRequest{InstanceName: s.o.InstanceName, DigestFunction: repb.DigestFunction_SHA256}
		for _, d := range some {
			if d.Size < 0 {
				return nil, vfs.Errorf(vfs.Invalid, "a digest needs its size here")
			}
			if d != cas.Empty {
				request.BlobDigests = append(request.BlobDigests, message(d))
			}
		}
		if len(request.BlobDigests) == 0 {
			continue
		}
		answer, err := call(ctx, s, func(ctx context.Context) (*repb.FindMissingBlobsResponse, error) {
			return s.cas.FindMissingBlobs(ctx, request, s.received())
		})
		if err != nil {
			return nil, err
		}
		said := map[string]bool{}
		for _, d := range answer.GetMissingBlobDigests() {
			said[d.GetHash()] = true
		}
		for _, d := range some {
			if d != cas.Empty && said[d.String()] {
				missing = append(missing, d)
			}
		}
	}
	return missing, nil
}

// message returns d as a message of the API.
func message(d cas.Digest) *repb.Digest { return &repb.Digest{Hash: d.String(), SizeBytes: d.Size} }

func is(m *repb.Digest, d cas.Digest) bool {
	return m.GetHash() == d.String() && m.GetSizeBytes() == d.Size
}
