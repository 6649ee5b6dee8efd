// Package git shows a commit of a git repository as a tree, and commits what is written
// to it.
//
// Reads come from the repository's objects, each checked against its id. Memory holds
// caches of a fixed size, the list of changes, and what is open. Writes go to a
// temporary file. The repository is not touched before [Store.Commit], which adds new
// objects and moves one ref. The working tree and the index never change.
//
// Git has no empty directories: an empty directory exists in the store but in no
// commit. A submodule is an empty directory that cannot be changed; see
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

// Options say which tree of a repository to open, and how.
type Options struct {
	// Revision is a revision as in gitrevisions(7), as far as go-git supports it: a
	// branch, a tag, an id or a prefix of one, HEAD~2. "" means HEAD. A branch without
	// a commit is an empty tree.
	Revision string

	// Follow makes the tree follow the branch: it is always the tree of the branch's
	// present commit. An open file then reads what the new commit has at its path.
	// Otherwise the tree is that of the commit at opening.
	//
	// While anything is written and not committed, the tree stays as it is. After a
	// commit to another branch the store follows that one.
	Follow bool

	// Writable allows changes to the tree.
	Writable bool

	// Confined refuses a repository that is not wholly in dir's own .git, or in dir if
	// it is a bare one. It answers outside if objects are borrowed, or if a .git, a
	// commondir or a link leads elsewhere. A link that appears later is not followed
	// either. The .git file of a linked worktree is followed only if the repository
	// that it names knows that worktree. Use Confined for directories that untrusted
	// parties may have written.
	Confined bool

	// CacheBytes bounds the memory for caches. 0 or less means [DefaultCacheBytes].
	CacheBytes int64
}

// DefaultCacheBytes is the default of Options.CacheBytes.
const DefaultCacheBytes = 64 << 20

// Revision is what a store shows.
type Revision struct {
	Ref    string // the ref's full name; "" if the revision is not a ref
	Commit string // the commit's hexadecimal id; "" for a branch without one
}

// Store is a tree of a repository. Its methods are for the host; a guest only gets
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

	committing sync.Mutex // one commit at a time; locked before mu
	tip        atomic.Pointer[tip]

	// mu guards the tree and every content that is not frozen. Neither Replace's reader
	// nor vfs.Commit is called under it.
	mu     sync.RWMutex
	base   commit
	root   *item
	epoch  uint64 // grows when a place may have another directory than before
	made   uint64 // the number of the newest directory
	closed bool
}

// tip is a branch, if any, and the commit that it had when last read.
type tip struct {
	ref string
	id  plumbing.Hash
}

// OpenAmbient opens the repository at dir: a working tree, a .git directory, the .git
// file of a linked worktree, or a bare repository. It does not search above dir;
// [FindAmbient] does.
//
// It answers notFound when there is no repository or no such revision, invalid for a
// malformed revision, and unsupported for an unknown repository format. Errors are for
// the host: they name paths.
//
// Unless Options.Confined is set it follows links and borrowed objects anywhere, as git
// does. It never writes through a link that leads out of the repository: a commit then
// answers outside.
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
		return vfs.Errorf(vfs.Invalid, "%s is not a branch, so it cannot be followed", vfs.Printable(name))
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

// rebase makes the store show a commit, without anything written. Needs s.mu, unless s
// is new.
func (s *Store) rebase(c commit) {
	s.base = c
	s.root = &item{entry: entry{mode: filemode.Dir, id: c.tree}}
	s.epoch++
}

// Root returns the whole tree. Each call returns a new reference.
func (s *Store) Root() vfs.Dir { return &dir{at: &place{store: s}} }

// Part is Root for the directory at path: each call of root returns a new reference. It
// answers notFound and notDir.
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
		_ = s.catchUp() // after a failure it still shows the old commit
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	r := Revision{Ref: s.tip.Load().ref}
	if !s.base.id.IsZero() {
		r.Commit = s.base.id.String()
	}
	return r
}

// Close closes all files of the repository, and drops what was written and not
// committed. Every later use of a node answers stale.
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

// look locks s.mu for reading, unless ctx has ended or the store is closed. It first
// catches up with a followed branch.
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

// catchUp shows the present commit of a followed branch, unless something is written
// and not committed. It reads the ref each time.
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
		return vfs.Errorf(vfs.NotFound, "the store no longer has the content that is shown here; tell the host")
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

// directory returns the directory of an item. Needs s.mu for reading.
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

// tree reads a tree object. The zero id gives the empty tree.
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
