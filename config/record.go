package config

import (
	"regexp"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"capd/vfs"
)

// Record says what is recorded of changes, and for how long.
type Record struct {
	Off  bool          // nothing is
	Keep time.Duration // how old an entry may be; 0 for the default, below 0 for any age
	OTLP string        // the URL of an OpenTelemetry collector that gets it, too; "" for none
	Size Size          // how much the entries may be in all; 0 for the default, below 0 for any number
}

// minRecord is the least size of a record. Some of the newest entries are kept in any case.
const minRecord = 1 << 20

// collectorURL is the syntax of Record.OTLP. The schema has the same.
var collectorURL = regexp.MustCompile(`^https?://[A-Za-z0-9.:_\[\]-]+(?:/[A-Za-z0-9._~%/-]*)?$`)

// record reads the word off, or a mapping.
func (r *reader) record(into *Record) func(ast.Node) {
	return func(n ast.Node) {
		if text, ok := n.(*ast.StringNode); ok {
			into.Off = true
			r.word("record", &text.Value, "off")(n)
			return
		}
		r.mapping(n, "record",
			key{"otlp", "", r.text("otlp", &into.OTLP, func(at place, s string) {
				if !collectorURL.MatchString(s) {
					r.mistake(at, "otlp is %s; write the URL of a collector, such as https://HOST:4318", quote(s))
				}
			})},
			key{"keep", "", r.text("keep", new(string), r.keep(&into.Keep))},
			key{"size", "", func(n ast.Node) {
				if text, ok := n.(*ast.StringNode); ok && text.Value == noLimit {
					into.Size = -1
					return
				}
				before := len(r.mistakes)
				into.Size = r.bytes(n, "size", "a size from 1MiB, such as 1GiB, or none for no limit", "1GiB")
				if len(r.mistakes) == before && into.Size < minRecord {
					r.mistake(placeOf(n), "size is %s; write a size from 1MiB, or none for no limit", quote(strings.TrimSpace(n.String())))
				}
			}},
		)
	}
}

// keep reads a length of time, or none.
func (r *reader) keep(into *time.Duration) func(at place, s string) {
	return func(at place, s string) {
		if s == noLimit {
			*into = -1
			return
		}
		d, err := ParseSpan(s)
		if err != nil {
			r.mistake(at, "keep: %s, or none to keep all", vfs.Message(err))
		}
		*into = d
	}
}
