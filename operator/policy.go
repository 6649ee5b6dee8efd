package operator

import "time"

// Policy is all rules of a host, as they hold now.
type Policy struct {
	Hash    string       `json:"hash"`    // of Default and all rules
	Default RuleEffect   `json:"default"` // where no rule matches: RuleAllow (what the rights of the grant say) or RuleDeny
	Rules   []PolicyRule `json:"rules"`   // those of the configuration first
}

// PolicyRule is a rule that holds. Its Source is a place in the configuration, or SetSource.
type PolicyRule struct {
	ID string `json:"id"` // 8 hexadecimal digits, of what the rule means
	Rule
}

// SetSource is the Source of a rule that an operator has set while the host ran.
const SetSource = "set"

// Rulebook is the rules of a host, as its operator sees and sets them.
type Rulebook interface {
	// Policy returns the rules that hold now.
	Policy() Policy

	// SetPolicy replaces the rules that were set before by those in text, which has the form
	// of the rules in a configuration. The rules of the configuration stay. The policy that it
	// replaces must have the hash ifHash, or SetPolicy answers conflict. It answers invalid for
	// mistakes, a line each. The rules are durable, and hold, when it returns the new hash, and no change shows any more that the
	// old ones decided. It answers busy if such a change does not end; the rules hold all the same.
	SetPolicy(text, ifHash string) (hash string, err error)

	// Policies returns what the policy was, the latest first, at most max.
	Policies(max int) ([]PolicyVersion, error)
}

// PolicyVersion is what a [Policy] was from a time on.
type PolicyVersion struct {
	Hash  string    `json:"hash"`
	Since time.Time `json:"since"` // the last time that it began to hold
	Rules []Rule    `json:"rules"`
}
