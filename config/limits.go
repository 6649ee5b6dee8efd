package config

import (
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"capd/meter"
	"capd/vfs"
)

// noLimit is the word for no limit, in place of a number.
const noLimit = "none"

// ParseLimit parses a limit as written on the command line: KIND=N. N is a whole number
// from 1, a size for a kind counted in bytes, or "none". For none it returns -1, as in
// [meter.Limits]. It answers invalid.
func ParseLimit(s string) (k meter.Kind, most int64, err error) {
	name, value, ok := strings.Cut(s, "=")
	if !ok {
		return 0, 0, vfs.Errorf(vfs.Invalid, "%s is not a limit; write KIND=N, such as storedBytes=64MiB", quote(s))
	}
	k, ok = meter.KindOf(name)
	if !ok {
		return 0, 0, vfs.Errorf(vfs.Invalid, "there is no kind of limit called %s%s; there are %s", quote(name), didYouMean(name, limitNames()), strings.Join(limitNames(), ", "))
	}
	most, err = parseMost(k, value)
	return k, most, err
}

func parseMost(k meter.Kind, value string) (int64, error) {
	if value == noLimit {
		return meter.NoLimit, nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if k.Bytes() {
		var size Size
		if size, err = ParseSize(value); err != nil {
			return 0, vfs.Errorf(vfs.Invalid, "%s is %s: %s, or none for no limit", k, quote(value), vfs.Message(err))
		}
		n = int64(size)
	}
	if err != nil || n < 1 || value[0] == '+' || value[0] == '0' {
		return 0, vfs.Errorf(vfs.Invalid, "%s is %s; write %s", k, quote(value), right(k))
	}
	return n, nil
}

// right describes a valid limit of k.
func right(k meter.Kind) string {
	if k.Bytes() {
		return "a whole number of bytes from 1, such as 1024 or 64MiB, or none for no limit"
	}
	return "a whole number from 1, in digits, or none for no limit"
}

// limitNames returns the names of the kinds, in order.
func limitNames() (all []string) {
	for k := range meter.Kinds {
		all = append(all, k.String())
	}
	return all
}

// limits reads a mapping from kinds to limits.
func (r *reader) limits(what string, into *meter.Limits) func(ast.Node) {
	return func(n ast.Node) {
		l := meter.Limits{}
		var keys []key
		for k := range meter.Kinds {
			keys = append(keys, key{k.String(), "", r.most(k, l)})
		}
		r.mapping(n, what, keys...)
		*into = l
	}
}

// most reads the limit of one kind.
func (r *reader) most(k meter.Kind, into meter.Limits) func(ast.Node) {
	return func(n ast.Node) {
		if text, ok := n.(*ast.StringNode); ok && text.Value == noLimit {
			into[k] = meter.NoLimit
			return
		}
		if k.Bytes() {
			into[k] = int64(r.bytes(n, k.String(), right(k), "the default"))
		} else {
			into[k] = r.number(n, k.String(), right(k), "the default")
		}
	}
}
