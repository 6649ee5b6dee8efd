package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"capd/bench/records"
)

// durable measures what the durable state of a host costs.
func durable(ctx context.Context, dir string, o options) ([]records.Row, error) {
	below := filepath.Join(dir, "records")
	if err := os.Mkdir(below, 0o700); err != nil {
		return nil, err
	}
	return records.Run(ctx, records.Options{
		Dir: below, Rounds: o.rounds, Slice: o.slice, Scale: o.scale,
		Only: func(name string) bool { return o.only.MatchString("records: " + name) },
		Capd: func() (string, error) {
			program := filepath.Join(dir, "capd")
			return program, build(program, dir, false)
		},
	})
}

// recordGrids returns the table about durable state, or none if it was not measured.
func (r *report) recordGrids() []grid {
	if len(r.Records) == 0 {
		return nil
	}
	g := grid{title: "Durable state", cells: [][]string{{"", "floor", "", "capd", "ratio", "target", ""}}}
	for _, row := range r.Records {
		g.cells = append(g.cells, append([]string{row.Name, row.Floor}, recordCells(row)...))
	}
	return []grid{g}
}

// recordCells returns a row's figures, its target, and whether it is met.
func recordCells(row records.Row) []string {
	value := func(v float64) string {
		switch {
		case v == 0:
			return "–"
		case row.Unit == "/s":
			return fmt.Sprintf("%.0f/s", v)
		case row.Unit == "":
			return fmt.Sprintf("%.2f", v)
		}
		return fmt.Sprintf("%.1f %s", v, row.Unit)
	}
	ratio, sign, target := "–", "≤", value(row.Target)
	if row.More {
		sign = "≥"
	}
	if row.Floor != "" {
		target = fmt.Sprintf("%.2f", row.Target)
	}
	if row.Ratio != 0 {
		ratio = fmt.Sprintf("%.2f", row.Ratio)
	}
	said := row.Err
	if met, known := row.Met(); known {
		said = verdict(met)
	}
	return []string{value(row.Base), value(row.Value), ratio, sign + " " + target, said}
}
