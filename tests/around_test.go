package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// nodeSources are the functions and methods by which a surface gets a node. The first find it by the secret of a grant,
// are the operator's, or wait until a human or a rule has granted it. The others give what a capability stands for, lead from a node to one that lies below it, or to a
// narrower view of it.
var nodeSources = strings.Fields(`
	session.Grants.Restore authority.Host.Restore authority.Host.TryRestore virtualfs.Host.Root
	petitioner.Petitions.Request authority.Petitioner.Request

	dir.Of file.Of wire.Node vfs.AsDir vfs.AsFile vfs.Dup
	vfs.Dir.Create vfs.Dir.Lookup vfs.Dir.Mkdir vfs.Walk vfs.WalkDir vfs.WalkLink vfs.WalkParent vfs.LookupAs diff.Cursor.Open
	membrane.Narrow membrane.ReadOnlyDir membrane.ReadOnlyFile membrane.InTurn membrane.Temp membrane.Revocable membrane.RevocableDir membrane.RevocableFile
`)

// A surface is what speaks to guests or to the operator: every package that imports vat but those of the client, which has
// no store. Each node in it comes from a grant, or from the operator's own right.
func TestSurfacesReachStoresThroughGrants(t *testing.T) {
	all := packages(t, "linux")
	surfaces := slices.DeleteFunc(ours(all), func(path string) bool {
		return !slices.Contains(all[path].Imports, "capd/vat") || covers("capd/client/... capd/cmd/... capd/tests/... capd/server capd/capnp/...", path)
	})
	for _, want := range []string{"capd/cap/dir", "capd/cap/session", "capd/cap/virtualfs", "capd/host"} {
		if !slices.Contains(surfaces, want) {
			t.Errorf("%s is no surface; this test looks at the wrong things", want)
		}
	}
	s := sources{types: compiled(t, append(surfaces, "capd/vfs")...)}
	for _, path := range surfaces {
		dir := filepath.Join("..", strings.TrimPrefix(path, "capd/"))
		files, err := exec.Command("go", "list", "-f", `{{join .GoFiles "\n"}}`, path).Output()
		ok(t, err)
		var parsed []*ast.File
		fset := token.NewFileSet()
		for name := range strings.FieldsSeq(string(files)) {
			f, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
			ok(t, err)
			parsed = append(parsed, f)
		}
		for _, found := range s.of(t, path, fset, parsed...) {
			if !slices.Contains(nodeSources, found) {
				t.Errorf("%s gets a node of %s", path, found)
			}
		}
	}
}

// sources finds out where code gets nodes from.
type sources struct{ types types.Importer }

// of returns the functions, methods, fields and variables of other packages from which a package gets nodes.
func (s sources) of(t *testing.T, path string, fset *token.FileSet, files ...*ast.File) (all []string) {
	t.Helper()
	vfs, err := s.types.Import("capd/vfs")
	ok(t, err)
	node := surface{node: ability(vfs, "Node"), content: ability(vfs, "Node")}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Instances: map[*ast.Ident]types.Instance{}}
	p, err := (&types.Config{Importer: s.types}).Check(path, fset, files, info)
	ok(t, err)
	for id, o := range info.Uses {
		as := o.Type()
		if i, is := info.Instances[id]; is {
			as = i.Type
		}
		if made(p, o) && (node.is(as) || node.gives(as)) {
			all = append(all, named(o))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// made reports whether o is a variable, a field or a function that p does not define: another package does, or whoever
// implements an interface.
func made(p *types.Package, o types.Object) bool {
	switch o := o.(type) {
	case *types.Var:
		return o.Pkg() != p
	case *types.Func:
		r := o.Signature().Recv()
		return o.Pkg() != p || r != nil && types.IsInterface(r.Type())
	}
	return false
}

// named returns the name of a function, variable or field, or of a method with its type if that has a name.
func named(o types.Object) string {
	if f, is := o.(*types.Func); is && f.Signature().Recv() != nil {
		of := f.Signature().Recv().Type()
		if p, is := of.(*types.Pointer); is {
			of = p.Elem()
		}
		if t, is := of.(*types.Named); is {
			return o.Pkg().Name() + "." + t.Obj().Name() + "." + o.Name()
		}
	}
	return o.Pkg().Name() + "." + o.Name()
}

// The search finds a surface that opens a store, keeps a function that does, asks for the host's tree, reads a field, or
// passes on what does any of these.
func TestSourcesAreFound(t *testing.T) {
	const planted = `package planted

import (
	"context"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/virtualfs"
)

type opener interface{ open() (vfs.Dir, error) }

func handed[T any](do func() T) T { return do() }

func surface(fs *virtualfs.FS, o opener) {
	_ = memory.New(memory.Limits{}).Root()
	tree := fs.Tree
	_ = handed(tree)
	_, _ = fs.Dir(context.Background(), "project")
	_ = vfstest.Store{}.New
	_, _ = o.open()
}
`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "planted.go", planted, 0)
	ok(t, err)
	s := sources{types: compiled(t, "capd/virtualfs", "capd/backend/memory", "capd/vfs/vfstest")}
	found, want := s.of(t, "capd/planted", fset, f), strings.Fields("memory.Store.Root planted.opener.open vfstest.New virtualfs.FS.Dir virtualfs.FS.Tree")
	if !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}
