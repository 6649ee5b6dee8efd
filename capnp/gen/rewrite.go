package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// capnpPath is go-capnp's serialization, the one package of it that generated code may import
// (beside this module's vat).
const (
	capnpPath = "capnproto.org/go/capnp/v3"
	vatPath   = "capd/vat"
)

// A pkg is what the rewriter must know about all files of the package together.
type pkg struct {
	name       string
	interfaces map[string]bool   // Go types that stand for capnp interfaces
	enums      map[string]bool   // Go types that stand for capnp enums and unions' discriminants
	calls      map[string]bool   // Go types that stand for one call in a go-capnp server
	goName     map[uint64]string // type id -> Go type
}

// rewrite turns capnpc-go's output, by file name, into ours.
func rewrite(request []byte, raw map[string][]byte) (map[string][]byte, error) {
	fset := token.NewFileSet()
	parsed := make(map[string]*ast.File)
	p := &pkg{interfaces: map[string]bool{}, enums: map[string]bool{}, calls: map[string]bool{}, goName: map[uint64]string{}}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		f, err := parser.ParseFile(fset, name, raw[name], parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if p.name != "" && p.name != f.Name.Name {
			return nil, fmt.Errorf("schemas of one directory name two Go packages: %s and %s", p.name, f.Name.Name)
		}
		p.name = f.Name.Name
		parsed[name] = f
		p.survey(f)
	}
	d, err := describe(request, p)
	if err != nil {
		return nil, err
	}
	out := make(map[string][]byte)
	for name, f := range parsed {
		body, err := p.file(fset, f, raw[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		body.WriteString(d.out[name].String())
		out[name], err = finish(p.name, name, body.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if _, taken := out["interfaces.capnp.go"]; taken {
		return nil, errors.New("interfaces.capnp: the list of interfaces takes this name; give the schema another")
	}
	out["interfaces.capnp.go"], err = finish(p.name, "interfaces", []byte(d.index.String()))
	return out, err
}

// survey notes the types that a file declares.
func (p *pkg) survey(f *ast.File) {
	for _, decl := range f.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range gen.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				switch {
				case isSelector(s.Type, "capnp", "Client"):
					p.interfaces[s.Name.Name] = true
				case isIdent(s.Type, "uint16"):
					p.enums[s.Name.Name] = true
				case isCallType(s.Type):
					p.calls[s.Name.Name] = true
				}
			case *ast.ValueSpec:
				if name, isID := strings.CutSuffix(s.Names[0].Name, "_TypeID"); isID {
					lit := s.Values[0].(*ast.BasicLit)
					if id, err := strconv.ParseUint(lit.Value, 0, 64); err == nil {
						p.goName[id] = name
					}
				}
			}
		}
	}
}

// file rewrites one file's declarations, without package clause and imports.
func (p *pkg) file(fset *token.FileSet, f *ast.File, src []byte) (*bytes.Buffer, error) {
	text := func(from, to token.Pos) string {
		return string(src[fset.Position(from).Offset:fset.Position(to).Offset])
	}
	var out bytes.Buffer
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.GenDecl:
			if d.Tok == token.IMPORT || d.Tok == token.TYPE && p.dropType(d.Specs[0].(*ast.TypeSpec)) {
				continue
			}
			out.WriteString(p.lists(doc(d.Doc) + text(d.Pos(), d.End())))
		case *ast.FuncDecl:
			if p.dropFunc(d) {
				continue
			}
			body, err := p.function(d, text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", d.Name.Name, err)
			}
			out.WriteString(p.lists(doc(d.Doc) + body))
		}
		out.WriteString("\n\n")
	}
	return &out, nil
}

// dropType reports a type that belongs to go-capnp's RPC: a client, a server, one call, a list of clients.
func (p *pkg) dropType(t *ast.TypeSpec) bool {
	name := t.Name.Name
	if p.interfaces[name] {
		return true
	}
	if base, ok := strings.CutSuffix(name, "_Server"); ok && p.interfaces[base] {
		return true
	}
	if base, ok := strings.CutSuffix(name, "_List"); ok && (p.interfaces[base] || p.ofMethod(base)) {
		return true
	}
	return p.calls[name]
}

// ofMethod reports a struct that the schema compiler made for a method's parameters or results: Dir_list_Params. Nobody
// can name it in a schema, so that it is no message's root and in no list.
func (p *pkg) ofMethod(name string) bool {
	base, ok := strings.CutSuffix(name, "_Params")
	if !ok {
		base, ok = strings.CutSuffix(name, "_Results")
	}
	at := strings.LastIndexByte(base, '_')
	return ok && at > 0 && p.interfaces[base[:at]]
}

// isCallType reports a struct that embeds *server.Call.
func isCallType(t ast.Expr) bool {
	s, ok := t.(*ast.StructType)
	if !ok || len(s.Fields.List) == 0 {
		return false
	}
	star, ok := s.Fields.List[0].Type.(*ast.StarExpr)
	return ok && isSelector(star.X, "server", "Call")
}

// dropFunc reports a function that belongs to a dropped type, or makes what nobody makes.
func (p *pkg) dropFunc(d *ast.FuncDecl) bool {
	if d.Recv != nil {
		recv, ok := d.Recv.List[0].Type.(*ast.Ident)
		return ok && (p.interfaces[recv.Name] || p.calls[recv.Name])
	}
	for _, suffix := range []string{"_NewServer", "_ServerToClient", "_Methods"} {
		if base, ok := strings.CutSuffix(d.Name.Name, suffix); ok && p.interfaces[base] {
			return true
		}
	}
	for _, prefix := range []string{"NewRoot", "ReadRoot", "New"} {
		base, ok := strings.CutPrefix(d.Name.Name, prefix)
		if !ok {
			continue
		}
		if p.ofMethod(base) {
			return true
		}
		if base, ok = strings.CutSuffix(base, "_List"); ok && (p.interfaces[base] || p.ofMethod(base)) {
			return true
		}
	}
	return false
}

