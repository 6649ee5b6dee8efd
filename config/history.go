package config

import (
	"time"

	"github.com/goccy/go-yaml/ast"
)

// History bounds what is kept of changes, so that they can be undone. A zero field means
// the default.
type History struct {
	Bytes   Size          // of what changes of a grant, and of its shares, displaced
	Changes int64         // of these
	Keep    time.Duration // how old they may be
	Total   Size          // bytes of all grants together
}

func (r *reader) history(into *History) func(ast.Node) {
	const size = "a whole number of bytes from 1, such as 1024 or 64MiB"
	return func(n ast.Node) {
		r.mapping(n, "history",
			key{"bytes", "", func(n ast.Node) { into.Bytes = r.bytes(n, "bytes", size, "256MiB") }},
			key{"changes", "", func(n ast.Node) {
				into.Changes = r.number(n, "changes", "a whole number from 1, in digits", "1000")
			}},
			key{"keep", "", r.text("keep", new(string), r.span("keep", &into.Keep))},
			key{"total", "", func(n ast.Node) { into.Total = r.bytes(n, "total", size, "2GiB") }},
		)
	}
}
