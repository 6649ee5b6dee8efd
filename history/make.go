package history

import (
	"context"
	"io"
	"strings"

	"capd/vfs"
)

// Make makes the steps of p, none of which has an error. made is how many were made, whatever happened then.
func (p *Plan) Make(ctx context.Context) (made int, err error) {
	for i, s := range p.Steps {
		if err := p.make(ctx, s); err != nil {
			return i, vfs.At(s.Path, err)
		}
	}
	return len(p.Steps), nil
}

func (p *Plan) make(ctx context.Context, s *Step) error {
	dir, name, release, err := parent(ctx, p.dir, s.Path)
	if err != nil {
		return err
	}
	defer release()
	switch s.Op {
	case "rename":
		to, newName, release, err := parent(ctx, p.dir, s.To)
		if err != nil {
			return err
		}
		defer release()
		return dir.Rename(ctx, name, to, newName, condition(s.is), vfs.If{Absent: true})
	case attributes:
		f, err := vfs.LookupAs[vfs.File](ctx, dir, name, vfs.NotRegular)
		if err != nil {
			return err
		}
		defer f.Close()
		a := vfs.Attributes{}
		if s.is.Exec != s.want.Exec {
			a.Exec = &s.want.Exec
		}
		if s.is.Modified != s.want.Modified {
			a.ModifiedMs = &s.want.Modified
		}
		if a == (vfs.Attributes{}) {
			return nil
		}
		return vfs.SetAttributes(ctx, f, a, condition(s.is))
	}
	return p.restore(ctx, dir, name, s)
}

// condition is one that only what is as s says meets.
func condition(s State) vfs.If {
	if s.Kind != vfs.FileKind {
		return vfs.If{}
	}
	v, _ := vfs.ParseVersion(s.Version) // the zero version is no condition
	return vfs.If{Is: v}
}

// restore makes what is called name in dir, which is as s.is says, what it was.
func (p *Plan) restore(ctx context.Context, dir vfs.Dir, name string, s *Step) error {
	if s.is.Kind == vfs.FileKind && s.want.Kind == vfs.FileKind {
		if s.is.Version != "" && s.is.Version == s.want.Version && s.is.Exec == s.want.Exec {
			return nil
		}
		return p.put(ctx, dir, name, s, condition(s.is))
	}
	if !s.is.Absent() {
		c := condition(s.is)
		c.NoFile = s.is.Kind != vfs.FileKind
		if err := dir.Remove(ctx, name, c); err != nil {
			return err
		}
	}
	switch s.want.Kind {
	case vfs.FileKind:
		return p.put(ctx, dir, name, s, vfs.If{Absent: true})
	case vfs.DirKind:
		d, err := dir.Mkdir(ctx, name)
		if err == nil {
			d.Close()
		}
		return err
	case vfs.LinkKind:
		return vfs.Symlink(ctx, dir, name, s.want.Target)
	}
	return nil
}

// put puts what was displaced back.
func (p *Plan) put(ctx context.Context, dir vfs.Dir, name string, s *Step, c vfs.If) error {
	content, err := p.journal.Open(ctx, s.row)
	if err != nil {
		return err
	}
	defer content.Close()
	r := io.NewSectionReader(content, 0, content.Size())
	_, err = vfs.Install(ctx, dir, name, r, s.want.Exec, c)
	if vfs.CodeOf(err) == vfs.Unsupported {
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			return err
		}
		_, err = dir.Replace(ctx, name, r, c)
	}
	return err
}

// Conflicts returns what p says of the places that are no longer what the changes left, or nil.
func (p *Plan) Conflicts() error {
	var where []string
	code := vfs.Conflict
	for _, s := range p.Steps {
		if s.Err == nil {
			continue
		}
		if c := vfs.CodeOf(s.Err); len(where) == 0 {
			code = c
		}
		if len(where) < 10 {
			where = append(where, strings.TrimPrefix(vfs.Printable(s.Path)+": ", ": ")+vfs.Message(s.Err))
		}
	}
	if len(where) == 0 {
		return nil
	}
	return vfs.Errorf(code, "nothing was undone: %s", strings.Join(where, "; "))
}
