package main

import (
	"go/ast"
	"strings"
)

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

func isSelector(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && isIdent(s.X, pkg) && s.Sel.Name == name
}

// fields returns the type of each parameter or result.
func fields(l *ast.FieldList) []ast.Expr {
	if l == nil {
		return nil
	}
	var out []ast.Expr
	for _, f := range l.List {
		for range max(1, len(f.Names)) {
			out = append(out, f.Type)
		}
	}
	return out
}

// doc returns a declaration's comment as source text.
func doc(c *ast.CommentGroup) string {
	if c == nil {
		return ""
	}
	var b strings.Builder
	for _, line := range c.List {
		b.WriteString(line.Text + "\n")
	}
	return b.String()
}

// pointerIndex returns the first argument of the call of method in body.
func pointerIndex(body *ast.BlockStmt, method string) (index string, ok bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		call, isCall := n.(*ast.CallExpr)
		if !isCall || ok {
			return !ok
		}
		if sel, isSel := call.Fun.(*ast.SelectorExpr); isSel && sel.Sel.Name == method && len(call.Args) > 0 {
			if lit, isLit := call.Args[0].(*ast.BasicLit); isLit {
				index, ok = lit.Value, true
			}
		}
		return !ok
	})
	return index, ok
}
