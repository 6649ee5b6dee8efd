package change

import (
	"context"
	"io"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/step"
)

// A Tree is made elsewhere, such as from an archive, and belongs to who extracts it: nobody else sees or changes it, and it holds
// files and directories alone.
type Tree interface {
	Root() vfs.Dir
	Below(name string) vfs.Dir // a directory that holds Root under name
}

// Extract makes what t holds at path in dst: all of it or nothing. If nothing is at path, it becomes a directory, which appears as
// that of a copy does; see [Copy]. If a directory is there, or path is "", what t holds is added to it as one change, with the bounds of
// such; see [Do]. Nothing that is there is replaced: exists. Executable bits are kept, times are not. done is what was made.
func Extract(ctx context.Context, t Tree, dst vfs.Dir, path string) (done Copied, err error) {
	if path == "" {
		return add(ctx, t.Root(), dst)
	}
	n, err := vfs.Walk(ctx, dst, path)
	switch vfs.CodeOf(err) {
	case "":
		defer n.Close()
		into, ok := n.(vfs.Dir)
		if !ok {
			return done, vfs.Errorf(vfs.Exists, "a file is there; name a directory, or a path where nothing is")
		}
		return add(ctx, t.Root(), into)
	case vfs.NotFound:
	default:
		return done, err
	}
	d, name, release, err := vfs.WalkParent(ctx, dst, path)
	if err != nil {
		return done, err
	}
	defer release()
	return Copy(ctx, t.Below(extracted), extracted, d, name, vfs.If{}, vfs.If{})
}

// extracted is the name of the tree in what is copied. Nobody sees it.
const extracted = "archive"

// add adds what tree holds to d as one change.
func add(ctx context.Context, tree, d vfs.Dir) (done Copied, err error) {
	var steps []step.Step
	var walk func(dir vfs.Dir, at string, known bool) error
	walk = func(dir vfs.Dir, at string, known bool) error { // known: d has a directory there
		if err := meter.Yield(ctx); err != nil {
			return err
		}
		for e, err := range dir.List(ctx) {
			if err != nil {
				return err
			}
			path := vfs.Join(at, e.Name)
			n, err := dir.Lookup(ctx, e.Name)
			if err != nil {
				return err
			}
			kind := vfs.Other
			if known {
				if kind, err = kindAt(ctx, d, path); err != nil {
					return vfs.At(path, err)
				}
			}
			sub, isDir := n.(vfs.Dir)
			switch {
			case isDir && kind == vfs.DirKind:
			case kind != vfs.Other:
				return vfs.At(path, vfs.Errorf(vfs.Exists, "something is there already; nothing was extracted: choose a new directory, or move it away"))
			case isDir:
				steps = append(steps, step.Step{Verb: step.Mkdir, Path: path})
			default:
				s, err := putOf(ctx, n.(vfs.File), path)
				if err != nil {
					return vfs.At(path, err)
				}
				steps = append(steps, s)
				done.Bytes += s.Source.Size
			}
			if len(steps) > step.Max || done.Bytes > MaxBytes {
				return vfs.Errorf(vfs.Limit, "at most %d files and directories and %d MiB are added to a directory that is there; extract into a new one", step.Max, MaxBytes>>20)
			}
			if isDir {
				if err := walk(sub, path, kind == vfs.DirKind); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := walk(tree, "", true); err != nil {
		return Copied{}, err
	}
	done.Entries = int64(len(steps))
	if _, err := Do(ctx, d, steps, Options{Whole: true}); err != nil {
		return Copied{}, err
	}
	return done, nil
}

// kindAt returns what is at path, or Other for nothing. A link is what it is.
func kindAt(ctx context.Context, d vfs.Dir, path string) (vfs.Kind, error) {
	n, err := vfs.WalkLink(ctx, d, path)
	switch vfs.CodeOf(err) {
	case "":
		defer n.Close()
		return vfs.KindOf(n), nil
	case vfs.NotFound:
		return vfs.Other, nil
	}
	return vfs.Other, err
}

// putOf returns the step that makes f at path.
func putOf(ctx context.Context, f vfs.File, path string) (s step.Step, err error) {
	info, err := f.Stat(ctx)
	if err != nil {
		return s, err
	}
	v, err := vfs.VersionOf(ctx, f)
	if err != nil {
		return s, err
	}
	s = step.Step{Verb: step.Put, Path: path, If: vfs.If{Absent: true}, Source: &step.Source{
		Version: v, Size: info.Size, Open: func(ctx context.Context) (io.ReadCloser, error) { return diff.ReadFile(ctx, f) },
	}}
	if info.Exec {
		s.Exec = &info.Exec
	}
	return s, nil
}
