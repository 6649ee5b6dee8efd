// Package git shows a commit of a git repository as a tree, and commits changes to it.
//
// Reads come from the repository's objects, each checked against its id. Memory holds
// caches of a fixed size and what is open. The tree itself never changes: whoever lets
// guests change it keeps the changes elsewhere, such as in an overlay, and passes them
// to [Store.Prepare]. The repository is not touched before that. A commit adds new
// objects and moves one ref. The working tree and the index never change.
//
// Git has no empty directories: a directory in which there is no file is in no commit.
// A submodule is an empty directory that cannot be changed.
package git

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/backend/internal/recent"
	"capd/vfs"
)

// Options say which tree of a repository to open, and how.
type Options struct {
	// Revision is a revision as in gitrevisions(7), as far as go-git supports it: a
	// branch, a tag, an id or a prefix of one, HEAD~2. "" means HEAD. A branch without
	// a commit is an empty tree.
	Revision string

	// Commit, if not "", is the hexadecimal id of the commit to show in place of the one
	// that Revision has now: an earlier [Revision.Commit].
	Commit string

	// Follow makes the tree follow the branch: it is always the tree of the branch's
	// present commit. An open file then reads what the new commit has at its path.
	// Otherwise the tree is that of the commit at opening. After a commit to another
	// branch the store follows that one.
	Follow bool

	// Writable allows commits.
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
	layout  layout
	refs    *refs
	objects *objects
	blobs   *blobs
	trees   *recent.Cache[plumbing.Hash, *tree]
	made    *recent.Cache[vfs.Version, plumbing.Hash] // blobs that were made of contents
	follow  bool
	commits bool // they are allowed
	hold    func(follow func())
	tip     atomic.Pointer[tip]

	mu     sync.RWMutex
	base   commit // what the store shows
	epoch  uint64 // grows with each commit that it shows
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
	o.CacheBytes = cmp.Or(o.CacheBytes, DefaultCacheBytes)
	objects, err := openObjects(l, o.CacheBytes/4)
	if err != nil {
		l.close()
		return nil, ambient(err)
	}
	s := &Store{
		layout:  l,
		refs:    &refs{layout: l},
		objects: objects,
		blobs:   newBlobs(objects, o.CacheBytes/2),
		trees:   recent.New[plumbing.Hash, *tree](o.CacheBytes/4, nil),
		made:    recent.New[vfs.Version, plumbing.Hash](keptVersions, nil),
		follow:  o.Follow,
		hold:    func(follow func()) { follow() },
		commits: o.Writable,
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
	if o.Commit != "" && vfs.CodeOf(err) == vfs.NotFound {
		return vfs.Errorf(vfs.NotFound, "%s; changes wait that were made on %s: make a branch of this name there, and mount it again",
			vfs.Message(err), vfs.Printable(o.Commit))
	}
	if err != nil {
		return err
	}
	if o.Follow && ref == "" {
		return vfs.Errorf(vfs.Invalid, "%s is not a branch, so it cannot be followed", vfs.Printable(name))
	}
	if o.Commit != "" {
		if _, id, err = s.resolve(o.Commit); vfs.CodeOf(err) == vfs.NotFound {
			return vfs.Errorf(vfs.NotFound, "the repository has no commit %s any more, on which waiting changes are based", vfs.Printable(o.Commit))
		} else if err != nil {
			return err
		}
	}
	c, err := s.commit(id)
	if err != nil {
		return err
	}
	s.show(c, &tip{ref, id})
	_, err = s.tree(c.tree)
	return err
}

// show makes the store show a commit. Needs s.mu, unless s is new.
func (s *Store) show(c commit, at *tip) {
	s.base = c
	s.epoch++
	s.tip.Store(at)
}

// SetHold sets a function that is called before the tree follows its branch. If the tree
// has to stay as it is, since changes to it wait for a commit, hold does not call
// follow. It must not wait. SetHold must come before the store is used.
func (s *Store) SetHold(hold func(follow func())) { s.hold = hold }

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

// Close closes all files of the repository. Every later use of a node answers stale.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.objects.close()
	s.blobs.kept.Clear()
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

// catchUp shows the present commit of a followed branch, unless SetHold has it stay
// as it is. It reads the ref each time.
func (s *Store) catchUp() error {
	was := s.tip.Load()
	_, id, err := s.refs.resolve(was.ref)
	switch {
	case err != nil:
		return hidden(err)
	case id == was.id:
		return nil
	case id.IsZero():
		return vfs.Errorf(vfs.NotFound, "the store no longer has the content that is shown here; tell the host")
	}
	s.hold(func() { err = s.moveTo(was, id) })
	return err
}

// moveTo shows the commit that the branch has now.
func (s *Store) moveTo(was *tip, id plumbing.Hash) error {
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
	if !s.closed && s.tip.Load() == was {
		s.show(c, &tip{was.ref, id})
	}
	return nil
}

// tree reads a tree object. The zero id gives the empty tree.
func (s *Store) tree(id plumbing.Hash) (*tree, error) {
	if id.IsZero() {
		return noTree, nil
	}
	if t, ok := s.trees.Get(id, nil); ok {
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
	s.trees.Add(id, t, int64(len(t.raw)+4*len(t.at))+128)
	return t, nil
}
