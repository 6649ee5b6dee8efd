package worlds

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"capd/backend/cas"
	"capd/backend/git"
	"capd/backend/memory"
	"capd/backend/physical"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
)

// Held is the memory per item of many items of one kind.
type Held struct {
	Name  string  `json:"name"`
	Count int     `json:"count"`
	Bytes float64 `json:"bytes"` // per item: heap, and stacks of goroutines
	Err   string  `json:"err,omitempty"`
}

// holding measures the memory of mounts and of open files.
func holding(ctx context.Context, o Options, s *sizes, dir string) (all []Held, err error) {
	h := &holder{ctx: ctx, dir: dir, files: max(10, s.nodes()/10)}
	defer func() { err = errors.Join(err, h.close(), os.RemoveAll(dir)) }()
	note := func(name string, n int, measure func(n int) (float64, error)) {
		if !o.Only(name) || ctx.Err() != nil {
			return
		}
		held := Held{Name: name, Count: n}
		bytes, err := measure(n)
		if held.Bytes = bytes; err != nil {
			complain(name, err)
			held.Err = err.Error()
		}
		all = append(all, held)
	}
	note("memory of a mount, with a memory store of its own", s.mounts(), func(n int) (float64, error) {
		return h.mounts(n, func() vfs.Dir { return memory.New(memory.Limits{}).Root() })
	})
	note("memory of a mount, of a store that is there", s.mounts(), func(n int) (float64, error) {
		store := memory.New(memory.Limits{})
		return h.mounts(n, store.Root)
	})
	for _, of := range []struct {
		name string
		open func() (vfs.Dir, error)
	}{
		{"memory of an open file, backend/memory", h.memory},
		{"memory of an open file, backend/physical", h.physical},
		{"memory of an open file, backend/git", h.git},
		{"memory of an open file, backend/cas", h.cas},
		{"memory of an open file, backend/memory behind a membrane", func() (vfs.Dir, error) {
			d, err := h.memory()
			return membrane.Guarded(d, nil), err
		}},
		{"memory of an open file, backend/memory in a namespace behind a membrane", h.namespace},
	} {
		note(of.name, s.nodes(), func(n int) (float64, error) {
			d, err := of.open()
			if err != nil {
				return 0, err
			}
			return h.nodes(d, n)
		})
	}
	return all, ctx.Err()
}

// A holder makes a tree of files, and stores that show it.
type holder struct {
	ctx    context.Context
	dir    string
	files  int // a tenth of the number of nodes to open
	closes []func() error
}

func (h *holder) close() (err error) {
	for _, c := range h.closes {
		err = errors.Join(err, c())
	}
	return err
}

// mounts returns the bytes per mount of n mounts.
func (h *holder) mounts(n int, tree func() vfs.Dir) (float64, error) {
	ns := namespace.New()
	before := inUse()
	for i := range n {
		if err := ns.Mount(fmt.Sprintf("mount%05d", i), tree(), namespace.Options{}); err != nil {
			return 0, err
		}
	}
	after := inUse()
	return (after - before) / float64(n), ns.Close()
}

// nodes returns the bytes per file of n open files below d. All were open once before, so that memory that
// stays after closing does not count.
func (h *holder) nodes(d vfs.Dir, n int) (each float64, err error) {
	defer d.Close()
	dirs, names, err := h.places(d)
	defer func() {
		for _, d := range dirs {
			err = errors.Join(err, d.Close())
		}
	}()
	if err != nil {
		return 0, err
	}
	open := make([]vfs.Node, n)
	var before, after float64
	for range 2 {
		before = inUse()
		for i := range open {
			at := i % len(names)
			if open[i], err = dirs[at].Lookup(h.ctx, names[at]); err != nil {
				return 0, err
			}
		}
		after = inUse()
		for i := range open {
			err = errors.Join(err, open[i].Close())
			open[i] = nil
		}
	}
	return (after - before) / float64(n), err
}

// places returns the directory and the name of each file below d.
func (h *holder) places(d vfs.Dir) (dirs []vfs.Dir, names []string, err error) {
	var paths []string
	if err := list(h.ctx, d, "", &paths); err != nil {
		return nil, nil, err
	}
	if len(paths) != h.files {
		return nil, nil, differ("files", len(paths), h.files)
	}
	for _, path := range paths {
		at, base := filepath.Split(path)
		in, err := vfs.WalkDir(h.ctx, d, filepath.Clean(at))
		if err != nil {
			return dirs, nil, err
		}
		dirs, names = append(dirs, in), append(names, base)
	}
	return dirs, names, nil
}

// inUse returns the bytes that this process uses, after a collection.
func inUse() float64 {
	runtime.GC()
	runtime.GC() // collects what finalizers and pools had kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// tree makes the files on the host.
func (h *holder) tree() (string, error) {
	dir := filepath.Join(h.dir, "tree")
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	return dir, sow(dir, h.files, func(name string) []byte { return []byte(name) })
}

func (h *holder) physical() (vfs.Dir, error) {
	dir, err := h.tree()
	if err != nil {
		return nil, err
	}
	store, err := physical.OpenAmbient(dir, physical.Options{})
	if err != nil {
		return nil, err
	}
	h.closes = append(h.closes, store.Close)
	return store.Root(), nil
}

func (h *holder) memory() (vfs.Dir, error) {
	from, err := h.physical()
	if err != nil {
		return nil, err
	}
	defer from.Close()
	store := memory.New(memory.Limits{Nodes: 2 * int64(h.files)})
	root := store.Root()
	return root, h.copy(from, root)
}

// copy copies directories and file names, without contents.
func (h *holder) copy(from, to vfs.Dir) error {
	for e, err := range from.List(h.ctx) {
		if err != nil {
			return err
		}
		if e.Kind != vfs.DirKind {
			f, err := to.Create(h.ctx, e.Name)
			if err != nil {
				return err
			}
			f.Close()
			continue
		}
		sub, err := vfs.WalkDir(h.ctx, from, e.Name)
		if err != nil {
			return err
		}
		made, err := to.Mkdir(h.ctx, e.Name)
		if err != nil {
			return errors.Join(err, sub.Close())
		}
		if err := errors.Join(h.copy(sub, made), sub.Close(), made.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (h *holder) namespace() (vfs.Dir, error) {
	d, err := h.memory()
	if err != nil {
		return nil, err
	}
	ns := namespace.New()
	h.closes = append(h.closes, ns.Close)
	return membrane.Guarded(ns.Root(), nil), ns.Mount("mounted", d, namespace.Options{})
}

func (h *holder) git() (vfs.Dir, error) {
	r := &repository{git: findGit(), dir: filepath.Join(h.dir, "repository")}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return nil, err
	}
	if err := r.fill(h.ctx, h.files); err != nil {
		return nil, err
	}
	store, err := git.OpenAmbient(r.dir, git.Options{})
	if err != nil {
		return nil, err
	}
	h.closes = append(h.closes, store.Close)
	return store.Root(), nil
}

func (h *holder) cas() (vfs.Dir, error) {
	from, err := h.physical()
	if err != nil {
		return nil, err
	}
	defer from.Close()
	store, err := cas.OpenAmbient(filepath.Join(h.dir, "store"), cas.Options{})
	if err != nil {
		return nil, err
	}
	root, err := cas.Put(h.ctx, store, from, cas.PutOptions{})
	if err != nil {
		return nil, err
	}
	return cas.Open(h.ctx, store, root)
}
