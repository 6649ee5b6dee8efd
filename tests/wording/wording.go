// Package wording reads the texts of a program from its source, for tests of how it speaks.
package wording

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"capd/vfs/vfstest/check"
)

// Texts returns the string literals in the Go files below dir, and where each is. It leaves out tests.
func Texts(t *testing.T, dir string) map[string]string {
	t.Helper()
	all, files := map[string]string{}, token.NewFileSet()
	check.OK(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "vfstest") {
			return err
		}
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if text, err := strconv.Unquote(l.Value); err == nil {
					all[text] = files.Position(l.Pos()).String()
				}
			}
			return true
		})
		return nil
	}))
	return all
}
