// Package dir serves a vfs.Dir as the interface Dir. It only translates: the vfs.Dir
// decides what is allowed.
package dir

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"

	"capnproto.org/go/capnp/v3"

	"capd/cap/file"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/help"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

// New returns a capability for d. It takes d over, and closes it when the last
// reference to the capability is gone.
func New(d vfs.Dir) *vat.Cap { return reached(d, "") }

// reached is like New, for a directory that was reached by path.
func reached(d vfs.Dir, path string) *vat.Cap {
	return vat.Serve(table, &server{dir: d, name: strings.Clone(wire.Base(path))})
}

// Of returns the directory behind a capability that New made. It remains the
// capability's.
func Of(c *vat.Cap) (vfs.Dir, bool) {
	s, ok := vat.Local[*server](c)
	if !ok {
		return nil, false
	}
	return s.dir, true
}

type server struct {
	dir  vfs.Dir
	name string // last name of the path by which it was reached, or ""

	mu   sync.Mutex
	next *listing // continues after the last page
}

// Node returns the node that s serves.
func (s *server) Node() vfs.Node { return s.dir }

// Release closes the directory.
func (s *server) Release() {
	s.dropListing()
	s.dir.Close()
}

var table *vat.Table

func init() { // not in the declaration: the methods use table
	table = vat.NewTable(
		// looks at as many entries as a page takes, and asks every guard about each
		vat.Handle(schema.Dir_list, wire.Ordered(membrane.OpList, (*server).list), vat.Heavy()),
		// looks up one name
		vat.Handle(schema.Dir_get, wire.Ordered(membrane.OpLookup, (*server).get), vat.Try()),
		// looks up each name of a path, and asks every guard about it; so do all below
		// that take a path
		vat.Handle(schema.Dir_walk, wire.Ordered(membrane.OpLookup, wire.OnPath((*server).walk)), vat.Try(), deep[schema.Dir_walk_Params]()),
		vat.Handle(schema.Dir_openDir, wire.Ordered(membrane.OpLookup, wire.OnPath(openDir[schema.Dir_openDir_Params, schema.Dir_openDir_Results])), vat.Try(), deep[schema.Dir_openDir_Params]()),
		vat.Handle(schema.Dir_openFile, wire.Ordered(membrane.OpLookup, wire.OnPath((*server).openFile)), vat.Try(), deep[schema.Dir_openFile_Params]()),
		vat.Handle(schema.Dir_subDir, wire.Ordered(membrane.OpLookup, wire.OnPath(openDir[schema.Dir_subDir_Params, schema.Dir_subDir_Results])), vat.Try(), deep[schema.Dir_subDir_Params]()),
		// change one name and write what was sent; a condition may need the version of
		// a large file
		vat.Handle(schema.Dir_put, wire.Ordered(membrane.OpReplace, (*server).put), deepOrOnVersion[schema.Dir_put_Params]()),
		vat.Handle(schema.Dir_stage, wire.Ordered(membrane.OpReplace, (*server).stage), deepOrOnVersion[schema.Dir_stage_Params]()),
		vat.Handle(schema.Dir_createDir, wire.Ordered(membrane.OpMkdir, wire.OnPath((*server).createDir)), deep[schema.Dir_createDir_Params]()),
		vat.Handle(schema.Dir_createFile, wire.Ordered(membrane.OpCreate, wire.OnPath((*server).createFile)), deep[schema.Dir_createFile_Params]()),
		vat.Handle(schema.Dir_remove, wire.Ordered(membrane.OpRemove, (*server).remove), deepOrOnVersion[schema.Dir_remove_Params]()),
		// follows the new link to where it leads
		vat.Handle(schema.Dir_symlink, wire.Ordered(membrane.OpSymlink, wire.OnPath((*server).symlink)), deep[schema.Dir_symlink_Params]()),
		// may copy a whole tree between places with different rules; then it needs the
		// version of the source even without a condition
		vat.Handle(schema.Dir_move, wire.Ordered(membrane.OpRename, (*server).move), vat.Heavy()),
		// may copy a whole tree
		vat.Handle(schema.Dir_copy, wire.Ordered(membrane.OpCopy, (*server).copy), vat.Heavy()),
		// unpacks an archive, and makes what it holds
		vat.Handle(schema.Dir_extract, wire.Ordered(membrane.OpRead, (*server).extract), vat.Heavy()),
		// asks the store once
		vat.Handle(schema.Dir_stat, wire.Ordered(membrane.OpStat, (*server).stat), vat.Try()),
		// looks at every entry below
		vat.Handle(schema.Dir_glob, wire.Ordered(membrane.OpList, (*server).glob), vat.Heavy()),
		// likewise
		vat.Handle(schema.Dir_tree, wire.Ordered(membrane.OpList, (*server).tree), vat.Heavy()),
		// and reads every file
		vat.Handle(schema.Dir_grep, wire.Ordered(membrane.OpList, (*server).grep), vat.Heavy()),
		// reads as many files as a message takes
		vat.Handle(schema.Dir_readMany, wire.Ordered(membrane.OpRead, (*server).readMany), vat.Heavy()),
		// may need the version of many large files
		vat.Handle(schema.Dir_changedSince, wire.Ordered(membrane.OpRead, (*server).changedSince), vat.Heavy()),
		// read what was displaced, for its version; and plan and make any number of changes
		vat.Handle(schema.Dir_history, wire.Ordered(membrane.OpRead, (*server).history), vat.Heavy()),
		vat.Handle(schema.Dir_undo, wire.Ordered(membrane.OpRead, (*server).undo), vat.Heavy()),
		vat.Handle(schema.Dir_readPast, wire.Ordered(membrane.OpRead, (*server).readPast), vat.Heavy()),
		vat.Handle(schema.Dir_turn, (*server).turn),
		// watches every directory below, and waits
		vat.Handle(schema.Dir_changes, wire.Ordered(membrane.OpWatch, (*server).changes), vat.Heavy()),
		// makes one directory
		vat.Handle(schema.Dir_temp, wire.Ordered(membrane.OpMkdir, (*server).temp)),
		// ask neither a store nor a guard, but for explain
		vat.Handle(schema.Dir_readOnly, (*server).readOnly),
		vat.Handle(schema.Dir_revocable, (*server).revocable),
		wire.Help(schema.Dir_help, help.Text),
		vat.Handle(schema.Dir_narrow, (*server).narrow),
		vat.Handle(schema.Dir_rights, (*server).rights),
		vat.Handle(schema.Dir_explain, (*server).explain, vat.Heavy()),
		// reads any number of files
		vat.Handle(schema.Dir_archive, wire.Ordered(membrane.OpArchive, (*server).archive), vat.Heavy()),
		// reads and writes every file that it names
		vat.Handle(schema.Dir_patch, wire.Ordered(membrane.OpChange, (*server).patch), vat.Heavy()),
		vat.Handle(schema.Dir_change, wire.OrderedBy(membrane.OpChange, needsOf, (*server).change), vat.Heavy()),
	)
}

