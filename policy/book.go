// Package policy decides by an operator's rules what a subject may do with a path. It
// checks rules, and compiles those that apply to a subject into a [membrane.Judge]. A
// deny wins over an ask, and an ask over an allow, in whatever order the rules stand. Where
// no rule matches, the rights of the grant decide, unless the default is to deny.
package policy

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"capd/operator"
	"capd/vfs/membrane"
)

// Rules are all rules of a host.
type Rules struct {
	Rules   []operator.Rule
	Default operator.RuleEffect // where no rule matches: RuleDeny, or RuleAllow (also "") for what the grant's rights say
}

// names reports whether a rule's root r names root.
func names(r operator.RuleRoot, root operator.Root) bool {
	if r.ID != "" {
		return r.ID == root.ID
	}
	return r.Kind == "" || r.Kind == root.Kind
}

// Book holds the rules of a host. They may be exchanged at any time. The zero Book has no
// rules. Safe for concurrent use.
type Book struct{ edition atomic.Pointer[edition] }

// edition is what a Book holds until it is exchanged.
type edition struct {
	rules Rules
	roots []operator.Root

	mu     sync.Mutex
	sheets map[string]*sheet // by which rules apply
}

// Set exchanges the rules and the roots for which they hold. It answers invalid for rules
// that [Check] finds mistakes in, and changes nothing then. After Set has returned, no
// call and no commit begins under the old rules.
func (b *Book) Set(r Rules, roots []operator.Root) error {
	if mistakes := Check(r, roots); len(mistakes) > 0 {
		return Wrong(mistakes)
	}
	if _, err := compile(r.Rules, roots, membrane.Silent); err != nil { // nothing that Check allows
		return err
	}
	b.edition.Store(&edition{rules: r, roots: roots, sheets: map[string]*sheet{}})
	return nil
}

// For returns the policy for what subject does. It follows every Set.
func (b *Book) For(subject operator.Subject) membrane.Policy {
	return &holder{book: b, subject: subject}
}

// holder is a Book as it is for one subject.
type holder struct {
	book    *Book
	subject operator.Subject
	found   atomic.Pointer[found]
}

// found is the Judge of an edition.
type found struct {
	edition *edition
	judge   membrane.Judge
}

// Judge implements [membrane.Policy].
func (h *holder) Judge() membrane.Judge {
	e := h.book.edition.Load()
	if e == nil {
		return nil
	}
	if f := h.found.Load(); f != nil && f.edition == e {
		return f.judge
	}
	f := &found{edition: e, judge: e.judge(string(h.subject))}
	h.found.Store(f)
	return f.judge
}

// judge returns the Judge for a subject: nil if no rule can apply. Subjects to which the
// same rules apply share it.
func (e *edition) judge(subject string) membrane.Judge {
	var which []int
	for i, r := range e.rules.Rules {
		if covers(r.Subject, subject) {
			which = append(which, i)
		}
	}
	fallback := membrane.Silent
	if e.rules.Default == operator.RuleDeny {
		fallback = membrane.Denies
	}
	if len(which) == 0 && fallback == membrane.Silent {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	key := keyOf(which)
	s := e.sheets[key]
	if s == nil {
		rules := make([]operator.Rule, len(which))
		for i, at := range which {
			rules[i] = e.rules.Rules[at]
		}
		s, _ = compile(rules, e.roots, fallback) // Set has compiled them once
		e.sheets[key] = s
	}
	return s.start
}

func keyOf(which []int) string {
	texts := make([]string, len(which))
	for i, n := range which {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, " ")
}

// covers reports whether a rule for whom applies to everybody to whom one for other does.
func covers(whom, other string) bool {
	whom, other = fullSubject(whom), fullSubject(other)
	some, every := strings.CutSuffix(whom, "*")
	return whom == other || every && strings.HasPrefix(other, some)
}

// fullSubject returns a rule's subject with its kind: "*" for everybody.
func fullSubject(whom string) string {
	if whom == "" {
		return "*"
	}
	if s, err := operator.ParseSubject(whom); err == nil {
		return string(s)
	}
	return whom
}

// isSubject reports whether a rule may name whom as its subject.
func isSubject(whom string) bool {
	some, every := strings.CutSuffix(fullSubject(whom), "*")
	if every {
		_, err := operator.ParseSubject(some + "x")
		return err == nil && (some == "" || strings.HasSuffix(some, ":"))
	}
	_, err := operator.ParseSubject(whom)
	return err == nil
}
