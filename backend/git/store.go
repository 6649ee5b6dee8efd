// Package git shows a commit of a git repository as a tree, and makes commits of what is
// written to it.
//
// What is read comes from the repository's objects, each held against its id, and
// nothing of a repository stays in memory but caches of a fixed size, the changes
// themselves, and what is open. What is written goes to a temporary file. The
// repository is not touched before [Store.Commit], and then gets new objects and one
// ref: never the working tree or the index.
//
// Git has no empty directories. One that is made lives in the store and is in no
// commit. A submodule is an empty directory in which nothing can be changed; see
// [Store.Submodules].
package git

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"capd/vfs"
)

// Options say what of a repository is opened, and how.
type Options struct {
	// Revision is as gitrevisions(7) has it, as far as go-git does: a branch, a tag, an
	// id or the beginning of one, HEAD~2. "" is HEAD. What has no commit yet is an
	// empty tree.
	Revision string

	// Follow makes the tree that of the commit which the branch has at each moment. A
	// file that is open then reads what the new commit has at its place. Otherwise the
	// tree is that of the commit at opening.
	//
	// While something is written and not committed, the tree stays as it is. A commit to
	// another branch makes that the one which is followed.
	Follow bool

	// Writable lets the tree be changed.
	Writable bool

	// Confined refuses a repository that is not wholly in dir's own .git, or in dir if that
	// is a bare one: where objects are borrowed, or a .git, a commondir or a link leads
	// elsewhere, the answer is outside. The .git file of a linked worktree is followed if
	// the repository that it names has that worktree. A link that appears later is not
	// followed either. It is for a directory that anybody may have written.
	Confined bool

	// CacheBytes bounds what is kept in memory of what was read; 64 MiB if 0 or less.
	CacheBytes int64
}

// DefaultCacheBytes is what Options.CacheBytes is by default.
const DefaultCacheBytes = 64 << 20

// Revision is what a store shows.
type Revision struct {
	Ref    string // the ref's full name, or "" for what was not opened by one
	Commit string // the commit's id in hexadecimal digits, or "" for a branch without one
}

// Store is a tree of a repository. Its methods are the host's; a guest has no more than
// [Store.Root]. They may be called from several goroutines at once.
type Store struct {
	layout   layout
	refs     *refs
	objects  *objects
	blobs    *blobs
	trees    *lru[plumbing.Hash, *tree]
	spool    *spool
	follow   bool
	writable bool

	committing sync.Mutex // one commit at a time; taken before mu
	tip        atomic.Pointer[tip]

	// mu guards the tree and every content that is not frozen. Neither a reader of
	// Replace nor vfs.Commit is called under it.
	mu     sync.RWMutex
	base   commit
	root   *item
	epoch  uint64 // grows when a directory may be another than it was
	made   uint64 // directories: the number that the last was given
	closed bool
}

// tip is a branch, if any, and the commit that it had when it was last looked at.
type tip struct {
	ref string
	id  plumbing.Hash
}

// OpenAmbient opens the repository that dir is: a working tree, a .git directory or the
// .git file of a linked worktree, or a bare repository. It does not look above dir;
// [FindAmbient] does. It answers notFound when there is none or it has no such revision,
// invalid for what is no revision, and unsupported for a repository of a format that
// is not known here. Its errors are for the host: they name paths. Unless it is
// confined it goes, as git does, wherever links lead and the repository says that it
// borrows objects from.
//
// Nothing is written through a link that leads out of the repository, confined or not: a
// commit answers outside.
func OpenAmbient(dir string, o Options) (*Store, error) {
	l, err := open(dir, o)
	if err != nil {
		return nil, err
	}
	if o.CacheBytes <= 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	objects, err := openObjects(l, o.CacheBytes/4)
	if err != nil {
		l.close()
		return nil, ambient(err)
	}
	s := &Store{
		layout:   l,
		refs:     &refs{layout: l},
		objects:  objects,
		blobs:    newBlobs(objects, o.CacheBytes/2),
		trees:    newLRU[plumbing.Hash, *tree](o.CacheBytes/4, nil),
		spool:    &spool{},
		follow:   o.Follow,
		writable: o.Writable,
	}
	if err := s.open(o); err != nil {
		s.Close()
		return nil, ambient(err)
	}
	return s, nil
}

