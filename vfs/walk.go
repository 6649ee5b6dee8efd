package vfs

import (
	"context"
	"errors"
	"strings"

	"capd/meter"
)

// Walker is a Dir that walks a path itself by the rules of [Walk], such as a Dir of a
// remote host. Local directories are none: guards must see every name.
type Walker interface {
	Walk(ctx context.Context, path string, follow bool) (Node, error)
}

// StatWalker is a Walker that stats a path in one call, without returning the node.
type StatWalker interface {
	WalkStat(ctx context.Context, path string, follow bool) (Info, error)
}

// StatAt is Stat of the node at path below d. follow says whether to follow a link at
// the end of path.
func StatAt(ctx context.Context, d Dir, path string, follow bool) (Info, error) {
	if w, ok := d.(StatWalker); ok {
		return w.WalkStat(ctx, path, follow)
	}
	n, err := walk(ctx, d, path, follow)
	if err != nil {
		return Info{}, err
	}
	defer n.Close()
	return n.Stat(ctx)
}

// Walk returns the node at path below d. It follows links, one name at a time and
// through d's own guards, so every rule applies to where a link leads. It never leaves
// d. It answers outside for an absolute link, for a link that leads above d, and for
// one that leads out of its tree to a place where the host has mounted nothing. It
// answers notDir where a path goes through a file. It answers limit after [MaxLinks]
// links, or after [MaxWalk] names of path and links together.
func Walk(ctx context.Context, d Dir, path string) (Node, error) { return walk(ctx, d, path, true) }

// WalkLink is Walk, but if path ends in a link it returns the [Link].
func WalkLink(ctx context.Context, d Dir, path string) (Node, error) {
	return walk(ctx, d, path, false)
}

// WalkDir is Walk for a directory. It answers notDir for anything else.
func WalkDir(ctx context.Context, d Dir, path string) (Dir, error) {
	n, err := Walk(ctx, d, path)
	if err != nil {
		return nil, err
	}
	return AsDir(n)
}

// WalkFile is Walk for a file. It answers isDir for a directory.
func WalkFile(ctx context.Context, d Dir, path string) (File, error) {
	n, err := Walk(ctx, d, path)
	if err != nil {
		return nil, err
	}
	return AsFile(n)
}

// LookupAs is Lookup of a node of the type N, such as [Dir]. It answers other for any other
// node.
func LookupAs[N Node](ctx context.Context, d Dir, name string, other error) (found N, err error) {
	n, err := d.Lookup(ctx, name)
	if err != nil {
		return found, err
	}
	found, ok := n.(N)
	if !ok {
		n.Close()
		return found, other
	}
	return found, nil
}

// AsDir returns n if it is a directory. Otherwise it closes n and answers notDir.
func AsDir(n Node) (Dir, error) {
	if d, ok := n.(Dir); ok {
		return d, nil
	}
	n.Close()
	return nil, NotDir
}

// AsFile returns n if it is a file. Otherwise it closes n and answers isDir or
// notRegular.
func AsFile(n Node) (File, error) {
	if f, ok := n.(File); ok {
		return f, nil
	}
	n.Close()
	if _, ok := n.(Dir); ok {
		return nil, IsDir
	}
	return nil, NotRegular
}

// WalkParent returns the directory of path's last name, and that name, which it does
// not look up. release closes the directory, unless it is d itself.
func WalkParent(ctx context.Context, d Dir, path string) (dir Dir, name string, release func(), err error) {
	names, err := SplitPath(path)
	if err != nil {
		return nil, "", nil, err
	}
	last := len(names) - 1
	if last == 0 {
		return d, names[0], func() {}, nil
	}
	dir, err = WalkDir(ctx, d, strings.Join(names[:last], "/"))
	if err != nil {
		return nil, "", nil, err
	}
	return dir, names[last], func() { dir.Close() }, nil
}

// maxTried and maxTriedPath bound the names, and their bytes, of a walk that must not
// wait: many names take long even if none of them waits.
const maxTried, maxTriedPath = MaxLooked, 1 << 10

func walk(ctx context.Context, d Dir, path string, follow bool) (Node, error) {
	names, err := SplitPath(path)
	if err != nil {
		return nil, err
	}
	switch w, ok := d.(Walker); {
	case IsTrying(ctx) && (len(names) > maxTried || len(path) > maxTriedPath):
		return nil, ErrWouldBlock
	case ok && !IsTrying(ctx):
		return w.Walk(ctx, path, follow)
	}
	if len(names) > 1 {
		n, err := leap(ctx, d, names, follow)
		if err != ErrStepwise {
			return n, err
		}
	}
	w := walker{ctx: ctx, root: d, rest: []string{path}}
	defer w.close()
	if err := w.walk(follow); err != nil {
		return nil, err
	}
	return w.take()
}

// leap is walk with [LookPath]. It answers ErrStepwise if there is a link to follow, or
// anything else that has to be seen name by name.
func leap(ctx context.Context, d Dir, names []string, follow bool) (Node, error) {
	if IsTrying(ctx) && !CanTry(d) {
		return nil, ErrWouldBlock
	}
	for here := d; ; {
		if err := meter.Yield(ctx); err != nil {
			return nil, err
		}
		some := names[:min(len(names), MaxLooked)]
		names = names[len(some):]
		n, err := LookPath(ctx, here, some)
		if here != d {
			here.Close()
		}
		if err != nil {
			return nil, err
		}
		next, isDir := n.(Dir)
		_, isLink := n.(Link)
		switch {
		case isLink && (follow || len(names) > 0), !isDir && len(names) > 0:
			n.Close()
			return nil, ErrStepwise
		case len(names) == 0:
			return n, nil
		}
		here = next
	}
}

