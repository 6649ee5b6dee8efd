package physical

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"capd/vfs"
)

// stagedDir is a directory in a staging directory. Where a file system can be synced as a
// whole, nothing in it is synced by itself: no name leads there, and Place syncs all of it
// first.
type stagedDir struct {
	Dir
	in   *Dir
	name string // in in, once it is placed
	st   *stage
	done func()   // releases st
	temp string   // in st
	fs   *os.File // was opened before anything was written, so that it hears of all that could not be; nil unless Store.syncsWhole
	over atomic.Bool
}

var _ vfs.DirStager = (*Dir)(nil)

// stagedDirPrefix begins the names of staged directories. A directory with another name
// in a staging directory is somebody's, and is not removed.
const stagedDirPrefix = "dir"

// StageDir implements vfs.DirStager. It answers unsupported where a new directory takes
// over something of the directory that it is made in: its group, or an access control
// list.
func (d *Dir) StageDir(ctx context.Context, name string) (vfs.StagedDir, error) {
	if err := d.mayMake(ctx, name); err != nil {
		return nil, err
	}
	if err := d.vacant(ctx, name); err != nil {
		return nil, err
	}
	if err := d.inherits(); err != nil {
		return nil, err
	}
	st, done, err := d.s.staging.near(d.at)
	if err != nil {
		return nil, err
	}
	s := &stagedDir{in: d, name: name, st: st, done: done, temp: stagedDirPrefix + strconv.FormatUint(st.next.Add(1), 10)}
	if err := s.make(); err != nil {
		done()
		return nil, err
	}
	return s, nil
}

// inherits answers unsupported where new directories take over something of d.
func (d *Dir) inherits() error {
	dir, err := d.s.enter(d.at)
	if err != nil {
		return err
	}
	defer d.s.leave(dir)
	a, err := dir.attr()
	if err != nil {
		return explain(err)
	}
	self, err := dir.self()
	if err != nil {
		return explain(err)
	}
	defer self.Close()
	if a.setgid || hasDefaultACL(self) {
		return vfs.Errorf(vfs.Unsupported, "a new directory takes over attributes of this one")
	}
	return nil
}

func (s *stagedDir) make() error {
	from, err := s.st.s.enter(s.st.at)
	if err != nil {
		return s.st.lost(err)
	}
	defer s.st.s.leave(from)
	if err := from.mkdir(s.temp, 0o777); err != nil {
		return s.st.lost(gone(err))
	}
	made, err := s.outside().child(from, s.temp)
	if err == nil && s.st.s.syncsWhole {
		s.fs, err = from.self()
		err = explain(err)
	}
	if err != nil {
		from.rmdir(s.temp)
		return err
	}
	s.s, s.at = made.s, made.at
	return nil
}

// outside is the staging directory as a Dir.
func (s *stagedDir) outside() *Dir { return &Dir{node: node{s: s.st.s}, at: s.st.at} }

// Place implements vfs.StagedDir.
func (s *stagedDir) Place(ctx context.Context) error {
	if s.over.Load() {
		return vfs.At("", vfs.Stale)
	}
	if err := s.in.changeable(ctx); err != nil {
		return err
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	s.in.s.noteMade(place{vfs.Join(s.in.at.path, s.name), s.at.id})
	r := renaming{src: s.outside(), dst: s.in, name: s.temp, newName: s.name, comes: 1}
	err := r.run(ctx)
	if err == nil && !s.over.Swap(true) {
		s.end()
	}
	return err
}

// end releases what s holds, once.
func (s *stagedDir) end() {
	if s.fs != nil {
		s.fs.Close()
	}
	s.done()
}

// Drop implements vfs.StagedDir.
func (s *stagedDir) Drop(context.Context) (e vfs.Effect) {
	if s.over.Swap(true) {
		return e
	}
	defer s.end()
	from, err := s.st.s.enter(s.st.at)
	if err != nil {
		return e
	}
	defer s.st.s.leave(from)
	e = removeAll(from, s.temp)
	e.Nodes++ // the directory itself was never counted
	return e
}

// removeAll removes the directory called name in d with everything in it, and returns
// by how much the store shrinks. What cannot be removed stays.
func removeAll(d directory, name string) (e vfs.Effect) {
	sub, _, err := d.sub(name)
	if err != nil {
		return e
	}
	_ = sub.entries(func(some []vfs.Entry) error {
		for _, entry := range some {
			a, err := sub.lstat(entry.Name)
			switch {
			case err != nil:
			case a.kind == vfs.DirKind:
				below := removeAll(sub, entry.Name)
				e.Bytes, e.Nodes = e.Bytes+below.Bytes, e.Nodes+below.Nodes
			case sub.unlink(entry.Name) == nil:
				e.Nodes--
				if a.kind == vfs.FileKind {
					e.Bytes -= a.size
				}
			}
		}
		return nil
	})
	sub.release()
	if d.rmdir(name) == nil {
		e.Nodes--
	}
	return e
}

// stagedDepth returns how many names at the beginning of path lead to a staged directory.
func stagedDepth(path string) int {
	if !strings.Contains(path, stagingPrefix) {
		return 0
	}
	names := strings.Split(path, "/")
	i := slices.IndexFunc(names, isStaging)
	if i < 0 {
		return 0
	}
	return min(i+2, len(names))
}
