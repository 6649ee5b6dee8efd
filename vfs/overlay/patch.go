package overlay

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/unified"
)

// Patch has the texts of changes. Together they are a patch for git apply: it turns the
// lower tree, as it was at that moment, into what the overlay shows.
type Patch struct {
	o     *Overlay
	files map[string][]filePatch // by the path of the change they belong to, in byte order
	lacks map[string][]string    // by the same paths: what git cannot express, for people
	newer map[string]bool        // by the same paths: the lower tree has changed there too
}

// filePatch is the change at one path that is not a directory.
type filePatch struct {
	path, from string // from is the path of the old content in the lower tree
	was, is    diff.State
	how        unified.How
}

// Patch returns the changes that Diff returns for the whole tree, and their text.
func (o *Overlay) Patch(ctx context.Context) ([]diff.Change, *Patch, error) {
	o.warm(ctx, "")
	var d *draft
	err := o.unchanged(ctx, func(s *snapshot) (err error) {
		if d, err = s.draft(ctx); err != nil {
			return err
		}
		return d.directories(ctx)
	})
	if err != nil {
		return nil, nil, err
	}
	return d.changes, d.patch, nil
}

// draft returns the changes of s, and their text but for what git does not know of
// directories.
func (s *snapshot) draft(ctx context.Context) (*draft, error) {
	changes, err := s.diff(ctx, "")
	if err != nil {
		return nil, err
	}
	d := &draft{s: s, changes: changes, at: map[string]*diff.Change{}, from: map[string]*diff.Change{}, differ: map[string]filePatch{},
		patch: &Patch{o: s.o, files: map[string][]filePatch{}, lacks: map[string][]string{}, newer: map[string]bool{}}}
	return d, d.run(ctx)
}

const (
	beneathToo = "the tree below changed here too: what follows is the difference from what is there now\n"
	outdated   = "changed at this moment; ask again\n"
)

// Text returns the text of c, a change returned with p. lacks says, for people, what of
// the change the text leaves out; "" means nothing. It leaves out a content longer than
// [unified.MaxData] and a text longer than [unified.MaxPatch].
func (p *Patch) Text(ctx context.Context, c diff.Change) (text, lacks string, err error) {
	var b strings.Builder
	missing := slices.Clone(p.lacks[c.Path])
	if p.newer[c.Path] {
		b.WriteString(beneathToo)
	}
	for _, f := range p.files[c.Path] {
		one, lacks, err := f.text(ctx, p.o)
		switch {
		case vfs.CodeOf(err) == vfs.Conflict:
			return outdated, "it " + strings.TrimSpace(outdated), nil
		case err != nil:
			return "", "", err
		case b.Len()+len(one) > unified.MaxPatch:
			return b.String(), "the text is too long; ask for parts of the tree", nil
		case lacks != "":
			missing = append(missing, lacks)
		}
		b.WriteString(one)
	}
	return b.String(), list(missing), nil
}

// maxLacks is how many things that a text leaves out are named.
const maxLacks = 10

func list(all []string) string {
	if more := len(all) - maxLacks; more > 0 {
		all = append(all[:maxLacks:maxLacks], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, ", ")
}

func (f *filePatch) text(ctx context.Context, o *Overlay) (text, lacks string, err error) {
	return f.how.Text(ctx, diff.Change{
		Path: f.path, From: f.from, Kind: diff.KindOf(f.was, f.is), Was: f.was, Is: f.is,
		Old: reader(f.from, f.was, o.lowerAt), Content: reader(f.path, f.is, o.open),
	})
}

var errOutdated = vfs.Errorf(vfs.Conflict, "the content to compare is no longer there; ask for the changes again")

// reader returns a function that reads the file that open opens at path, and that must
// have the state s.
func reader(path string, s diff.State, open func(context.Context, string) (vfs.Node, error)) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		n, err := open(ctx, path)
		if missing(err) {
			return nil, errOutdated
		}
		if err != nil {
			return nil, err
		}
		if is, err := stateOf(ctx, n); err != nil || is != s {
			n.Close()
			return nil, cmp.Or(err, errOutdated)
		}
		return readerOf(ctx, n)
	}
}

