package records

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"capd/database"
	"capd/record"
	"capd/state"
)

// verified is how many entries are verified.
const verified = 400_000

// logs measures a record alone.
func logs(o *Options, dir string) *world {
	var db *database.DB
	var log *record.Log
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	intend := func(context.Context, int) error {
		i := log.Intend(entry(0))
		err := i.Wait()
		if err == nil {
			i.End(record.Outcome{})
		}
		return err
	}
	return &world{
		rows: []*contest{
			{Row{Name: "record: 64 writers", Floor: "one writer", Unit: "/s", More: true, Target: 8},
				rate(o.Slice, 1, intend), rate(o.Slice, 64, intend)},
			{Row{Name: "record: entries verified", Unit: "/s", More: true, Target: 200_000}, nil, func(ctx context.Context) (float64, error) {
				return verify(ctx, db, key)
			}},
		},
		setup: func(context.Context) (err error) {
			if db, err = database.Open(state.Dir(dir), database.Options{}); err != nil {
				return err
			}
			if log, err = record.Open(db, record.Options{Key: key}); err != nil {
				return err
			}
			return fill(db, log, int(verified*o.Scale))
		},
		close: func() (err error) {
			if log != nil {
				err = log.Close()
			}
			if db != nil {
				err = errors.Join(err, db.Close())
			}
			return err
		},
	}
}

// entry is an intent as a guest's put makes it.
func entry(n int) record.Entry {
	return record.Entry{Kind: record.Intended, Op: "replace", Path: record.Path(fmt.Sprintf("project/src/package/file%d.go", n)), Size: 4096, Bytes: 4096,
		Version: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", Was: &record.Was{Size: 4096, Modified: 1795436004580},
		Grants: []record.Holder{{ID: "g17", Name: "agent/2"}, {ID: "g3", Name: "agent"}}}
}

func fill(db *database.DB, log *record.Log, n int) error {
	const atOnce = 10_000
	for done := 0; done < n; done += atOnce {
		err := db.Write(func(tx *database.Tx) error {
			for i := range min(atOnce, n-done) {
				e := entry(i)
				e.Kind, e.Of, e.Result = record.Ended, -1, record.Done // nothing is left open
				if err := log.Append(tx, e); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	_, err := log.Checkpoint(false)
	return err
}

// verify returns how many entries are verified in a second.
func verify(ctx context.Context, db *database.DB, key ed25519.PrivateKey) (float64, error) {
	line, err := record.Verifier(key.Public().(ed25519.PublicKey))
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	r, err := record.Verify(ctx, db, record.VerifyOptions{Key: line})
	if err == nil && len(r.Problems) > 0 {
		err = errors.New(r.Problems[0])
	}
	return float64(r.Entries) / time.Since(begun).Seconds(), err
}
