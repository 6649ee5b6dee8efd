package config

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"capd/vfs"
)

// Values are read strictly: a number is not read as text, nor text as a number, and a
// missing value as neither.

// key is a key that a mapping may have.
type key struct {
	name   string
	needed string // what to write if it is missing; "" if it is optional
	read   func(ast.Node)
}

// mapping reads n by its keys. what names n in mistakes.
func (r *reader) mapping(n ast.Node, what string, keys ...key) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		r.mistake(placeOf(n), "%s is %s; write a mapping, with the keys %s", what, kind(n), listed(keys))
		return
	}
	first := map[string]place{}
	for _, v := range m.Values {
		at, name := placeOf(v.Key), v.Key.GetToken().Value
		i := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
		before, twice := first[name]
		_, nothing := v.Value.(*ast.NullNode)
		switch {
		case i < 0:
			r.mistake(at, "%s has no key %s%s; it has %s", what, quote(name), didYouMean(name, names(keys)), listed(keys))
		case twice:
			r.mistake(at, "%s is here twice, first in line %d; keep one", name, before.line)
		case nothing:
			first[name] = at
			r.mistake(at, "%s is nothing; write a value, [] for an empty list, or leave the key out", name)
		default:
			first[name] = at
			keys[i].read(v.Value)
		}
	}
	for _, k := range keys {
		if _, there := first[k.name]; !there && k.needed != "" {
			r.mistake(placeOf(n), "%s has no %s; write %s", what, k.name, k.needed)
		}
	}
}

func names(keys []key) (all []string) {
	for _, k := range keys {
		all = append(all, k.name)
	}
	return all
}

func listed(keys []key) string { return strings.Join(names(keys), ", ") }

// list reads n, the value of key, and calls item for each item.
func (r *reader) list(n ast.Node, key string, item func(ast.Node)) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		r.mistake(placeOf(n), "%s is %s; write a list: items that begin with \"- \", or [] for none", key, kind(n))
		return
	}
	for _, v := range s.Values {
		item(v)
	}
}

// texts reads a list of texts, each checked by check. The result is not nil if there is
// a list.
func (r *reader) texts(key string, into *[]string, check func(at place, s string)) func(ast.Node) {
	return func(n ast.Node) {
		*into = []string{}
		r.list(n, key, func(n ast.Node) {
			var s string
			r.text("an item of "+key, &s, check)(n)
			*into = append(*into, s)
		})
	}
}

// text reads a text, checked by check.
func (r *reader) text(what string, into *string, check func(at place, s string)) func(ast.Node) {
	return func(n ast.Node) {
		at := placeOf(n)
		switch n := n.(type) {
		case *ast.StringNode:
			*into = n.Value
		case *ast.LiteralNode:
			*into = n.Value.Value
		case *ast.MappingNode, *ast.SequenceNode:
			r.mistake(at, "%s is %s; write a text, in quotes where it holds \": \" or begins with a bracket", what, kind(n))
			return
		default:
			r.mistake(at, "%s is %s; if it is meant as a text, write %s", what, kind(n), quote(n.GetToken().Value))
			return
		}
		if i := strings.IndexFunc(*into, unicode.IsControl); i >= 0 {
			r.mistake(at, "%s holds a control character, or more lines than one; write %s", what, quote(strings.Map(printing, *into)))
			return
		}
		check(at, *into)
	}
}

func printing(c rune) rune {
	if unicode.IsControl(c) {
		return -1
	}
	return c
}

func (r *reader) flag(key string, into *bool) func(ast.Node) {
	return func(n ast.Node) {
		b, ok := n.(*ast.BoolNode)
		if !ok {
			r.mistake(placeOf(n), "%s is %s; write true or false", key, kind(n))
			return
		}
		*into = b.Value
	}
}

// bytes reads a size. right describes a valid one, and without what holds if it is left
// out.
func (r *reader) bytes(n ast.Node, key, right, without string) Size {
	text, ok := n.(*ast.StringNode)
	if !ok {
		return Size(r.number(n, key, right, without))
	}
	v, err := ParseSize(text.Value)
	switch {
	case err != nil:
		r.mistake(placeOf(n), "%s is %s: %s", key, quote(text.Value), vfs.Message(err))
	case v == 0:
		r.mistake(placeOf(n), "%s is 0; write %s, or leave it out for %s", key, right, without)
	}
	return v
}

// number reads an integer from 1 in decimal digits. Other notations differ between YAML
// readers. It returns 0 after a mistake.
func (r *reader) number(n ast.Node, key, right, without string) int64 {
	digits := n.GetToken().Value
	v, err := strconv.ParseInt(digits, 10, 64)
	_, integer := n.(*ast.IntegerNode)
	switch at := placeOf(n); {
	case integer && n.GetToken().Type == token.IntegerType && strconv.FormatInt(v, 10) == digits && v > 0:
		return v
	case integer && err == nil && v <= 0:
		r.mistake(at, "%s is %s; write %s, or leave it out for %s", key, digits, right, without)
	case integer:
		r.mistake(at, "%s is %s, which is too large or not in plain digits; write %s", key, quote(digits), right)
	default:
		r.mistake(at, "%s is %s; write %s", key, shown(n), right)
	}
	return 0
}

// shown returns n itself if it is short, and otherwise its kind.
func shown(n ast.Node) string {
	switch n := n.(type) {
	case *ast.StringNode:
		return "the text " + quote(n.Value)
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value
	}
	return kind(n)
}

// kind names n's kind.
func kind(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode, *ast.LiteralNode:
		return "a text"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "true or false"
	case *ast.NullNode:
		return "nothing"
	}
	return "something else"
}