// draft collects what a patch will say.
type draft struct {
	s       *snapshot
	changes []diff.Change
	at      map[string]*diff.Change // by their paths
	from    map[string]*diff.Change // by their origins
	differ  map[string]filePatch    // paths at which the two trees differ, directories included
	patch   *Patch
}

func (d *draft) run(ctx context.Context) error {
	for i := range d.changes {
		c := &d.changes[i]
		d.at[c.Path] = c
		if c.From != "" {
			d.from[c.From] = c
		}
	}
	if err := d.compare(ctx); err != nil {
		return err
	}
	paths := slices.Sorted(maps.Keys(d.differ))
	taken := map[string]bool{}
	for _, path := range paths {
		if err := d.source(ctx, path, taken); err != nil {
			return err
		}
	}
	for _, path := range paths {
		f := d.differ[path]
		if taken[path] { // its new name has it already
			continue
		}
		at := d.owner(path)
		d.patch.files[at] = append(d.patch.files[at], f)
		if b, known := d.s.bases[path]; known && !b.moved && b.state != f.was {
			d.patch.newer[at] = true
		}
	}
	return nil
}

// compare finds the paths that differ, with their old and new states.
func (d *draft) compare(ctx context.Context) error {
	p := &plan{s: d.s, chosen: &selection{all: true}, paths: map[string]bool{}}
	if err := p.collect(ctx); err != nil {
		return err
	}
	for todo := p.paths; len(todo) > 0; {
		p.paths = map[string]bool{}
		for path := range todo {
			if err := d.compareAt(ctx, p, path); err != nil {
				return err
			}
		}
		todo = p.paths
		maps.DeleteFunc(todo, func(path string, _ bool) bool { _, seen := d.differ[path]; return seen })
	}
	return nil
}

// compareAt compares path. If a directory there is removed, it adds everything in it to p.
func (d *draft) compareAt(ctx context.Context, p *plan, path string) error {
	was, err := d.s.lowerState(ctx, path)
	switch {
	case replaced(err):
		at := d.owner(path)
		d.patch.lacks[at] = append(d.patch.lacks[at], vfs.Printable(path)+" is neither file, directory nor link")
		return nil
	case err != nil:
		return err
	}
	is, err := d.s.visible(ctx, path)
	if err != nil || was == is {
		return err
	}
	d.differ[path] = filePatch{path: path, from: path, was: was, is: is}
	if was.Kind == vfs.DirKind && is.Kind != vfs.DirKind {
		return p.addAll(ctx, path, d.s.lower.Open)
	}
	return nil
}

// source finds out whether the new file at path comes from another path of the lower
// tree. taken has the removed paths that were used already.
func (d *draft) source(ctx context.Context, path string, taken map[string]bool) error {
	f := d.differ[path]
	from, ok := d.origin(path)
	if !ok || !f.was.Absent() || f.is.Kind != vfs.FileKind {
		return nil
	}
	was, err := d.s.lowerState(ctx, from)
	if replaced(err) || err == nil && was.Kind != vfs.FileKind {
		return nil
	}
	if err != nil {
		return err
	}
	f.from, f.was, f.how = from, was, unified.Copied
	if old, ok := d.differ[from]; ok && old.is.Absent() && !taken[from] {
		taken[from], f.how = true, unified.Renamed
	}
	d.differ[path] = f
	return nil
}

// origin returns the lower path of the node at path, if a change says that it, or a
// directory it is in, was moved.
func (d *draft) origin(path string) (from string, ok bool) {
	for up := path; up != ""; up, _ = diff.Split(up) {
		if c := d.at[up]; c != nil && c.From != "" {
			return c.From + strings.TrimPrefix(path, up), true
		}
	}
	return "", false
}

// owner returns the path of the change to which path belongs: its own, or that of a
// directory it is or was in.
func (d *draft) owner(path string) string {
	if d.at[path] != nil {
		return path
	}
	for up := path; up != ""; up, _ = diff.Split(up) {
		for _, c := range []*diff.Change{d.at[up], d.from[up]} {
			if c != nil {
				return c.Path
			}
		}
	}
	if len(d.changes) > 0 {
		return d.changes[0].Path
	}
	return ""
}
