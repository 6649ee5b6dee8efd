package patch

import (
	"bytes"

	"capd/vfs"
)

// Content is what a file holds.
type Content struct {
	Data []byte
	Exec bool
}

// Change is what a patch makes of one path.
type Change struct {
	Path    string
	From    string   // where the content was, of a renamed or copied file; "" for any other
	Was, Is *Content // nil for nothing
}

// Apply returns what p makes of the files that read returns, in the order in which p names them first, or why one of
// them cannot be changed so. read returns nil if nothing is at a path. It is called once for each path. Apply answers conflict,
// with the path, for a hunk that does not fit, notFound for a file that is not there, exists, limit and tooLarge, and read's errors.
//
// As with git, a file that is patched twice is patched the second time as the first has left it, but renames and copies begin at
// what was there before the patch.
func (p *Patch) Apply(read func(path string) (*Content, error)) ([]Change, error) {
	t := &tree{read: read, files: map[string]*file{}, leaves: map[string]bool{}}
	for i := range p.Files {
		if v := p.Files[i].Verb; v == Delete || v == Rename {
			t.leaves[p.Files[i].Path] = true
		}
	}
	for i := range p.Files {
		f := &p.Files[i]
		if err := t.apply(f); err != nil {
			return nil, err
		}
	}
	var all []Change
	for _, path := range t.order {
		f := t.files[path]
		if f.was == nil && f.is == nil || f.is != nil && f.was != nil && f.is.Exec == f.was.Exec && bytes.Equal(f.is.Data, f.was.Data) {
			continue
		}
		all = append(all, Change{path, f.from, f.was, f.is})
	}
	return all, nil
}

// tree is what a patch has made so far.
type tree struct {
	read   func(path string) (*Content, error)
	files  map[string]*file
	order  []string
	leaves map[string]bool // paths at which the patch removes what is there
	made   int             // bytes
}

type file struct {
	was, is *Content
	from    string
	made    bool // by the patch, from another path
}

func (t *tree) at(path string) (*file, error) {
	if f := t.files[path]; f != nil {
		return f, nil
	}
	is, err := t.read(path)
	if err != nil {
		return nil, vfs.At(path, err)
	}
	f := &file{was: is, is: is}
	t.files[path] = f
	t.order = append(t.order, path)
	return f, nil
}

func (t *tree) apply(p *File) error {
	if p.Verb == Create {
		return t.create(p)
	}
	f, err := t.at(p.Path)
	if err != nil {
		return err
	}
	is := f.is
	if (p.Verb == Rename || p.Verb == Copy) && f.was != nil {
		is = f.was
	}
	if is == nil {
		return vfs.At(p.Path, vfs.Errorf(vfs.NotFound, "line %d of the patch changes this file, and nothing is there", p.line))
	}
	if p.Verb == Delete {
		if err := p.deletes(is.Data); err != nil {
			return vfs.At(p.Path, err)
		}
		f.leave()
		return nil
	}
	data, err := p.apply(is.Data)
	if err != nil {
		return vfs.At(p.Path, err)
	}
	if len(p.Hunks) > 0 {
		if t.made += len(data); t.made > MaxMade {
			return vfs.Errorf(vfs.TooLarge, "the files that the patch makes have more than %d bytes; send several patches", MaxMade)
		}
	}
	now := &Content{data, p.exec(is.Exec)}
	if p.Verb == Modify || p.Path == p.To {
		f.is = now
		return nil
	}
	if err := t.place(p, now, p.Path); err != nil {
		return err
	}
	if p.Verb == Rename {
		f.leave()
	}
	return nil
}

// leave removes what was there, unless the patch has already put something in its place.
func (f *file) leave() {
	if f.made {
		return
	}
	f.is = nil
}

func (t *tree) create(p *File) error {
	now := &Content{p.created(), p.exec(false)}
	if t.made += len(now.Data); t.made > MaxMade {
		return vfs.Errorf(vfs.TooLarge, "the files that the patch makes have more than %d bytes; send several patches", MaxMade)
	}
	return t.place(p, now, "")
}

// place puts a new file at p.To.
func (t *tree) place(p *File, now *Content, from string) error {
	f, err := t.at(p.To)
	switch {
	case err != nil:
		return err
	case f.made, f.is != nil && !t.leaves[p.To]:
		text := "line %d of the patch makes this file, and something is there"
		if f.is != nil && bytes.Equal(f.is.Data, now.Data) {
			text += " with the same content: it seems applied already"
		}
		return vfs.At(p.To, vfs.Errorf(vfs.Exists, text, p.line))
	}
	f.is, f.from, f.made = now, from, true
	return nil
}

func (f *File) exec(now bool) bool {
	if f.Is == Unsaid {
		return now
	}
	return f.Is == Executable
}
