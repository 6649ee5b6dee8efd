package wire

import (
	"encoding/json"
	"errors"
	"time"

	schema "capd/capnp"
	"capd/operator"
)

// SetRule writes r.
func SetRule(w schema.Rule, r operator.PolicyRule) error {
	bare := r.Rule
	bare.Source = ""
	text, err := json.Marshal(bare)
	return errors.Join(err, w.SetId(r.ID), w.SetSource(r.Source), w.SetRule(string(text)))
}

// Rule reads what SetRule wrote.
func Rule(w schema.Rule) (r operator.PolicyRule, err error) {
	text := Keep[string](&err)
	id, source, rule := text(w.Id()), text(w.Source()), text(w.Rule())
	if err == nil {
		err = json.Unmarshal([]byte(rule), &r.Rule)
	}
	r.ID, r.Source = id, source
	return r, err
}

// SetPolicyVersion writes v.
func SetPolicyVersion(w schema.PolicyVersion, v operator.PolicyVersion) error {
	text, err := json.Marshal(v.Rules)
	w.SetSinceMs(v.Since.UnixMilli())
	return errors.Join(err, w.SetHash(v.Hash), w.SetRules(string(text)))
}

// PolicyVersion reads what SetPolicyVersion wrote.
func PolicyVersion(w schema.PolicyVersion) (v operator.PolicyVersion, err error) {
	text := Keep[string](&err)
	v = operator.PolicyVersion{Hash: text(w.Hash()), Since: time.UnixMilli(w.SinceMs())}
	if rules := text(w.Rules()); err == nil {
		err = json.Unmarshal([]byte(rules), &v.Rules)
	}
	return v, err
}
