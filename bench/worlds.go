package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"

	"capd/bench/peers"
	"capd/bench/worlds"
)

// wholeTrees measures the rows about whole trees in this process. Rows over the wire use a host of capd in
// another process.
func wholeTrees(ctx context.Context, dir string, place peers.Place, o options) (res *worlds.Result, err error) {
	source, err := capdRoot()
	if err != nil {
		return nil, err
	}
	below := filepath.Join(dir, "worlds")
	if err := os.Mkdir(below, 0o755); err != nil {
		return nil, err
	}
	if o.profiles != "" {
		f, err := os.Create(profileName(o.profiles, "worlds", peers.Capd.Name, "client"))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return nil, err
		}
		defer pprof.StopCPUProfile()
	}
	return worlds.Run(ctx, worlds.Options{
		Dir: below, Rounds: o.rounds, Scale: o.scale, Source: source, Served: peers.CapdTree,
		Only: func(name string) bool { return o.only.MatchString("worlds: " + name) },
		Serve: func(ctx context.Context, tree string) (string, func() error, error) {
			return serveTree(ctx, dir, tree, place, o)
		},
	})
}

// serveTree serves a directory by capd in a process of its own.
func serveTree(ctx context.Context, dir, tree string, place peers.Place, o options) (locator string, stop func() error, err error) {
	place.Tree, place.TLS, place.Capd = tree, false, filepath.Join(dir, "capd")
	if err := build(place.Capd, dir, o.profiles != ""); err != nil {
		return "", nil, err
	}
	if o.profiles != "" {
		place.Profile = profileName(o.profiles, "worlds", peers.Capd.Name, "server")
	}
	t := &team{c: peers.Capd, place: place}
	if err := t.serve(ctx, filepath.Join(dir, "worlds.socket")); err != nil {
		t.stop()
		return "", nil, err
	}
	return t.place.Address, func() error {
		err := profiled([]*team{t}, o.profiles)
		t.stop()
		return err
	}, nil
}

// worldGrids returns the tables about whole trees, or none if they were not measured.
func (r *report) worldGrids() (gs []grid) {
	if r.Worlds == nil {
		return nil
	}
	g := grid{title: "Whole trees", cells: [][]string{{"", "floor", "", "capd", "ratio", "target", ""}}}
	for _, row := range r.Worlds.Rows {
		g.cells = append(g.cells, append([]string{row.Name, row.Floor}, worldCells(row)...))
	}
	if len(g.cells) > 1 {
		gs = append(gs, g)
	}
	g = grid{title: "Memory of mounts and open files", cells: [][]string{{"", "how many", "bytes of each"}}}
	for _, held := range r.Worlds.Memory {
		each := "failed"
		if held.Err == "" {
			each = fmt.Sprintf("%.0f", held.Bytes)
		}
		g.cells = append(g.cells, []string{held.Name, fmt.Sprint(held.Count), each})
	}
	if len(g.cells) > 1 {
		gs = append(gs, g)
	}
	return gs
}

// worldCells returns a row's figures, its targets, and whether they are met.
func worldCells(row worlds.Row) []string {
	value := func(v float64) string {
		switch {
		case v == 0:
			return "–"
		case row.Rate:
			return fmt.Sprintf("%.0f MB/s", v/1e6)
		}
		return fmt.Sprintf("%.1f ms", v*1e3)
	}
	ratio, sign := "–", "≤"
	if row.Ratio != 0 {
		ratio = fmt.Sprintf("%.2f", row.Ratio)
	}
	if row.Rate {
		sign = "≥"
	}
	var targets []string
	if row.Target != 0 {
		targets = append(targets, fmt.Sprintf("%s %.2f", sign, row.Target))
	}
	if row.Within != 0 {
		targets = append(targets, fmt.Sprintf("≤ %.0f ms", row.Within*1e3))
	}
	said := ""
	if met, known := row.Met(); known {
		said = verdict(met)
	}
	if row.Err != "" {
		said = row.Err
	}
	return []string{value(row.Base), value(row.Value), ratio, strings.Join(targets, ", "), said}
}
