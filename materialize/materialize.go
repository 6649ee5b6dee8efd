// Package materialize copies a subtree of any Dir into a private directory of the
// host, where programs can work on it, and brings back what they changed.
//
// It reads and writes through the Dir that it was given, so that every guard of
// that view has its say about every path. What is brought back are regular files,
// directories, and links that stay within the tree: no special files, no bits beside
// the executable one. A file with several names becomes several files. Whatever a
// program leaves in the directory, nothing outside it is read and nothing is
// written through a link.
//
// What cannot come back is left out and named, and so is what depends on it: what
// lies in it, and the removal of what became it. [Tree.Prune] leaves nothing else.
//
// A directory is gone when its [Tree] is closed. When the process dies first, the
// next [OpenAmbient] removes it.
package materialize

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"capd/vfs"
	"capd/vfs/batch"
)

// Bounds are how much a tree may hold, when it is copied and when it is brought
// back. A field that is 0 or less has its default.
type Bounds struct {
	Entries int   // files, directories and links; 1,000,000 by default
	Bytes   int64 // of all files; 16 GiB by default
	Depth   int   // names of a path; vfs.MaxDepth by default, and at most
}

// The default bounds.
const (
	DefaultEntries = 1_000_000
	DefaultBytes   = 16 << 30
)

func (b Bounds) orDefaults() Bounds {
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

// Progress is how far work has come.
type Progress struct {
	Entries int
	Bytes   int64
}

// Options are what a host may choose; the zero value is right for most.
type Options struct {
	Bounds
	ReadOnly []string       // paths: nothing at and below these is brought back, or looked at for that
	Exclude  []*vfs.Pattern // what they match, and what is below it, is neither copied nor brought back
	Progress func(Progress) // told of each entry, one call at a time; it must not wait
	Workers  int            // files copied at once; by default one for each processor, at least 2 and at most 8
}

func (o Options) workers() int {
	if o.Workers > 0 {
		return o.Workers
	}
	return min(max(runtime.GOMAXPROCS(0), 2), 8)
}

// Skipped is something that was left out, and why.
type Skipped struct {
	Path string // relative to the tree
	Why  string
}

// Tree is a subtree in a directory of its own. Its methods may be called from
// several goroutines at once; they wait for each other.
type Tree struct {
	from     vfs.Dir
	bounds   Bounds
	readOnly scope
	path     string
	place    *place
	root     *os.Root // the tree
	mount    uint64
	dev      uint64
	exclude  []*vfs.Pattern

	leftOut      []Skipped
	leftOutPaths scope             // of these
	outLinks     map[string]string // and the targets of the links among them
	absent       []string          // all that the Dir has and the tree has not

	mu      sync.Mutex
	records map[string]*record
	looks   uint64
	closed  bool
}

// New copies the tree below d. d stays the caller's, and open for as long as the
// Tree is. It answers limit beyond o's bounds, and then nothing is left behind.
// What cannot be copied is left out, as [Tree.LeftOut] tells: what is neither
// file, directory nor link, a link that leads out of the tree, a file that the
// host itself may not read, and a name that the host's file system does not take.
//
// A link within the tree is made as it is; a file can be read and written by its
// owner alone, and executed by him as its Info says. Files and directories have the
// modification times that their Infos say, if these are not 0.
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
		from: d, bounds: o.Bounds.orDefaults(), readOnly: readOnly, place: p,
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
	if err := newCopier(ctx, t, o).run(); err != nil {
		return err
	}
	if err := t.cutLinks(); err != nil {
		return err
	}
	now := time.Now()
	for _, r := range t.records {
		r.settled = r.attr.settled(now)
	}
	slices.SortFunc(t.leftOut, func(a, b Skipped) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

// cutLinks removes the links that lead out of the tree by way of others.
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

// leaveOut writes down that what is at path was not copied.
func (t *Tree) leaveOut(path, why string) {
	t.leftOut = append(t.leftOut, Skipped{path, why})
	t.leftOutPaths[path] = true
	t.absent = append(t.absent, path)
}

// excludes reports whether path is one of those that do not concern the tree.
// Those below are not asked for.
func (t *Tree) excludes(path string) bool {
	return slices.ContainsFunc(t.exclude, func(p *vfs.Pattern) bool { return p.Match(path) })
}

// Path is where the tree is on the host. It is for the host, never a guest.
func (t *Tree) Path() string { return t.path }

// LeftOut is what New did not copy, in byte order of paths.
func (t *Tree) LeftOut() []Skipped { return slices.Clone(t.leftOut) }

// Close removes the directory, whatever is in it. Nothing may work in it any
// more. It may be called more than once. After an error the next OpenAmbient of
// another process tries again.
func (t *Tree) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.root != nil {
		t.root.Close()
	}
	return explain(t.place.release())
}

// record is what is known of an entry: what the Dir has, and what the tree's entry
// was when it had the same.
type record struct {
	state   batch.State
	attr    attr
	settled bool   // a later change shows in attr
	seen    uint64 // the look that saw it last
}

// scope is a set of subtrees.
type scope map[string]bool

func newScope(paths []string) (scope, error) {
	s := scope{}
	for _, path := range paths {
		if _, err := vfs.SplitPath(path); err != nil {
			return nil, vfs.At(path, err)
		}
		s[path] = true
	}
	return s, nil
}

// has reports whether path is at or below one of s.
func (s scope) has(path string) bool {
	if len(s) == 0 {
		return false
	}
	for {
		if s[path] {
			return true
		}
		i := strings.LastIndexByte(path, '/')
		if i < 0 {
			return false
		}
		path = path[:i]
	}
}

// leads reports whether one of s is below path.
func (s scope) leads(path string) bool {
	for below := range s {
		if strings.HasPrefix(below, path+"/") {
			return true
		}
	}
	return false
}
