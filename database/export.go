package database

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"unicode/utf8"

	"capd/state"
)

// Export writes the state in d to w as lines of JSON, an object for each row: its table is at "table", and its columns have their
// names. The digests of secrets are left out. Bytes that are not UTF-8 are {"bytes": BASE64}. It is for people: nothing reads it
// back. It works beside a running host, whose log grows meanwhile. It answers as [OpenView].
func Export(ctx context.Context, d state.Dir, w io.Writer) error {
	v, err := OpenView(ctx, d)
	if err != nil {
		return err
	}
	defer v.Close()
	to := json.NewEncoder(w)
	return v.Read(ctx, func(rows *Rows) error {
		tables, err := names(rows)
		for _, table := range tables {
			if err == nil {
				err = exportTable(ctx, rows, table, to)
			}
		}
		return err
	})
}

// names returns the tables.
func names(rows *Rows) (all []string, err error) {
	found, err := rows.Query("SELECT name FROM sqlite_schema WHERE type='table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var name string
		if err := found.Scan(&name); err != nil {
			return nil, err
		}
		all = append(all, name)
	}
	return all, found.Err()
}

// secret are the columns that are not exported.
var secret = []string{"digest"}

func exportTable(ctx context.Context, rows *Rows, table string, to *json.Encoder) error {
	found, err := rows.Query(`SELECT * FROM "` + table + `"`)
	if err != nil {
		return err
	}
	defer found.Close()
	columns, err := found.Columns()
	if err != nil {
		return err
	}
	values, places := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		places[i] = &values[i]
	}
	for found.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := found.Scan(places...); err != nil {
			return err
		}
		one := map[string]any{"table": table}
		for i, name := range columns {
			if values[i] != nil && !slices.Contains(secret, name) {
				one[name] = readable(values[i])
			}
		}
		if err := to.Encode(one); err != nil {
			return err
		}
	}
	return found.Err()
}

func readable(v any) any {
	data, ok := v.([]byte)
	switch {
	case !ok:
		return v
	case utf8.Valid(data):
		return string(data)
	}
	return map[string][]byte{"bytes": data}
}
