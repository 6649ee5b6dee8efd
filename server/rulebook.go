package server

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"capd/config"
	"capd/database"
	"capd/operator"
	"capd/policy"
	"capd/record"
	"capd/vfs"
)

// rulebook is the rules of a host: those of its configuration, and those that an operator has set, which it keeps in
// the database. It implements [operator.Rulebook].
type rulebook struct {
	policy.Book

	mu     sync.Mutex
	db     *database.DB
	record *record.Log // nil for none
	roots  []operator.Root
	file   Policy // of the configuration

	decided func() error // waits for the changes that other rules have decided; nil until guests may change something
	set     []Rule       // by an operator
}

// all returns all rules, given those that an operator has set.
func (b *rulebook) all(set []Rule) policy.Rules {
	return policy.Rules{Rules: slices.Concat(b.file.Rules, set), Default: b.file.Default}
}

// open begins with the rules of a configuration, and those in db. A rule in db that no longer fits them is left out; why is
// returned for the log.
func (b *rulebook) open(ctx context.Context, db *database.DB, log *record.Log, roots []operator.Root, file Policy) (left []string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.db, b.record, b.roots, b.file = db, log, roots, file
	text := ""
	err = db.Read(ctx, func(rows *database.Rows) error {
		return scanned(rows, &text, "SELECT value FROM meta WHERE key='policy'")
	})
	if err != nil {
		return nil, err
	}
	set, err := config.ParseRules(operator.SetSource, []byte(text))
	if err != nil {
		return nil, err
	}
	sourced(set)
	for _, r := range set {
		if m := policy.Check(b.all(append(slices.Clone(b.set), r)), roots); len(m) > 0 {
			left = append(left, "a rule that was set does not hold: "+m[0].String())
			continue
		}
		b.set = append(b.set, r)
	}
	if err := b.judge(b.all(b.set), roots); err != nil {
		return nil, err
	}
	return left, b.note("", false, false)
}

// with returns the rules that would hold with those of file. It answers invalid for what is wrong with them. Needs b.mu.
func (b *rulebook) with(file Policy, roots []operator.Root) (policy.Rules, error) {
	all := policy.Rules{Rules: slices.Concat(file.Rules, b.set), Default: file.Default}
	if m := policy.Check(all, roots); len(m) > 0 {
		return all, policy.Wrong(m)
	}
	return all, nil
}

// admits answers what exchange would find wrong.
func (b *rulebook) admits(file Policy, roots []operator.Root) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.with(file, roots)
	return err
}

// exchange replaces the rules of the configuration.
func (b *rulebook) exchange(file Policy, roots []operator.Root) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, err := b.with(file, roots)
	if err != nil {
		return err
	}
	was, wasRoots := b.file, b.roots
	b.file, b.roots = file, roots
	if err := b.note("", false, false); err != nil {
		b.file, b.roots = was, wasRoots
		return err
	}
	return b.judge(now, roots)
}

// Policy implements [operator.Rulebook].
func (b *rulebook) Policy() operator.Policy {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.all(b.set)
	p := operator.Policy{Hash: all.Hash(), Default: operator.RuleAllow}
	if all.Default != "" {
		p.Default = all.Default
	}
	for _, r := range all.Rules {
		p.Rules = append(p.Rules, operator.PolicyRule{ID: policy.ID(r), Rule: r})
	}
	return p
}

// SetPolicy implements [operator.Rulebook].
func (b *rulebook) SetPolicy(text, ifHash string) (hash string, err error) {
	set, err := config.ParseRules("rules", []byte(text))
	if err != nil {
		return "", err
	}
	if hash, err = b.replace(set, ifHash); err != nil {
		return "", err
	}
	return hash, b.decided()
}

// replace replaces the rules that were set.
func (b *rulebook) replace(set []Rule, ifHash string) (hash string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.all(b.set).Hash(); now != ifHash {
		return "", vfs.Errorf(vfs.Conflict, "the rules that hold now have the hash %s; look at them, and set yours with that hash", now)
	}
	if m := policy.Check(b.all(set), b.roots); len(m) > 0 {
		return "", policy.Wrong(m)
	}
	kept, err := written(set)
	if err != nil {
		return "", err
	}
	sourced(set)
	next, was := b.all(set), b.set
	b.set = set
	if err := b.note(kept, true, narrows(was, set, b.file.Default)); err != nil {
		b.set = was
		return "", err
	}
	return next.Hash(), b.judge(next, b.roots)
}

