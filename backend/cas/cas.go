// Package cas keeps blobs by the SHA-256 of their bytes, and immutable trees of them. A
// directory is a blob, too: a Directory message of the Remote Execution API
// (build.bazel.remote.execution.v2) in its canonical form. So the digest of a root that
// [Put] returns is the one that every remote-execution CAS has for the same tree.
//
// [Blobs] is a store of blobs. [Store] keeps them in a directory of the host; package
// backend/cas/reapi reaches a store over gRPC. [Open] returns a root in either as a
// [vfs.Dir].
//
// A tree keeps names, contents, the targets of links and executable bits. It keeps no
// times: every ModifiedMs in it is 0.
package cas

import (
	"context"
	"io"

	"capd/vfs"
)

// Blobs is a store of blobs. Its methods may be called from several goroutines at once.
// Errors name no path and no machine of the host.
type Blobs interface {
	// Open opens a blob, after comparing all of it with its digest. ctx is used for
	// every read of the content, too. It answers notFound, corrupt when the stored
	// bytes do not match, and busy while too many are open.
	Open(ctx context.Context, d Digest) (vfs.Content, error)

	// Missing returns those of ds that are not stored, in their order. It does not read
	// blobs.
	Missing(ctx context.Context, ds []Digest) ([]Digest, error)

	// Begin begins an upload.
	Begin(ctx context.Context) (Upload, error)
}

// Upload is an upload of blobs to a store. Until it is closed, the store keeps
// everything that was added to it, new or stored before.
type Upload interface {
	// Add stores all of r, unless the store has it, and returns its digest. It reads r
	// from start to end, and may do so twice. It answers conflict when r is shorter
	// than its size, or differs the second time. Add may be called from several
	// goroutines at once. After one Add has failed Commit fails.
	Add(ctx context.Context, r *io.SectionReader) (Digest, error)

	// Stored returns how many bytes so far were new to the store.
	Stored() int64

	// Commit returns when everything that was added is in the store and would survive a
	// power cut, as far as the store can promise it. Nothing can be added after it.
	Commit(ctx context.Context) error

	// Close ends the upload and discards what was not committed.
	Close() error
}

// Pinner is a store that keeps pinned trees.
type Pinner interface {
	// Pin keeps the tree below root under name. It replaces an earlier pin of that
	// name.
	Pin(ctx context.Context, name string, root Digest) error
}

// leaser is a store in which a collector spares open trees.
type leaser interface {
	// lease keeps the tree below root until release is called.
	lease(ctx context.Context, root Digest) (release func(), err error)
}
