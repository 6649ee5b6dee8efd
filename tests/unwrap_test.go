package tests

import (
	"bytes"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"capd/vfs/vfstest/check"
)

// givers are the functions and methods of the membrane, of namespaces and of the search
// that return a node or content, or pass one to a function of their caller. Each returns
// what its argument or receiver may reach, behind the same membrane or a narrower one.
// What a view is a view of is returned by none. Whoever adds one here has made sure.
// Five are the host's own, and reach no guest: a Journal is where the host writes batches
// before it makes them; Past is content that the history of the same capability keeps;
// Widened stages one batch, and Copying makes one copy, whose rights they have asked for before; and Tree
// says how deep in its mount a directory is.
var givers = strings.Fields(`
	membrane.Guarded membrane.Narrow membrane.ReadOnlyDir membrane.ReadOnlyFile membrane.Revocable membrane.RevocableDir membrane.RevocableFile
	membrane.dirView.Create membrane.dirView.Dup membrane.dirView.LookPath membrane.dirView.Lookup membrane.dirView.Mkdir
	membrane.dirView.StageDir membrane.fileView.Dup membrane.fileView.Open
	membrane.Holder.Dir membrane.History.Past membrane.InTurn membrane.dirView.Past
	membrane.Composed.Tree namespace.nsDir.Tree
	membrane.Composed.Journal membrane.Guard.Journal membrane.JournalOf namespace.nsDir.Journal
	membrane.Copying membrane.Widened membrane.Temp membrane.Temps.Journal membrane.Temps.New
	namespace.Namespace.Root
	namespace.nsDir.Create namespace.nsDir.LookPath namespace.nsDir.Lookup namespace.nsDir.Mkdir namespace.nsDir.StageDir
`)

// Nothing that another package can name leads from a view to its inner node.
func TestNoWayToUnwrap(t *testing.T) {
	pkgs := load(t, "capd/vfs", "capd/vfs/membrane", "capd/vfs/namespace", "capd/vfs/search")
	s := surface{content: ability(pkgs[0], "Content"), node: ability(pkgs[0], "Node")}
	var found []string
	for _, p := range pkgs[1:] {
		found = append(found, s.givers(p)...)
	}
	slices.Sort(found)
	if want := slices.Sorted(slices.Values(givers)); !slices.Equal(found, want) {
		t.Errorf("these lead to nodes:\n%s\nwant\n%s", strings.Join(found, "\n"), strings.Join(want, "\n"))
	}
}

// The search finds functions, methods, fields and functions of the caller's.
func TestUnwrapIsFound(t *testing.T) {
	pkgs := load(t, "capd/vfs", "capd/vfs/vfstest")
	s := surface{content: ability(pkgs[0], "Content"), node: ability(pkgs[0], "Node")}
	found := append(s.givers(pkgs[0]), s.givers(pkgs[1])...)
	for _, want := range []string{"vfs.Walk", "vfs.Dir.Lookup", "vfs.WalkParent", "vfs.Open", "vfstest.Store.New"} {
		if !slices.Contains(found, want) {
			t.Errorf("%s is not among %q", want, found)
		}
	}
}

// surface looks through what other packages can name.
type surface struct{ node, content *types.Interface }

func ability(p *types.Package, name string) *types.Interface {
	return p.Scope().Lookup(name).Type().Underlying().(*types.Interface)
}

// givers returns the functions, methods and fields of p that give a node or content. A
// method of an unexported type counts too, since an interface may lead to it.
func (s surface) givers(p *types.Package) (all []string) {
	add := func(gives bool, names ...string) {
		if gives {
			all = append(all, p.Name()+"."+strings.Join(names, "."))
		}
	}
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if _, is := o.(*types.TypeName); !is {
			add(o.Exported() && s.gives(o.Type()), name)
			continue
		}
		methods := types.NewMethodSet(types.NewPointer(o.Type()))
		if types.IsInterface(o.Type()) {
			methods = types.NewMethodSet(o.Type())
		}
		for i := range methods.Len() {
			m := methods.At(i).Obj()
			add(m.Exported() && m.Pkg() == p && len(methods.At(i).Index()) == 1 && s.gives(m.Type()), name, m.Name())
		}
		if fields, ok := o.Type().Underlying().(*types.Struct); ok {
			for i := range fields.NumFields() {
				f := fields.Field(i)
				add(f.Exported() && (s.is(f.Type()) || s.gives(f.Type())), name, f.Name())
			}
		}
	}
	return all
}

// gives reports whether a value of type t leads to a node or content: as a result of a
// function, or as an argument of a function that it takes.
func (s surface) gives(t types.Type) bool {
	f, ok := t.Underlying().(*types.Signature)
	if !ok {
		return s.is(t)
	}
	for v := range f.Results().Variables() {
		if s.is(v.Type()) || s.gives(v.Type()) {
			return true
		}
	}
	for v := range f.Params().Variables() {
		if callback, ok := v.Type().Underlying().(*types.Signature); ok && s.passes(callback) {
			return true
		}
	}
	return false
}

// passes reports whether an argument of f is a node or content.
func (s surface) passes(f *types.Signature) bool {
	for v := range f.Params().Variables() {
		if s.is(v.Type()) {
			return true
		}
	}
	return false
}

// is reports whether t is a node or content, or holds some.
func (s surface) is(t types.Type) bool {
	switch u := t.(type) {
	case *types.Slice:
		return s.is(u.Elem())
	case *types.Map:
		return s.is(u.Elem())
	case *types.Chan:
		return s.is(u.Elem())
	}
	return types.Implements(t, s.node) || types.Implements(t, s.content)
}

// load returns packages as their compiler describes them.
func load(t *testing.T, paths ...string) (all []*types.Package) {
	t.Helper()
	imports := compiled(t, paths...)
	for _, path := range paths {
		p, err := imports.Import(path)
		check.OK(t, err)
		all = append(all, p)
	}
	return all
}

// compiled imports packages that patterns match, and what they depend on, as their compiler describes them.
func compiled(t *testing.T, patterns ...string) types.Importer {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, patterns...)...).Output()
	check.OK(t, err)
	files := map[string]string{}
	for line := range bytes.Lines(out) {
		path, file, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		files[path] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, fmt.Errorf("%s was not built", path)
		}
		return os.Open(files[path])
	})
}