// judge has all decide from now on. A rule that was set is named with its id, as capd policy show has it.
func (b *rulebook) judge(all policy.Rules, roots []operator.Root) error {
	all.Rules = slices.Clone(all.Rules)
	for i, r := range all.Rules {
		if r.Source == operator.SetSource {
			all.Rules[i].Source += " " + policy.ID(r)
		}
	}
	return b.Book.Set(all, roots)
}

// narrows reports whether rules that become to only take away: then they are set although the disk is full. Each that denies, asks or
// bounds stays, and none that allows is new: where nothing is allowed by default, neither is one that asks.
func narrows(from, to []Rule, silent operator.RuleEffect) bool {
	has := func(all []Rule, r Rule) bool {
		return slices.ContainsFunc(all, func(o Rule) bool { return policy.ID(o) == policy.ID(r) })
	}
	for _, r := range from {
		bounds := r.Symlinks != "" || r.Hardlinks != "" || r.MaxFileBytes > 0 || r.Audit != ""
		if (r.Effect != operator.RuleAllow || bounds) && !has(to, r) {
			return false
		}
	}
	return !slices.ContainsFunc(to, func(r Rule) bool {
		gives := r.Effect == operator.RuleAllow || r.Effect == operator.RuleAsk && silent == operator.RuleDeny
		return gives && !has(from, r)
	})
}

// written returns the text that keeps rules, which ParseRules reads.
func written(set []Rule) (string, error) {
	if len(set) == 0 {
		return "", nil
	}
	bare := slices.Clone(set)
	for i := range bare {
		bare[i].Source = ""
	}
	text, err := json.Marshal(bare)
	return string(text), err
}

// sourced sets the Source of rules that were set.
func sourced(set []Rule) {
	for i := range set {
		set[i].Source = operator.SetSource
	}
}

// Policies implements [operator.Rulebook].
func (b *rulebook) Policies(max int) (all []operator.PolicyVersion, err error) {
	err = b.db.Read(context.Background(), func(r *database.Rows) error {
		all = nil
		rows, err := r.Query("SELECT lower(hex(hash)), text, made FROM policies ORDER BY made DESC LIMIT ?", max)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var v operator.PolicyVersion
			var text string
			var made int64
			if err := rows.Scan(&v.Hash, &text, &made); err != nil {
				return err
			}
			if err := json.Unmarshal([]byte(text), &v.Rules); err != nil {
				return err
			}
			v.Since = time.UnixMilli(made)
			all = append(all, v)
		}
		return rows.Err()
	})
	return all, err
}

// scanned reads the only value of a query into into, if there is a row.
func scanned(rows *database.Rows, into any, query string) error {
	if err := rows.Row(query).Scan(into); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return nil
}

// newest reports whether all are the newest rules that were noted, or none where none were.
func newest(rows *database.Rows, all policy.Rules) (bool, error) {
	latest := ""
	err := scanned(rows, &latest, "SELECT hex(hash) FROM policies ORDER BY made DESC LIMIT 1")
	return strings.EqualFold(latest, all.Hash()) || latest == "" && all.Hash() == (policy.Rules{}).Hash(), err
}

// note writes which rules hold from now on, to the record too, and with keep those that were set, as text. With narrows it does so
// with a full disk, too. Needs b.mu.
func (b *rulebook) note(text string, keep, narrows bool) error {
	all := b.all(b.set)
	rules, err := json.Marshal(all.Rules)
	if err != nil {
		return err
	}
	if !keep {
		noted := false
		err := b.db.Read(context.Background(), func(rows *database.Rows) (err error) {
			noted, err = newest(rows, all)
			return err
		})
		if err != nil || noted {
			return err
		}
	}
	write := b.db.Write
	if narrows {
		write = b.db.Urgent
	}
	return write(func(tx *database.Tx) error {
		if keep {
			if _, err := tx.Exec("INSERT INTO meta(key, value) VALUES('policy', ?) ON CONFLICT DO UPDATE SET value=excluded.value", text); err != nil {
				return err
			}
		}
		if noted, err := newest(&tx.Rows, all); err != nil || noted {
			return err
		}
		if b.record != nil {
			if err := b.record.Append(tx, record.Entry{Kind: record.Ruled, Policy: all.Hash()}); err != nil {
				return err
			}
		}
		_, err := tx.Exec("INSERT INTO policies(hash, text, by, made) VALUES(unhex(?), ?, ?, MAX(?, (SELECT COALESCE(MAX(made), 0) + 1 FROM policies))) ON CONFLICT DO UPDATE SET text=excluded.text, made=excluded.made",
			all.Hash(), string(rules), "", time.Now().UnixMilli())
		return err
	})
}
