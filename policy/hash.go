package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"capd/operator"
	"capd/vfs/membrane"
)

// Hash returns 64 hexadecimal digits that are the same for rules that mean the same: the
// order of the rules, of their operations and their patterns, and where they are written,
// make no difference.
func (r Rules) Hash() string {
	texts := []string{}
	for _, rule := range r.Rules {
		texts = append(texts, canonical(rule))
	}
	slices.Sort(texts)
	def := r.Default
	if def == "" {
		def = operator.RuleAllow
	}
	text, err := json.Marshal(append([]string{string(def)}, texts...))
	if err != nil {
		panic(err) // texts have no values that JSON lacks
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// ID returns 8 hexadecimal digits that tell a rule from others. Where it is written makes no
// difference.
func ID(r operator.Rule) string {
	sum := sha256.Sum256([]byte(canonical(r)))
	return hex.EncodeToString(sum[:4])
}

// canonical returns one text for all ways to write a rule.
func canonical(r operator.Rule) string {
	r.Source = ""
	r.Subject = fullSubject(r.Subject)
	r.Patterns, r.Except = sorted(r.Patterns), sorted(r.Except)
	if keeps, err := operationsOf(r); err == nil {
		r.Operations = keeps.Names()
		if keeps == membrane.EveryRight {
			r.Operations = nil
		}
	}
	if r.Hardlinks == operator.HardlinksAllow {
		r.Hardlinks = ""
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func sorted(texts []string) []string {
	texts = slices.Clone(texts)
	slices.Sort(texts)
	return slices.Compact(texts)
}
