// Package cas keeps blobs by the sha256 of their bytes, and trees of them that are
// immutable: a directory is a blob too, a Directory message of the Remote Execution
// API (build.bazel.remote.execution.v2) in its canonical form. So the digest of a
// root that [Put] answers is the one that every remote-execution CAS would give the
// same tree.
//
// [Blobs] is what a store of blobs is. [Store] is one in a directory of the host;
// package backend/cas/reapi reaches one over gRPC. [Open] makes a [vfs.Dir] of a root
// in either.
//
// A tree keeps names, contents, the targets of links and who may be executed. It
// keeps no times: ModifiedMs of everything in it is 0.
package cas

import (
	"context"
	"io"

	"capd/vfs"
)

// Blobs is a store of blobs. Its methods may be called from several goroutines at
// once. Errors name neither a path nor a machine of the host.
type Blobs interface {
	// Open holds a blob open, after all of it was compared with its digest. It
	// answers notFound, corrupt when what is stored is something else, and busy
	// while too many are open. The context is for every read of the content too.
	Open(ctx context.Context, d Digest) (vfs.Content, error)

	// Missing returns those of ds that are not stored, in their order. It reads
	// none of them.
	Missing(ctx context.Context, ds []Digest) ([]Digest, error)

	// Begin begins an upload.
	Begin(ctx context.Context) (Upload, error)
}

// Upload is blobs on their way into a store. Until it is closed the store keeps all
// that was added to it, be it new or stored before.
type Upload interface {
	// Add stores all of r, unless the store has it, and returns its digest. It reads
	// r in order, from its start, and may do so twice. It answers conflict when r
	// comes to less than its size, or to something else the second time. Add may be
	// called from several goroutines at once; after one has failed Commit fails.
	Add(ctx context.Context, r *io.SectionReader) (Digest, error)

	// Stored returns how many bytes were new to the store so far.
	Stored() int64

	// Commit returns when everything that was added is in the store and would
	// survive a power cut, as far as the store can promise it. Nothing can be added
	// afterwards.
	Commit(ctx context.Context) error

	// Close ends the upload, and discards what was not committed.
	Close() error
}

// Pinner is a store that keeps what it is told to.
type Pinner interface {
	// Pin keeps the tree below root, under a name, in place of what had the name.
	Pin(ctx context.Context, name string, root Digest) error
}

// leaser is a store in which what is open is kept from a collector.
type leaser interface {
	// lease keeps the tree below root until release is called.
	lease(ctx context.Context, root Digest) (release func(), err error)
}