func (s *Store) open(o Options) (err error) {
	if s.objects.replaced, err = s.refs.replacements(); err != nil {
		return err
	}
	name := o.Revision
	if name == "" {
		name = string(plumbing.HEAD)
	}
	ref, id, err := s.resolve(name)
	if err != nil {
		return err
	}
	if o.Follow && ref == "" {
		return vfs.Errorf(vfs.Invalid, "%s is no branch that could be followed", vfs.Printable(name))
	}
	c, err := s.commit(id)
	if err != nil {
		return err
	}
	s.rebase(c)
	s.tip.Store(&tip{ref, id})
	_, err = s.directory(s.root)
	return err
}

// rebase makes the store show a commit, and nothing that was written. s.mu is held, or s
// is new.
func (s *Store) rebase(c commit) {
	s.base = c
	s.root = &item{entry: entry{mode: filemode.Dir, id: c.tree}}
	s.epoch++
}

// Root returns the whole tree. Each call returns a reference of its own.
func (s *Store) Root() vfs.Dir { return &dir{at: &place{store: s}} }

// Part returns what Root is for the directory at path: each call of it returns a
// reference of its own. Part answers notFound and notDir.
func (s *Store) Part(ctx context.Context, path string) (root func() vfs.Dir, err error) {
	names, err := vfs.SplitPath(path)
	if err != nil {
		return nil, vfs.At(path, err)
	}
	at := &dir{at: &place{store: s}}
	for _, name := range names {
		n, err := at.Lookup(ctx, name)
		if err != nil {
			return nil, vfs.At(path, err)
		}
		next, ok := n.(*dir)
		if !ok {
			return nil, vfs.At(path, vfs.NotDir)
		}
		at = next
	}
	return func() vfs.Dir { return &dir{at: at.at} }, nil
}

// Revision returns what the store shows now.
func (s *Store) Revision() Revision {
	if s.follow {
		_ = s.catchUp() // what it shows is what it showed
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	r := Revision{Ref: s.tip.Load().ref}
	if !s.base.id.IsZero() {
		r.Commit = s.base.id.String()
	}
	return r
}

// Close gives up all files of the repository, and what was written and not committed.
// Every later use of a node answers stale.
func (s *Store) Close() error {
	s.committing.Lock()
	defer s.committing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.objects.close()
	s.blobs.kept.clear()
	s.spool.close()
	s.layout.close()
	return nil
}

// look takes s.mu for reading, when ctx and the store are not at their end and a branch
// that is followed has been caught up with.
func (s *Store) look(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.follow {
		if err := s.catchUp(); err != nil {
			return err
		}
	}
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return vfs.Stale
	}
	return nil
}

// catchUp shows what the branch points to now, unless something is written and not
// committed. It costs reading the ref, each time.
func (s *Store) catchUp() error {
	was := s.tip.Load()
	_, id, err := s.refs.resolve(was.ref)
	if err != nil {
		return hidden(err)
	}
	if id == was.id {
		return nil
	}
	if id.IsZero() {
		return vfs.Errorf(vfs.NotFound, "what is shown here is gone from where it is kept; tell the host")
	}
	if s.Changed() {
		return nil
	}
	at, err := s.peel(id)
	if err != nil {
		return err
	}
	c, err := s.commit(at)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.tip.Load() != was || s.isChanged() {
		return nil
	}
	if s.root.dir != nil {
		s.root.dir.drop()
	}
	s.rebase(c)
	s.tip.Store(&tip{was.ref, id})
	return nil
}

// directory returns the directory that an item is. s.mu is held, for reading at least.
func (s *Store) directory(it *item) (*directory, error) {
	switch {
	case it.dir != nil:
		return it.dir, nil
	case it.isSubmodule():
		return &directory{tree: noTree, submodule: true}, nil
	}
	t, err := s.tree(it.id)
	if err != nil {
		return nil, err
	}
	return unchanged(t), nil
}

// tree reads a tree object; the zero id is the empty tree.
func (s *Store) tree(id plumbing.Hash) (*tree, error) {
	if id.IsZero() {
		return noTree, nil
	}
	if t, ok := s.trees.get(id, nil); ok {
		return t, nil
	}
	raw, err := s.objects.readAs(id, plumbing.TreeObject, maxMeta)
	if err != nil {
		return nil, err
	}
	t, err := parseTree(raw)
	if err != nil {
		return nil, corrupt(id, "is no tree that can be read")
	}
	s.trees.put(id, t, int64(len(t.raw)+4*len(t.at))+128)
	return t, nil
}
