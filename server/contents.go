package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net/url"
	"strings"

	"capd/backend/cas"
	"capd/backend/cas/reapi"
	"capd/operator"
	"capd/vfs"
	"capd/virtualfs"
)

// contents opens content-addressed stores: the host's own, those in directories, and
// remote-execution CASes.
type contents struct{ own string } // the host's own store, a directory that need not exist

// remoteCAS reports whether a cas: URL names a machine, not a directory.
func remoteCAS(u *virtualfs.URL) bool { return isRemote(u.Path) }

func isRemote(where string) bool {
	return strings.HasPrefix(where, "grpc://") || strings.HasPrefix(where, "grpcs://")
}

// OpenContents opens the content-addressed store in a directory, such as state.Dir.Contents, where snapshots are kept.
func OpenContents(dir string) (*cas.Store, error) { return cas.OpenAmbient(dir, cas.Options{}) }

// blobs opens a store: in a directory, the host's own for "", or grpc://HOST:PORT/INSTANCE.
func (c contents) blobs(ctx context.Context, where string) (b cas.Blobs, end func() error, err error) {
	if isRemote(where) {
		return dialCAS(ctx, where)
	}
	if where == "" {
		where = c.own
	}
	s, err := OpenContents(where)
	if err != nil {
		return nil, nil, err
	}
	return s, func() error { return nil }, nil
}

func dialCAS(ctx context.Context, where string) (cas.Blobs, func() error, error) {
	u, err := url.Parse(where)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, nil, vfs.Errorf(vfs.Invalid, "a remote CAS is grpc://HOST:PORT/INSTANCE, or grpcs:// for TLS; INSTANCE may be left out")
	}
	o := reapi.Options{InstanceName: strings.Trim(u.Path, "/")}
	if u.Scheme == "grpcs" {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	s, err := reapi.OpenAmbient(ctx, u.Host, o)
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

// open opens cas:DIR#DIGEST.
func (c contents) open(ctx context.Context, u *virtualfs.URL) (*virtualfs.Store, error) {
	root, err := rootOf(u)
	if err != nil {
		return nil, err
	}
	b, end, err := c.blobs(ctx, u.Path)
	if err != nil {
		return nil, err
	}
	tree, err := openRoot(ctx, b, root)
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return &virtualfs.Store{
		Root: func() vfs.Dir { return again(tree) }, Fixed: true,
		Close:  func() error { return errors.Join(tree.Close(), end()) },
		Detail: func() string { return "immutable" },
	}, nil
}

// again returns another reference to tree. Once the mount is closed that is tree itself, which is
// stale.
func again(tree vfs.Dir) vfs.Dir {
	if d, err := cas.Dup(tree); err == nil {
		return d
	}
	return tree
}

func openRoot(ctx context.Context, b cas.Blobs, root cas.Digest) (vfs.Dir, error) {
	if s, ok := b.(*cas.Store); ok && root.Size < 0 {
		var err error
		if root, err = s.Resolve(ctx, root.Hash); err != nil {
			return nil, err
		}
	}
	if root.Size < 0 {
		return nil, errNoSize
	}
	return cas.Open(ctx, b, root)
}

// snapshot puts d, which is at path, into a store, and pins it there under the name pin, or under
// its digest. A remote CAS keeps what it likes, and takes no pin.
func (c contents) snapshot(ctx context.Context, d vfs.Dir, path, store, pin string, progress operator.Progress) (operator.Snapshot, error) {
	b, end, err := c.blobs(ctx, store)
	if err != nil {
		return operator.Snapshot{}, err
	}
	defer func() { _ = end() }() // everything is stored by now, or err says what is not
	s, local := b.(*cas.Store)
	if !local && pin != "" {
		return operator.Snapshot{}, vfs.Errorf(vfs.Unsupported, "this store keeps no pins")
	}
	var last cas.Progress
	root, err := cas.Put(ctx, b, d, cas.PutOptions{
		Special: func(string) error { return nil },
		Progress: func(p cas.Progress) {
			last = p
			if progress != nil {
				progress(p.Entries(), p.Bytes)
			}
		},
	})
	if err == nil && local {
		err = s.PinAbout(ctx, cmp.Or(pin, root.String()), root, cas.About{Of: cmp.Or(path, "/"), Files: last.Files, Bytes: last.Bytes})
	}
	if err != nil {
		return operator.Snapshot{}, err
	}
	return operator.Snapshot{Digest: root.String(), Size: root.Size, Files: last.Files, Bytes: last.Bytes, New: last.NewBytes}, nil
}
