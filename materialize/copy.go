package materialize

import (
	"context"
	"os"
	"sync"
	"time"

	"capd/vfs"
	"capd/vfs/copier"
	"capd/vfs/diff"
)

// Reasons for leaving out an entry.
const (
	whyOutside    = "a link that leads out of the tree"
	whySpecial    = "neither a file, a directory nor a link"
	whyElsewhere  = "another file system begins there"
	whyUnreadable = "it may not be read"
	whyGone       = "it went while it was copied"
	whyName       = "the host's file system does not take its name, or takes it for another's"
)

// filling fills a tree. It is what the sinks of its directories share.
type filling struct {
	t  *Tree
	mu sync.Mutex // guards the tree's fields until it is filled
}

// copy copies the Dir into the tree.
func (t *Tree) copy(ctx context.Context, o Options) error {
	f := &filling{t: t}
	within := copier.Within(t.from)
	return copier.Copy(ctx, t.from, &sink{filling: f, to: t.root}, copier.Options{
		Limits:   t.bounds,
		Workers:  o.Workers,
		Times:    true,
		Progress: o.Progress,
		Exclude:  f.exclude,
		Skip:     f.skip,
		Link: func(ctx context.Context, path, target string) error {
			err := within(ctx, path, target)
			if err == vfs.Outside {
				f.mu.Lock()
				defer f.mu.Unlock()
				t.outLinks[path] = target
			}
			return err
		},
	})
}

func (f *filling) exclude(path string) bool {
	if !f.t.excludes(path) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.t.absent = append(f.t.absent, path)
	return true
}

func (f *filling) leaveOut(path, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.t.leaveOut(path, why)
}

// skip leaves out an entry if its error concerns only that entry.
func (f *filling) skip(u copier.Unread) error {
	why, ok := skippable(u.Err)
	if !ok {
		return u.Err
	}
	f.leaveOut(u.Path, why)
	return nil
}

// skippable reports whether an error concerns only one entry, and why that entry is
// left out.
func skippable(err error) (why string, ok bool) {
	switch vfs.CodeOf(err) {
	case vfs.NotFound, vfs.Stale, vfs.NotDir, vfs.IsDir:
		return whyGone, true
	case vfs.NotRegular:
		return whySpecial, true
	case vfs.CrossDevice:
		return whyElsewhere, true
	case vfs.Denied:
		return whyUnreadable, true
	case vfs.Outside: // a link, or of a Dir of a remote host
		return whyOutside, true
	case vfs.Invalid: // a name that no Dir may list
		return whyName, true
	}
	return "", false
}

func (f *filling) add(path string, r *record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.t.records[path] = r
}

// unmade handles an error of making an entry. If the host's file system does not accept
// its name, the entry is left out; otherwise it returns err.
func (f *filling) unmade(path string, err error) error {
	err = explain(err)
	switch vfs.CodeOf(err) {
	case vfs.Exists, vfs.Invalid:
		f.leaveOut(path, whyName)
		return copier.ErrLeftOut
	}
	return err
}

// sink is a directory of the tree that is being filled.
type sink struct {
	*filling
	to   *os.Root
	path string
	info vfs.Info
}

// Mkdir implements copier.Sink.
func (s *sink) Mkdir(_ context.Context, name string, info vfs.Info) (copier.Sink, error) {
	path := vfs.Join(s.path, name)
	if err := s.to.Mkdir(name, 0o700); err != nil {
		return nil, s.unmade(path, err)
	}
	to, err := s.to.OpenRoot(name)
	if err != nil {
		return nil, explain(err)
	}
	s.add(path, &record{state: diff.State{Kind: vfs.DirKind}})
	return &sink{s.filling, to, path, info}, nil
}

// Link implements copier.Sink.
func (s *sink) Link(_ context.Context, name, target string) error {
	path := vfs.Join(s.path, name)
	if err := s.to.Symlink(target, name); err != nil {
		return s.unmade(path, err)
	}
	s.add(path, &record{state: diff.State{Kind: vfs.LinkKind, Target: target}})
	return nil
}

// File implements copier.Sink.
func (s *sink) File(ctx context.Context, name string, f *copier.File) error {
	path, perm := vfs.Join(s.path, name), os.FileMode(0o600)
	if f.Info.Exec {
		perm = 0o700
	}
	out, err := s.to.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return s.unmade(path, err)
	}
	defer out.Close()
	version, err := f.CopyTo(ctx, out)
	if err != nil {
		return explain(err)
	}
	setModified(s.to, name, f.Info) // before its attributes are taken
	made, err := out.Stat()
	if err != nil {
		return explain(err)
	}
	s.add(path, &record{state: diff.State{Kind: vfs.FileKind, Exec: f.Info.Exec, Version: version}, attr: attrOf(made)})
	return nil
}

// End implements copier.Sink.
func (s *sink) End(context.Context, bool) error {
	if s.path == "" { // the tree keeps it
		return nil
	}
	setModified(s.to, ".", s.info)
	return s.to.Close()
}

// setModified sets the modification time of name in root to that of info; programs such
// as make compare times. A store without times has 0. If the host's file system does
// not accept the time, name keeps that of the copy.
func setModified(root *os.Root, name string, info vfs.Info) {
	if info.ModifiedMs != 0 {
		modified := time.UnixMilli(info.ModifiedMs)
		_ = root.Chtimes(name, modified, modified)
	}
}
