package database

import (
	"context"
	"database/sql"
	"errors"

	"capd/state"
)

// Report is what [Check] has found.
type Report struct {
	Version  int      `json:"version"`  // of the tables
	Problems []string `json:"problems"` // what is wrong, at most about 100 lines; none in a sound state
}

// Check reads the whole state in d and reports what is wrong with it. It works beside a running host, and changes
// nothing. It answers notFound if there is no state in d, and corrupt for a file that is no state.
func Check(ctx context.Context, d state.Dir) (r Report, err error) {
	if err := there(d); err != nil {
		return r, err
	}
	useOFDLocks()
	pool, err := sql.Open("sqlite", locate(d.Database(), reading))
	if err != nil {
		return r, said(d.Database(), err)
	}
	err = pool.QueryRowContext(ctx, "PRAGMA user_version").Scan(&r.Version)
	if err == nil {
		r.Problems, err = problems(ctx, pool)
	}
	return r, said(d.Database(), errors.Join(err, pool.Close()))
}

func problems(ctx context.Context, pool *sql.DB) ([]string, error) {
	all, err := lines(ctx, pool, "SELECT * FROM pragma_integrity_check WHERE integrity_check <> 'ok'")
	if err != nil {
		return nil, err
	}
	loose, err := lines(ctx, pool, `SELECT "a row of " || "table" || " refers to a row of " || "parent" || " that is not there" FROM pragma_foreign_key_check`)
	return append(all, loose...), err
}

// lines returns the first column of what a query finds.
func lines(ctx context.Context, pool *sql.DB, query string) (all []string, err error) {
	rows, err := pool.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return nil, err
		}
		all = append(all, line)
	}
	return all, rows.Err()
}