// walker is a walk under way: the open directories from the root to here, the last node
// found if it is no directory, and the names still to go.
type walker struct {
	ctx   context.Context
	root  Dir
	open  []Dir
	leaf  Node
	rest  []string // names left of the path, then of link targets on it; the last comes first
	names int      // names walked so far
	links int
	rose  bool // a link has led up
}

// walk visits the names that are left. follow says whether to follow a link at the end.
func (w *walker) walk(follow bool) error {
	for len(w.rest) > 0 {
		if err := meter.Yield(w.ctx); err != nil {
			return err
		}
		if err := w.step(follow); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) here() Dir {
	if len(w.open) == 0 {
		return w.root
	}
	return w.open[len(w.open)-1]
}

// next removes and returns the next name.
func (w *walker) next() string {
	last := len(w.rest) - 1
	name, rest, more := strings.Cut(w.rest[last], "/")
	if more {
		w.rest[last] = rest
	} else {
		w.rest = w.rest[:last]
	}
	return name
}

func (w *walker) step(follow bool) error {
	name := w.next()
	switch {
	case w.leaf != nil:
		return NotDir
	case name == "" || name == ".": // only a link's target has these
		return nil
	}
	if w.names++; w.names > MaxWalk {
		return Errorf(Limit, "links on the way lead through more than %d names", MaxWalk)
	}
	if name == ".." {
		return w.rise()
	}
	if IsTrying(w.ctx) && (w.names > maxTried || !CanTry(w.here())) {
		return ErrWouldBlock
	}
	n, err := w.here().Lookup(w.ctx, name)
	if w.rose && errors.Is(err, ErrNoTree) {
		return errOutside // it left its tree, and leads to none
	}
	if err != nil {
		return err
	}
	switch n := n.(type) {
	case Dir:
		if len(w.open) >= MaxDepth {
			n.Close()
			return Errorf(Limit, "links lead deeper than %d names", MaxDepth)
		}
		w.open = append(w.open, n)
	case Link:
		if len(w.rest) == 0 && !follow {
			w.leaf = n
			return nil
		}
		defer n.Close()
		return w.follow(n)
	default:
		w.leaf = n
	}
	return nil
}

// rise goes up one directory, for ".." in a link.
func (w *walker) rise() error {
	if len(w.open) == 0 {
		return errOutside
	}
	w.here().Close()
	w.open = w.open[:len(w.open)-1]
	w.rose = true
	return nil
}

var errOutside = Errorf(Outside, "a link leads out of this Dir (its target is not shown); if you hold a higher Dir, call walk or subDir there")

func (w *walker) follow(l Link) error {
	if w.links++; w.links > MaxLinks {
		return Errorf(Limit, "more than %d links on the way; they may go in a circle", MaxLinks)
	}
	if IsTrying(w.ctx) && !CanTry(l) {
		return ErrWouldBlock
	}
	target, err := l.Target(w.ctx)
	switch {
	case err != nil:
		return err
	case target == "":
		return NotFound
	case target[0] == '/':
		return errOutside
	case len(target) > MaxPath:
		return Errorf(Limit, "a link's target is longer than %d bytes", MaxPath)
	}
	w.rest = append(w.rest, target)
	return nil
}

// take returns the node that the walk found, and leaves it open.
func (w *walker) take() (Node, error) {
	if n := w.leaf; n != nil {
		w.leaf = nil
		return n, nil
	}
	if len(w.open) > 0 {
		n := w.here()
		w.open = w.open[:len(w.open)-1]
		return n, nil
	}
	return Dup(w.root)
}

func (w *walker) close() {
	for _, d := range w.open {
		d.Close()
	}
	if w.leaf != nil {
		w.leaf.Close()
	}
}

// Within reports whether a link stays within a Dir, judged by its text alone. The link
// is depth directories below the Dir and its text is target.
func Within(depth int, target string) bool {
	return target != "" && target[0] != '/' && Rises(target) <= depth
}

// Rises returns how many directories a relative link leads up from its own, at most, judged by its text alone: 1 for "../a", and for
// "a/../../b" too.
func Rises(target string) (most int) {
	up := 0
	for name := range strings.SplitSeq(target, "/") {
		switch name {
		case "", ".":
		case "..":
			up++
			most = max(most, up)
		default:
			up--
		}
	}
	return most
}

// LeadsOut reports whether the link at path below d, whose text is target, leads out of
// d. A link leads out of d if its text does; see [Within]. It also does if it leads out
// of its own tree to a place where the host has mounted nothing. A guest of d must not see
// the target of such a link. If a name on the link's way does not exist, LeadsOut reports
// false.
func LeadsOut(ctx context.Context, d Dir, path, target string) (bool, error) {
	names, err := SplitPath(path)
	if err != nil {
		return false, err
	}
	last := len(names) - 1
	if !Within(last, target) {
		return true, nil
	}
	if Within(0, target) {
		return false, nil // it stays below its own directory
	}
	w := walker{ctx: ctx, root: d}
	defer w.close()
	if last > 0 {
		w.rest = []string{path[:strings.LastIndexByte(path, '/')]}
	}
	if err := w.walk(true); err != nil {
		return false, err
	}
	w.rest = []string{target}
	if err = w.walk(false); err == ErrWouldBlock {
		return false, err
	}
	return CodeOf(err) == Outside, nil
}