// function returns d's text, rewritten where it touches a capability or panics.
func (p *pkg) function(d *ast.FuncDecl, text func(from, to token.Pos) string) (string, error) {
	results, params := fields(d.Type.Results), fields(d.Type.Params)
	switch {
	case d.Recv != nil && len(results) == 1 && p.isClient(results[0]):
		index, ok := pointerIndex(d.Body, "Ptr")
		if !ok {
			return "", fmt.Errorf("no pointer index in a capability getter")
		}
		return fmt.Sprintf("%s capnp.Interface {\n%s\tp, _ := capnp.Struct(s).Ptr(%s)\n\treturn p.Interface()\n}",
			text(d.Pos(), d.Type.Results.Pos()), guard(d, text, "capnp.Interface{}"), index), nil
	case d.Recv != nil && len(params) == 1 && p.isClient(params[0]):
		index, ok := pointerIndex(d.Body, "SetPtr")
		if !ok {
			return "", fmt.Errorf("no pointer index in a capability setter")
		}
		var set string
		if first, ok := d.Body.List[0].(*ast.ExprStmt); ok { // the union's discriminant
			set = "\t" + text(first.Pos(), first.End()) + "\n"
		}
		return fmt.Sprintf("%s(v capnp.Interface) error {\n%s\treturn capnp.Struct(s).SetPtr(%s, v.ToPtr())\n}",
			text(d.Pos(), d.Type.Params.Pos()), set, index), nil
	}
	whole := text(d.Pos(), d.End())
	call := panicOf(d)
	if call == nil {
		return whole, nil
	}
	zeros := make([]string, len(results))
	for i, r := range results {
		zeros[i] = p.zero(text(r.Pos(), r.End()), r)
	}
	from, to := int(call.Pos()-d.Pos()), int(call.End()-d.Pos())
	return whole[:from] + "return " + strings.Join(zeros, ", ") + whole[to:], nil
}

// guard returns the getter's check of the union's discriminant, if it has one, with a zero return for the panic.
func guard(d *ast.FuncDecl, text func(from, to token.Pos) string, zero string) string {
	call := panicOf(d)
	if call == nil {
		return ""
	}
	check := d.Body.List[0].(*ast.IfStmt)
	return "\tif " + text(check.Cond.Pos(), check.Cond.End()) + " {\n\t\treturn " + zero + "\n\t}\n"
}

// panicOf returns the panic in a getter's leading check of the union's discriminant, or nil.
func panicOf(d *ast.FuncDecl) *ast.CallExpr {
	if d.Body == nil || len(d.Body.List) == 0 {
		return nil
	}
	check, ok := d.Body.List[0].(*ast.IfStmt)
	if !ok || len(check.Body.List) != 1 {
		return nil
	}
	stmt, ok := check.Body.List[0].(*ast.ExprStmt)
	if !ok {
		return nil
	}
	call, ok := stmt.X.(*ast.CallExpr)
	if !ok || !isIdent(call.Fun, "panic") {
		return nil
	}
	return call
}

// zero returns the zero value of the type that text spells.
func (p *pkg) zero(text string, t ast.Expr) string {
	switch t := t.(type) {
	case *ast.ArrayType:
		return "nil"
	case *ast.Ident:
		switch t.Name {
		case "string":
			return `""`
		case "bool":
			return "false"
		case "error":
			return "nil"
		case "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64":
			return "0"
		}
		if p.enums[t.Name] {
			return "0"
		}
	}
	return text + "{}"
}

// isClient reports go-capnp's notion of a capability: a generated client type, or capnp.Client itself.
func (p *pkg) isClient(t ast.Expr) bool {
	if id, ok := t.(*ast.Ident); ok {
		return p.interfaces[id.Name]
	}
	return isSelector(t, "capnp", "Client")
}

// lists names lists of capabilities for what they are on the wire: lists of pointers.
func (p *pkg) lists(src string) string {
	for name := range p.interfaces {
		src = regexp.MustCompile(`\b(New)?`+name+`_List\b`).ReplaceAllString(src, "capnp.${1}PointerList")
	}
	return src
}

// finish adds the package clause and the imports that body uses, and formats.
func finish(pkgName, name string, body []byte) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "// Code generated by capnp/gen. DO NOT EDIT.\n\npackage %s\n\n", pkgName)
	f, err := parser.ParseFile(token.NewFileSet(), name, "package p\n"+string(body), 0)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := s.X.(*ast.Ident); ok {
				used[id.Name] = true
			}
		}
		return true
	})
	for _, bad := range []string{"server", "fc", "schemas", "context"} {
		if used[bad] {
			return nil, fmt.Errorf("package %s is still in use: an interface was not rewritten completely", bad)
		}
	}
	out.WriteString("import (\n")
	for _, imp := range []struct{ name, line string }{
		{"math", `"math"`}, {"strconv", `"strconv"`}, {"", ""}, {"capnp", `capnp "` + capnpPath + `"`}, {"vat", `vat "` + vatPath + `"`},
	} {
		if imp.name == "" || used[imp.name] {
			fmt.Fprintln(&out, imp.line)
		}
	}
	out.WriteString(")\n\n")
	out.Write(body)
	return format.Source(out.Bytes())
}
