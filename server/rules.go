package server

import (
	"capd/config"
	"capd/operator"
	"capd/policy"
)

// Rule is one rule of a host's policy; docs/policy.md describes rules.
type Rule = operator.Rule

// rulesOf returns the rules of a configuration.
func rulesOf(c *config.Config) Policy { return Policy{Rules: c.Rules, Default: c.Policy.Default} }

// Policy says what guests may do with paths, besides the rights of their grants. The zero Policy leaves that to
// the rights.
type Policy struct {
	Rules   []Rule
	Default operator.RuleEffect // where no rule matches: RuleDeny, or RuleAllow or "" for what the rights say
}

// SetPolicy exchanges the rules of the host. Rules that the operator has set over its console stay. It answers invalid for rules that are wrong or can never take
// effect, with a line for each, and changes nothing then. Once it has returned, every call of a guest is decided
// by the new rules, also on what was opened before, and no change shows any more that others have decided. It answers busy if such a change
// does not end; the rules hold all the same. Before Start set the field Policy.
func (s *Server) SetPolicy(p Policy) error {
	if err := s.serves(); err != nil {
		return err
	}
	s.reloading.Lock()
	defer s.reloading.Unlock()
	if err := s.rules.exchange(p, s.laid.roots.All()); err != nil {
		return err
	}
	s.laid.policy = p
	return s.rules.decided()
}

// checkPolicy returns what is wrong with s.Policy.
func (s *Server) checkPolicy() error {
	roots, err := s.placed()
	if err != nil {
		return err
	}
	return new(policy.Book).Set(policy.Rules{Rules: s.Policy.Rules, Default: s.Policy.Default}, roots.All())
}
