package membrane

import (
	"slices"
	"strings"
)

// rules are what a tree's guards have for one path: the matchers, first those of Hides,
// then those of Asks and On, and the Judge of the policy. They never change, so that views share
// them.
type rules struct {
	at    []Matcher
	root  Judge // of the policy that judge belongs to; nil if no rule holds
	judge Judge // at the path
}

// step returns the rules for name below.
func (r *rules) step(name string) *rules {
	next, changed := r.at, false
	for i, m := range r.at {
		n := m.Step(name)
		if n == m {
			continue
		}
		if !changed {
			next, changed = slices.Clone(r.at), true
		}
		next[i] = n
	}
	judge := r.judge
	if judge != nil {
		judge = judge.Step(name)
	}
	if !changed && judge == r.judge {
		return r
	}
	return &rules{next, r.root, judge}
}

// walk takes a step for every name of a path.
func (r *rules) walk(names []string) *rules {
	for _, name := range names {
		r = r.step(name)
	}
	return r
}

// same reports whether every rule applies to the same names below r as below to.
func (r *rules) same(to *rules) bool {
	if r.judge != to.judge && (r.judge == nil || to.judge == nil || !r.judge.Same(to.judge)) {
		return false
	}
	return slices.EqualFunc(r.at, to.at, Matcher.Same)
}

// standing returns the rules at v's path, those of the policy as they are now.
func (v *view) standing() *rules {
	if v.guards.policy == nil {
		return v.rules
	}
	root := v.guards.policy.Judge()
	if v.rules.root == root {
		return v.rules
	}
	if r := v.moved.Load(); r != nil && r.root == root {
		return r
	}
	r := v.guards.at(root, v.path)
	v.moved.Store(r)
	return r
}

// at returns the rules at path, where root is the policy's Judge.
func (s *guardSet) at(root Judge, path string) *rules {
	r := &rules{s.root.at, root, root}
	if path == "" {
		return r
	}
	return r.walk(strings.Split(path, "/"))
}

// current returns the rules at path, which were r, as they are now.
func (s *guardSet) current(r *rules, path string) *rules {
	if s.policy == nil {
		return r
	}
	if root := s.policy.Judge(); root != r.root {
		return s.at(root, path)
	}
	return r
}

// hides reports whether a guard or the policy withholds the path of r.
func (s *guardSet) hides(r *rules) bool {
	return slices.ContainsFunc(r.at[:s.hiding], Matcher.Matched) || r.judge != nil && r.judge.Passage() == Withheld
}

// hidesIn reports whether name is withheld in the directory at r.
func (s *guardSet) hidesIn(r *rules, name string) bool {
	return s.matchesIn(r, name) || r.judge != nil && r.judge.Step(name).Passage() == Withheld
}

// skips reports whether a listing of the directory at r leaves out name: it is withheld, or
// the policy denies or asks about reading it.
func (s *guardSet) skips(r *rules, name string) bool {
	return s.matchesIn(r, name) || r.judge != nil && r.judge.Step(name).Judge(Read).Says >= Asks
}

func (s *guardSet) matchesIn(r *rules, name string) bool {
	return slices.ContainsFunc(r.at[:s.hiding], func(m Matcher) bool { return m.Step(name).Matched() })
}