// deep is for methods that walk a path. A long path makes their calls heavy.
func deep[P wire.Pathed]() vat.HandleOption { return vat.HeavyIf(wire.Deep[P]) }

// deepOrOnVersion is deep for methods that also take a condition.
func deepOrOnVersion[P interface {
	wire.Pathed
	wire.Conditional
}]() vat.HandleOption {
	return vat.HeavyIf(func(p P) bool { return wire.Deep(p) || wire.OnVersion(p) })
}

func (s *server) get(c vat.Call[schema.Dir_get_Params, schema.Dir_get_Results]) error {
	name, err := wire.EntryName(c.Params().NameBytes())
	if err != nil {
		return err
	}
	if c.Trying() && !vfs.CanTry(s.dir) {
		return vat.ErrWouldBlock
	}
	ctx := vfs.Recalling(wire.Look(c))
	n, err := s.dir.Lookup(ctx, name)
	if err != nil {
		return wire.Looked(name, err)
	}
	return wire.Looked(name, s.setNode(ctx, c.Caps(), c.Results().NewNode, n, name))
}

func (s *server) walk(c vat.Call[schema.Dir_walk_Params, schema.Dir_walk_Results], path string) error {
	ctx := vfs.Recalling(wire.Look(c))
	n, err := walk(c.Params().NoFollow())(ctx, s.dir, path)
	if err != nil {
		return wire.Looked(path, err)
	}
	caps := c.Caps()
	if c.Params().StatOnly() {
		caps = nil
	}
	return wire.Looked(path, s.setNode(ctx, caps, c.Results().NewNode, n, path))
}

// walk returns how to walk a path.
func walk(noFollow bool) func(context.Context, vfs.Dir, string) (vfs.Node, error) {
	if noFollow {
		return vfs.WalkLink
	}
	return vfs.Walk
}

// openDir serves both methods openDir and subDir, which do the same for different
// purposes.
func openDir[P interface {
	~capnp.StructKind
	PathBytes() ([]byte, error)
	NoFollow() bool
}, R dirResults](s *server, c vat.Call[P, R], path string) error {
	n, err := walk(c.Params().NoFollow())(wire.Look(c), s.dir, path)
	if err != nil {
		return wire.Looked(path, err)
	}
	d, err := vfs.AsDir(n)
	if err != nil {
		return vfs.At(path, err)
	}
	return answer(s, c, d, path)
}

// dirResults are results whose only field is a directory.
type dirResults interface {
	~capnp.StructKind
	SetDir(capnp.Interface) error
}

// answer stores a capability for d in the results. d was reached by path. answer takes
// it over.
func answer[P ~capnp.StructKind, R dirResults](s *server, c vat.Call[P, R], d vfs.Dir, path string) error {
	return c.Results().SetDir(c.Caps().Put(reached(d, path)))
}

