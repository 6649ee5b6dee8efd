package config

import (
	"bytes"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// effects are what a rule can say.
var effects = []string{string(operator.RuleDeny), string(operator.RuleAsk), string(operator.RuleAllow)}

// ParseRules parses rules: a list of them, or a mapping with the key rules. It reads text as
// [Parse] does, and answers the same errors. An empty text has no rules. Source of each is its
// place.
func ParseRules(name string, data []byte) (all []operator.Rule, err error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil
	}
	r := &reader{name: vfs.Printable(name)}
	if len(data) > MaxFile {
		return nil, vfs.Errorf(vfs.TooLarge, "%s: the rules are longer than %d MiB", r.where(start), MaxFile>>20)
	}
	root := r.document(data)
	read := func(n ast.Node) {
		r.list(n, "rules", func(n ast.Node) { all = append(all, r.rule(n)) })
	}
	switch n := root.(type) {
	case nil:
	case *ast.MappingNode:
		r.mapping(n, "the file", key{"rules", "a list of rules, or [] for none", read})
	default:
		read(n)
	}
	return all, r.err()
}

// policy reads what holds where no rule matches.
func (r *reader) policy(into *Policy) func(ast.Node) {
	return func(n ast.Node) {
		r.mapping(n, "policy",
			key{"default", "what holds where no rule matches: default: allow or default: deny", r.word("default", (*string)(&into.Default), "allow", "deny")},
		)
	}
}

// rule reads one rule. What its parts mean together, package policy checks.
func (r *reader) rule(n ast.Node) operator.Rule {
	rule := operator.Rule{Source: r.where(placeOf(n))}
	r.mapping(n, "a rule",
		key{"effect", "what it does: effect: deny, ask or allow", r.word("effect", (*string)(&rule.Effect), effects...)},
		key{"subject", "", r.text("subject", &rule.Subject, r.checkSubject)},
		key{"root", "", r.ruleRoot(&rule.Root)},
		key{"operations", "", r.texts("operations", &rule.Operations, func(at place, s string) {
			if names := membrane.EveryRight.Names(); !slices.Contains(names, s) {
				r.mistake(at, "%s is no operation%s; write some of %s", quote(s), didYouMean(s, names), strings.Join(names, ", "))
			}
		})},
		key{"patterns", "where it holds, such as patterns: [\"**/.env\"], or [\"**\"] for every path", r.texts("patterns", &rule.Patterns, r.checkPattern)},
		key{"except", "", r.texts("except", &rule.Except, r.checkPattern)},
		key{"symlinks", "", r.word("symlinks", &rule.Symlinks, operator.SymlinksReject, operator.SymlinksInRoot)},
		key{"hardlinks", "", r.word("hardlinks", &rule.Hardlinks, operator.HardlinksReject, operator.HardlinksAllow)},
		key{"maxFileBytes", "", func(n ast.Node) {
			rule.MaxFileBytes = int64(r.bytes(n, "maxFileBytes", "a whole number of bytes from 1, such as 1024 or 10MiB", "no bound"))
		}},
		key{"audit", "", r.word("audit", &rule.Audit, operator.AuditReads)},
	)
	return rule
}

// word reads one of some words.
func (r *reader) word(key string, into *string, words ...string) func(ast.Node) {
	return r.text(key, into, func(at place, s string) {
		if !slices.Contains(words, s) {
			r.mistake(at, "%s is %s%s; write %s", key, quote(s), didYouMean(s, words), strings.Join(words, " or "))
		}
	})
}

func (r *reader) checkSubject(at place, s string) {
	some, every := strings.CutSuffix(s, "*")
	if every {
		some += "x"
	}
	if _, err := operator.ParseSubject(some); err != nil {
		r.mistake(at, "subject is %s: %s; write NAME, KIND:NAME, KIND:* for all of a kind, or * for everybody", quote(s), vfs.Message(err))
	}
}

// checkOneSubject is checkSubject for one subject.
func (r *reader) checkOneSubject(at place, s string) {
	if _, err := operator.ParseSubject(s); err != nil {
		r.mistake(at, "subject is %s: %s; write NAME or KIND:NAME", quote(s), vfs.Message(err))
	}
}

// ruleRoot reads the roots for which a rule holds: a kind, or {id: ID}.
func (r *reader) ruleRoot(into *operator.RuleRoot) func(ast.Node) {
	return func(n ast.Node) {
		if _, ok := n.(*ast.MappingNode); ok {
			r.mapping(n, "root", key{"id", "the id of a root, such as id: project", r.text("id", &into.ID, r.some("id", "the id of a root"))})
			return
		}
		r.word("root", &into.Kind, operator.RootKinds()...)(n)
	}
}
