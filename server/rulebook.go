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
	set    []Rule // by an operator
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
	if err := b.Book.Set(b.all(b.set), roots); err != nil {
		return nil, err
	}
	return left, b.note("", false)
}

// exchange replaces the rules of the configuration.
func (b *rulebook) exchange(file Policy, roots []operator.Root) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := policy.Rules{Rules: slices.Concat(file.Rules, b.set), Default: file.Default}
	if m := policy.Check(now, roots); len(m) > 0 {
		return policy.Wrong(m)
	}
	b.file, b.roots = file, roots
	if err := b.note("", false); err != nil {
		return err
	}
	return b.Book.Set(now, roots)
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
	if err := b.note(kept, true); err != nil {
		b.set = was
		return "", err
	}
	return next.Hash(), b.Book.Set(next, b.roots)
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

// note writes which rules hold from now on, to the record too,, and with keep those that were set, as text. Needs b.mu.
func (b *rulebook) note(text string, keep bool) error {
	all := b.all(b.set)
	rules, err := json.Marshal(all.Rules)
	if err != nil {
		return err
	}
	return b.db.Write(func(tx *database.Tx) error {
		if keep {
			if _, err := tx.Exec("INSERT INTO meta(key, value) VALUES('policy', ?) ON CONFLICT DO UPDATE SET value=excluded.value", text); err != nil {
				return err
			}
		}
		latest := ""
		if err := scanned(&tx.Rows, &latest, "SELECT hex(hash) FROM policies ORDER BY made DESC LIMIT 1"); err != nil || strings.EqualFold(latest, all.Hash()) || latest == "" && all.Hash() == (policy.Rules{}).Hash() {
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