func (s *server) openFile(c vat.Call[schema.Dir_openFile_Params, schema.Dir_openFile_Results], path string) error {
	n, err := walk(c.Params().NoFollow())(wire.Look(c), s.dir, path)
	if err != nil {
		return wire.Looked(path, err)
	}
	f, err := vfs.AsFile(n)
	if err != nil {
		return vfs.At(path, err)
	}
	return c.Results().SetFile(c.Caps().Put(file.New(f, path)))
}

func (s *server) put(c vat.Call[schema.Dir_put_Params, schema.Dir_put_Results]) error {
	path, cond, err := s.target(c.Params().PathBytes, c.Params())
	if err != nil {
		return err
	}
	data, err := wire.Param(c.Params().Data())
	if err == nil {
		err = wire.CheckWhole(len(data))
	}
	if err != nil {
		return vfs.At(path, err)
	}
	v, err := s.place(c.Params().NoFollow())(c.Context(), s.dir, path, bytes.NewReader(data), cond)
	if err != nil {
		return vfs.At(path, err)
	}
	return c.Results().SetVersion(v[:])
}

// place returns how to put a whole file at a path.
func (*server) place(noFollow bool) func(context.Context, vfs.Dir, string, io.Reader, vfs.If) (vfs.Version, error) {
	if noFollow {
		return vfs.PutNoFollow
	}
	return vfs.Put
}

// target reads a path and a condition.
func (s *server) target(path func() ([]byte, error), cond wire.Conditional) (string, vfs.If, error) {
	p, err := wire.Path(path())
	if err != nil {
		return "", vfs.If{}, err
	}
	c, err := wire.If(cond)
	return p, c, vfs.At(p, err)
}

func (s *server) stage(c vat.Call[schema.Dir_stage_Params, schema.Dir_stage_Results]) error {
	path, cond, err := s.target(c.Params().PathBytes, c.Params())
	if err != nil {
		return err
	}
	// The writer keeps the directory open even if its holder closes it.
	d, err := vfs.Dup(s.dir)
	if err != nil {
		return vfs.At(path, err)
	}
	place := s.place(c.Params().NoFollow())
	w, err := file.Stage(c.Context(), d, path, func(ctx context.Context, r io.Reader) (vfs.Version, error) {
		return place(ctx, d, path, r, cond)
	})
	if err != nil {
		return vfs.At(path, err)
	}
	return c.Results().SetWriter(c.Caps().Put(w))
}

func (s *server) stat(c vat.Call[schema.Dir_stat_Params, schema.Dir_stat_Results]) error {
	if c.Trying() && !vfs.CanTry(s.dir) {
		return vat.ErrWouldBlock
	}
	info, err := s.dir.Stat(wire.Look(c))
	if err != nil {
		return wire.Looked("", err)
	}
	st, err := c.Results().NewStat()
	if err != nil {
		return err
	}
	wire.SetInfo(st, info)
	return wire.SetName(st, s.name)
}

func (s *server) createDir(c vat.Call[schema.Dir_createDir_Params, schema.Dir_createDir_Results], path string) error {
	parent, name, release, err := vfs.WalkParent(c.Context(), s.dir, path)
	if err != nil {
		return vfs.At(path, err)
	}
	defer release()
	d, err := parent.Mkdir(c.Context(), name)
	if err != nil {
		return vfs.At(path, err)
	}
	return answer(s, c, d, path)
}

func (s *server) symlink(c vat.Call[schema.Dir_symlink_Params, schema.Dir_symlink_Results], path string) error {
	target, err := wire.Param(c.Params().Target())
	if err != nil {
		return vfs.At(path, err)
	}
	parent, name, release, err := vfs.WalkParent(c.Context(), s.dir, path)
	if err != nil {
		return vfs.At(path, err)
	}
	defer release()
	return vfs.At(path, membrane.MakeLink(c.Context(), s.dir, parent, name, target))
}

func (s *server) createFile(c vat.Call[schema.Dir_createFile_Params, schema.Dir_createFile_Results], path string) error {
	parent, name, release, err := vfs.WalkParent(c.Context(), s.dir, path)
	if err != nil {
		return vfs.At(path, err)
	}
	defer release()
	f, err := parent.Create(c.Context(), name)
	if err != nil {
		return vfs.At(path, err)
	}
	return c.Results().SetFile(c.Caps().Put(file.New(f, path)))
}

func (s *server) remove(c vat.Call[schema.Dir_remove_Params, schema.Dir_remove_Results]) error {
	path, cond, err := s.target(c.Params().PathBytes, c.Params())
	if err != nil {
		return err
	}
	parent, name, release, err := vfs.WalkParent(c.Context(), s.dir, path)
	if err != nil {
		return vfs.At(path, err)
	}
	defer release()
	return vfs.At(path, parent.Remove(c.Context(), name, cond))
}
