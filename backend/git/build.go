package git

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"capd/vfs"
	"capd/vfs/diff"
)

// graft is what becomes of one path of a tree, and of what is below it.
type graft struct {
	set    bool         // entry or change takes the place of what the tree has here
	entry  entry        // the zero entry is nothing
	change *diff.Change // of a file or a link, whose object is not made yet
	below  map[string]*graft
}

// at returns the graft at a path below g.
func (g *graft) at(path string) *graft {
	for name := range strings.SplitSeq(path, "/") {
		next := g.below[name]
		if next == nil {
			next = &graft{}
			if g.below == nil {
				g.below = map[string]*graft{}
			}
			g.below[name] = next
		}
		g = next
	}
	return g
}

func (g *graft) put(e entry, c *diff.Change) { g.set, g.entry, g.change = true, e, c }

// grafts returns what changes do to the tree called base. Moved nodes leave their old
// places first.
func (s *Store) grafts(base plumbing.Hash, changes []diff.Change) (*graft, error) {
	root := &graft{}
	var moved []string
	for _, c := range changes {
		if c.From != "" {
			moved = append(moved, c.From)
			root.at(c.From).put(entry{}, nil)
		}
	}
	slices.Sort(moved)
	for _, c := range changes {
		if c.From != "" { // with the directory, but for what left it
			first, _ := slices.BinarySearch(moved, c.From+"/")
			for _, from := range moved[first:] {
				if !strings.HasPrefix(from, c.From+"/") {
					break
				}
				root.at(c.Path+from[len(c.From):]).put(entry{}, nil)
			}
		}
	}
	for i := range changes {
		c := &changes[i]
		switch g := root.at(c.Path); {
		case c.From != "":
			e, err := s.entryAt(base, c.From)
			if err != nil {
				return nil, vfs.At(c.From, err)
			}
			g.put(e, nil)
		case c.Is.Kind == vfs.FileKind, c.Is.Kind == vfs.LinkKind:
			g.put(entry{mode: modeOf(c.Is)}, c)
		case c.Is.Kind == vfs.DirKind:
			g.put(entry{mode: filemode.Dir}, nil)
		default:
			g.put(entry{}, nil)
		}
	}
	return root, nil
}

func modeOf(s diff.State) filemode.FileMode {
	switch {
	case s.Kind == vfs.LinkKind:
		return filemode.Symlink
	case s.Exec:
		return filemode.Executable
	}
	return filemode.Regular
}

// entryAt returns the entry at a path below the tree called id.
func (s *Store) entryAt(id plumbing.Hash, path string) (e entry, err error) {
	e = entry{mode: filemode.Dir, id: id}
	for name := range strings.SplitSeq(path, "/") {
		d, err := s.directory(e)
		if err != nil {
			return e, err
		}
		var ok bool
		if e, ok = d.find(name); !ok {
			return e, vfs.NotFound
		}
	}
	return e, nil
}

// builder makes the objects of a commit.
type builder struct {
	s     *Store
	named map[string]bool // directories of the objects that were made or found
}

func newBuilder(s *Store) *builder { return &builder{s: s, named: map[string]bool{}} }

// emptyTree is the id of the tree without entries.
var emptyTree = plumbing.NewHash("4b825dc642cb6eb9a060e54bf8d69288fbee4904")

// tree makes the tree that changes make of the one called base, and returns its id.
func (b *builder) tree(ctx context.Context, base plumbing.Hash, changes []diff.Change) (plumbing.Hash, error) {
	root, err := b.s.grafts(base, changes)
	if err != nil {
		return base, err
	}
	e, err := b.build(ctx, root, entry{mode: filemode.Dir, id: base}, 0)
	return e.id, err
}

// build returns what g makes of the entry was. It makes all new objects below it, and
// stops at the first that git would refuse. A directory without files has the zero id.
func (b *builder) build(ctx context.Context, g *graft, was entry, depth int) (e entry, err error) {
	if e = was; g.set {
		e = g.entry
	}
	switch {
	case g.change != nil:
		e.id, err = b.blob(ctx, g.change)
		return e, err
	case len(g.below) == 0:
		return e, nil
	case depth > MaxDepth:
		return e, errDeep
	}
	t := noTree
	if e.mode == filemode.Dir {
		if t, err = b.s.tree(e.id); err != nil {
			return e, err
		}
	}
	if t.broken {
		return e, vfs.Errorf(vfs.Corrupt, "a changed directory has names that git fsck refuses; the host has to repair it first")
	}
	entries, err := b.entries(ctx, g, t, depth)
	if err != nil {
		return e, err
	}
	e.mode, e.id = filemode.Dir, plumbing.ZeroHash
	if len(entries) > 0 || depth == 0 {
		raw := formatTree(entries)
		e.id, err = b.put(ctx, plumbing.TreeObject, int64(len(raw)), strings.NewReader(raw))
	}
	return e, err
}

// entries returns the entries of the tree t, as g changes them.
func (b *builder) entries(ctx context.Context, g *graft, t *tree, depth int) (all []entry, err error) {
	for _, off := range slices.Concat(t.at, t.long) {
		e := t.entry(off)
		if g.below[e.name] != nil {
			continue
		}
		if e.mode == filemode.Deprecated { // group-writable, as early versions of git made files
			e.mode = filemode.Regular
		}
		all = append(all, e)
	}
	for name, below := range g.below {
		was, _ := t.find(name)
		e, err := b.build(ctx, below, was, depth+1)
		if err != nil {
			return nil, err
		}
		e.name = name
		if e.id.IsZero() { // nothing, or a directory without files
			continue
		}
		if below.set {
			if err := b.s.checkEntry(e); err != nil {
				return nil, err
			}
		}
		all = append(all, e)
	}
	return all, nil
}

// checkEntry answers invalid for a new entry that git would refuse.
func (s *Store) checkEntry(e entry) error {
	kind := kindOf(e.mode)
	if err := s.CheckName(e.name, kind); err != nil || kind != vfs.FileKind {
		return err
	}
	return s.checkSpecial(e)
}

// formatTree encodes entries in git's order.
func formatTree(entries []entry) string {
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.sortName(), b.sortName()) })
	var raw strings.Builder
	for _, e := range entries {
		raw.WriteString(strconv.FormatUint(uint64(e.mode), 8))
		raw.WriteByte(' ')
		raw.WriteString(e.name)
		raw.WriteByte(0)
		raw.Write(e.id[:])
	}
	return raw.String()
}

func (e entry) sortName() string {
	if e.mode == filemode.Dir {
		return e.name + "/"
	}
	return e.name
}
