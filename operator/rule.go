package operator

import (
	"encoding/json"
	"errors"
)

// Rule is one rule of a host's policy: what subjects may do with the paths that it matches.
// docs/policy.md has examples.
type Rule struct {
	Effect     RuleEffect `json:"effect"`
	Subject    string     `json:"subject,omitempty"`    // KIND:ID, KIND:*, or * or "" for everybody; NAME alone means agent-run:NAME
	Root       RuleRoot   `json:"root,omitzero"`        // where it holds; zero means everywhere
	Operations []string   `json:"operations,omitempty"` // names of rights; none means all of them
	Patterns   []string   `json:"patterns"`             // from the root's directory; without a root, from the top of the tree
	Except     []string   `json:"except,omitempty"`     // paths to which it does not apply, although Patterns match them

	// Bounds of what an allow or an ask rule matches.
	Symlinks     string `json:"symlinks,omitempty"`     // SymlinksReject or SymlinksInRoot; "" for no bound
	Hardlinks    string `json:"hardlinks,omitempty"`    // HardlinksReject or HardlinksAllow; "" is HardlinksAllow
	MaxFileBytes int64  `json:"maxFileBytes,omitempty"` // of a file that is written; 0 for no bound

	// Audit is AuditReads if each read of what the rule matches has an entry of its own in the record; "" if it is counted.
	Audit string `json:"audit,omitempty"`

	// Source says where the rule is written, such as "capd.yaml:31:5". It is no part of
	// what the rule means.
	Source string `json:"source,omitempty"`
}

// RuleEffect is what a rule does. A deny wins over an ask, and an ask over an allow, in
// whatever order the rules stand.
type RuleEffect string

// The effects.
const (
	RuleDeny  RuleEffect = "deny"
	RuleAsk   RuleEffect = "ask"
	RuleAllow RuleEffect = "allow"
)

// Values of Symlinks and Hardlinks.
const (
	SymlinksReject  = "reject"  // no link is followed
	SymlinksInRoot  = "in-root" // no link is followed out of the root's directory
	HardlinksReject = "reject"  // a file with more than one name in its store is refused
	HardlinksAllow  = "allow"
)

// AuditReads is the value of Audit.
const AuditReads = "reads"

// RuleRoot names the roots for which a rule holds: one by its id, or all of a kind. In JSON
// it is a kind, or {"id": ID}.
type RuleRoot struct{ Kind, ID string }

// MarshalJSON implements [json.Marshaler].
func (r RuleRoot) MarshalJSON() ([]byte, error) {
	if r.ID == "" {
		return json.Marshal(r.Kind)
	}
	return json.Marshal(map[string]string{"id": r.ID})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *RuleRoot) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &r.Kind) == nil {
		return nil
	}
	var id struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(data, &id); err != nil || id.ID == "" {
		return errors.New("a root is a kind, or {\"id\": ID}")
	}
	r.ID = id.ID
	return nil
}

// String returns the root as a rule's author writes it.
func (r RuleRoot) String() string {
	switch {
	case r.ID != "":
		return "{id: " + r.ID + "}"
	case r.Kind != "":
		return r.Kind
	}
	return "everywhere"
}
