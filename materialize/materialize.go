// Package materialize copies a subtree of any Dir into a private directory of the host,
// where programs can work on it, and brings back their changes.
//
// It reads and writes through the Dir it was given, so every guard of that Dir decides
// about every path. It brings back regular files, directories, and links that stay
// within the tree. It does not bring back special files, or mode bits other than the
// executable one. A file with several names becomes several files. Whatever a program
// leaves in the directory, nothing outside it is read, and nothing is written through a
// link.
//
// What cannot be brought back is left out and reported. So is what depends on it: what
// is inside it, and the removal of what it replaced. [Tree.Prune] keeps only these.
//
// Closing a [Tree] removes its directory. If the process dies first, the next
// [OpenAmbient] removes it.
package materialize

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"capd/vfs"
	"capd/vfs/copier"
	"capd/vfs/diff"
	"capd/vfs/search"
)

// Bounds limit a tree, when it is copied and when it is brought back. A field that is 0
// or less has its default: DefaultEntries, DefaultBytes, and vfs.MaxDepth, which is also
// the most.
type Bounds = copier.Limits

// The default bounds.
const (
	DefaultEntries = 1_000_000
	DefaultBytes   = 16 << 30
)

func orDefaults(b Bounds) Bounds {
	if b.Entries <= 0 {
		b.Entries = DefaultEntries
	}
	if b.Bytes <= 0 {
		b.Bytes = DefaultBytes
	}
	if b.Depth <= 0 || b.Depth > vfs.MaxDepth {
		b.Depth = vfs.MaxDepth
	}
	return b
}

// Progress is how far a copy has come.
type Progress = copier.Progress

// Options configure a tree. The zero value suits most hosts.
type Options struct {
	Bounds
	ReadOnly []string          // paths: nothing at or below these is brought back or compared
	Exclude  []*search.Pattern // what these match, and what is below it, is neither copied nor brought back
	Progress func(Progress)    // called for each entry, one call at a time; it must not block
	Workers  int               // files copied at once; the default is one for each processor, at least 2 and at most 8
}

// Tree is a materialized subtree. Its methods may be called from several goroutines at
// once; they wait for each other.
type Tree struct {
	from     vfs.Dir
	bounds   Bounds
	readOnly scope
	path     string
	place    *place
	root     *os.Root // of the tree
	mount    uint64
	dev      uint64
	exclude  []*search.Pattern

	leftOut      []diff.Skipped
	leftOutPaths scope             // the paths in leftOut
	outLinks     map[string]string // the targets of the links among them
	absent       []string          // everything that the Dir has and the tree has not

	mu      sync.Mutex
	records map[string]*record
	looks   uint64
	closed  bool
}

// New copies the tree below d. The caller keeps d, and must keep it open as long as the
// Tree is. It answers limit beyond o's bounds, and then leaves nothing behind. It
// leaves out, and reports in [Tree.LeftOut], what it cannot copy: nodes that are
// neither file, directory nor link, links that lead out of the tree, files that the
// host may not read, and names that the host's file system does not accept.
//
// A link within the tree is made unchanged. Only the owner can read and write a file,
// and execute it if its Info says so. Files and directories have the modification times
// of their Infos, if those are not 0.
func (b *Base) New(ctx context.Context, d vfs.Dir, o Options) (*Tree, error) {
	readOnly, err := newScope(o.ReadOnly)
	if err != nil {
		return nil, err
	}
	p, err := b.claim()
	if err != nil {
		return nil, explain(err)
	}
	t := &Tree{
		from: d, bounds: orDefaults(o.Bounds), readOnly: readOnly, place: p,
		path: filepath.Join(b.path, p.name, treeName), records: map[string]*record{}, exclude: o.Exclude,
		leftOutPaths: scope{}, outLinks: map[string]string{},
	}
	if err := t.fill(ctx, o); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *Tree) fill(ctx context.Context, o Options) error {
	var err error
	if t.root, err = t.place.root.OpenRoot(t.place.name + "/" + treeName); err != nil {
		return explain(err)
	}
	self, err := t.root.Open(".")
	if err != nil {
		return explain(err)
	}
	defer self.Close()
	info, err := self.Stat()
	if err == nil {
		t.mount, err = mountOf(self)
	}
	if err != nil {
		return explain(err)
	}
	t.dev = attrOf(info).dev
	if err := t.copy(ctx, o); err != nil {
		return err
	}
	if err := t.cutLinks(); err != nil {
		return err
	}
	now := time.Now()
	for _, r := range t.records {
		r.settled = r.attr.settled(now)
	}
	slices.SortFunc(t.leftOut, func(a, b diff.Skipped) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

// cutLinks removes links that lead out of the tree through other links.
func (t *Tree) cutLinks() error {
	for path, r := range t.records {
		if r.state.Kind != vfs.LinkKind {
			continue
		}
		if _, err := t.root.Stat(path); err == nil || !escapes(err) {
			continue
		}
		if err := t.root.Remove(path); err != nil {
			return explain(err)
		}
		delete(t.records, path)
		t.leaveOut(path, whyOutside)
		t.outLinks[path] = r.state.Target
	}
	return nil
}

// leaveOut records that path was not copied.
func (t *Tree) leaveOut(path, why string) {
	t.leftOut = append(t.leftOut, diff.Skipped{Path: path, Why: why})
	t.leftOutPaths.add(path)
	t.absent = append(t.absent, path)
}

// excludes reports whether path is excluded. It is not asked about paths below excluded
// ones.
func (t *Tree) excludes(path string) bool {
	return slices.ContainsFunc(t.exclude, func(p *search.Pattern) bool { return p.Match(path) })
}

// Path returns the path of the tree on the host. It is for the host, never a guest.
func (t *Tree) Path() string { return t.path }

// LeftOut returns what New did not copy, in byte order of paths.
func (t *Tree) LeftOut() []diff.Skipped { return slices.Clone(t.leftOut) }

// Close removes the directory and everything in it. Nothing may use it any more. Close
// may be called more than once. After an error the next OpenAmbient of another process
// tries again.
func (t *Tree) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.root != nil {
		t.root.Close()
	}
	return explain(t.place.release())
}

// record is what is known of an entry: the state in the Dir, and the attributes of the
// tree's entry when it had the same state.
type record struct {
	state   diff.State
	attr    attr
	settled bool   // a later change will show in attr
	seen    uint64 // the last comparison that saw it
}

// stateOf returns the state of r, which may be nil: nothing is there.
func (r *record) stateOf() diff.State {
	if r == nil {
		return diff.State{}
	}
	return r.state
}

// scope is a set of subtrees: true at the path of each, and false at the directories above
// them.
type scope map[string]bool

func newScope(paths []string) (scope, error) {
	s := scope{}
	for _, path := range paths {
		if _, err := vfs.SplitPath(path); err != nil {
			return nil, vfs.At(path, err)
		}
		s.add(path)
	}
	return s, nil
}

func (s scope) add(path string) {
	s[path] = true
	for dir := parent(path); dir != ""; dir = parent(dir) {
		if _, known := s[dir]; known {
			return
		}
		s[dir] = false
	}
}

// has reports whether path is at or below one of s.
func (s scope) has(path string) bool {
	for ; path != "" && len(s) > 0; path = parent(path) {
		if s[path] {
			return true
		}
	}
	return false
}

// leads reports whether one of s is below path, and none is at it.
func (s scope) leads(path string) bool {
	at, known := s[path]
	return known && !at
}
