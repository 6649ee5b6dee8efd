package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"

	"capd/bench/load"
	"capd/bench/peers"
)

func machine() string {
	model := "?"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d CPUs, %s, %s/%s, %s", runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH, runtime.Version())
}

func (r *report) json(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "\t")
	return e.Encode(r)
}

// A grid is a table of text, with the heading first.
type grid struct {
	title string
	cells [][]string
}

func (r *report) grids() []grid {
	var gs []grid
	for _, t := range r.Tables {
		gs = append(gs, t.grid())
	}
	gs = append(gs, r.worldGrids()...)
	gs = append(gs, r.recordGrids()...)
	if len(r.Resources)+len(r.Idle) > 0 {
		gs = append(gs, r.costs())
	}
	return gs
}

var networkNames = map[string]string{"unix": "Unix socket", "tls": "TLS 1.3 over TCP on the loopback"}

func (t *tableResult) grid() grid {
	g := grid{title: t.Title + ", over " + networkNames[t.Network]}
	g.cells = append(g.cells, append(append([]string{""}, t.Contenders...), "target", ""))
	for _, r := range t.Rows {
		line := []string{r.Name}
		for _, name := range t.Contenders {
			ratio, ok := r.Ratios[name]
			value, is := r.Values[name]
			switch {
			case is && name == peers.Floor.Name && r.row.to.op == "":
				line = append(line, r.row.metric.format(value))
			case ok:
				line = append(line, fmt.Sprintf("%.2f", ratio))
			case r.Errors[name] != "":
				line = append(line, "failed")
			default:
				line = append(line, "–")
			}
		}
		g.cells = append(g.cells, append(line, t.judge(r)...))
	}
	return g
}

// judge returns a row's target, and whether its subject reaches it.
func (t *tableResult) judge(r rowResult) []string {
	ratio, ok := r.Ratios[t.table.subject]
	if !ok {
		return []string{"", ""}
	}
	var targets, behind []string
	failed := false
	if r.row.target != 0 {
		sign, met := "≥", ratio >= r.row.target
		if r.row.metric.lower() {
			sign, met = "≤", ratio <= r.row.target
		}
		targets = append(targets, fmt.Sprintf("%s %.2f", sign, r.row.target))
		failed = !met
	}
	if t.table.ahead {
		alone := true
		for _, c := range peers.All {
			peer, ok := r.Ratios[c.Name]
			if !ok || c.Ours || r.row.slice.op == load.Put && !c.Durable {
				continue
			}
			alone = false
			if r.row.metric.lower() && peer < ratio || !r.row.metric.lower() && peer > ratio {
				behind = append(behind, c.Name)
			}
		}
		if !alone {
			targets = append(targets, "ahead")
		}
	}
	if len(targets) == 0 {
		return []string{"", ""}
	}
	said := verdict(!failed && len(behind) == 0)
	if len(behind) > 0 {
		said += ": behind " + strings.Join(behind, ", ")
	}
	return []string{strings.Join(targets, ", "), said}
}

func verdict(ok bool) string {
	if ok {
		return "met"
	}
	return "MISSED"
}

func (m metric) format(v float64) string {
	switch {
	case m.lower():
		return fmt.Sprintf("%.1f µs", v/1e3)
	case m == callRate:
		return fmt.Sprintf("%.0f/s", v)
	}
	return fmt.Sprintf("%.0f MB/s", v/1e6)
}

// Bounds on what package vat may use.
const (
	maxClientMallocs = 6
	maxServerMallocs = 5
	maxPeakRSS       = 40e6
	maxIdleRSS       = 150e6
)

// costs is the table of allocations and memory.
func (r *report) costs() grid {
	g := grid{title: "Allocations of a small call, and memory of the server", cells: [][]string{
		{"", "network", "allocations, client", "server", "peak RSS, MB", "target", ""},
	}}
	for _, u := range r.Resources {
		line := []string{u.Contender, u.Network, figure(u.ClientMallocs), figure(u.ServerMallocs), "–", "", ""}
		if u.PeakRSS > 0 {
			line[4] = figure(float64(u.PeakRSS) / 1e6)
		}
		if u.Contender == peers.Vat.Name && u.ClientMallocs >= 0 {
			line[5] = fmt.Sprintf("≤ %d, ≤ %d, < %.0f", maxClientMallocs, maxServerMallocs, maxPeakRSS/1e6)
			line[6] = verdict(u.ClientMallocs < maxClientMallocs+0.5 && u.ServerMallocs < maxServerMallocs+0.5 && u.PeakRSS < maxPeakRSS)
		}
		g.cells = append(g.cells, line)
	}
	for _, c := range peers.All {
		u, ok := r.Idle[c.Name]
		if !ok {
			continue
		}
		line := []string{fmt.Sprintf("%s, %d idle connections", c.Name, idleConnections), "unix", "", "", "failed", "", ""}
		if u.Err == "" {
			line[4] = fmt.Sprintf("%.1f (after %v: %.1f)", float64(u.Peak)/1e6, settle, float64(u.RSS)/1e6)
		}
		if c == peers.Vat {
			line[5], line[6] = fmt.Sprintf("< %.0f", maxIdleRSS/1e6), verdict(u.Err == "" && u.Peak < maxIdleRSS)
		}
		g.cells = append(g.cells, line)
	}
	return g
}

func figure(v float64) string {
	if v < 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f", v)
}

func (r *report) foot() []string {
	lines := []string{fmt.Sprintf("%s; %d rounds of %d ms slices, %.0f s in all; %s.",
		r.Machine, r.Rounds, r.SliceMs, r.Seconds, r.Begun.UTC().Format("2006-01-02"))}
	for _, c := range peers.All {
		if v, ok := r.Versions[c.Name]; ok {
			lines = append(lines, fmt.Sprintf("%s (%s): %s", c.Name, v, c.About))
		}
	}
	if r.Worlds != nil {
		for _, note := range r.Worlds.Notes {
			lines = append(lines, "whole trees: "+note)
		}
	}
	return lines
}

func (r *report) text(w io.Writer) error {
	for _, g := range r.grids() {
		fmt.Fprintf(w, "%s\n\n", g.title)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		for _, line := range g.cells {
			fmt.Fprintln(tw, strings.Join(line, "\t")+"\t")
		}
		if err := tw.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	for _, line := range r.foot() {
		fmt.Fprintln(w, line)
	}
	return nil
}

func (r *report) markdown(w io.Writer) error {
	for _, g := range r.grids() {
		fmt.Fprintf(w, "### %s\n\n", g.title)
		for i, line := range g.cells {
			fmt.Fprintf(w, "| %s |\n", strings.Join(escaped(line), " | "))
			if i == 0 {
				fmt.Fprintf(w, "|---%s|\n", strings.Repeat("|--:", len(line)-1))
			}
		}
		fmt.Fprintln(w)
	}
	for _, line := range r.foot() {
		fmt.Fprintf(w, "- %s\n", line)
	}
	return nil
}

// into puts the tables between these markers.
const (
	beginMark = "<!-- bench: begin -->\n"
	endMark   = "<!-- bench: end -->\n"
)

// into replaces what is between the markers of a file.
func (r *report) into(name string) error {
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	head, rest, ok := bytes.Cut(old, []byte(beginMark))
	_, tail, ok2 := bytes.Cut(rest, []byte(endMark))
	if !ok || !ok2 {
		return fmt.Errorf("%s has no markers %q and %q", name, beginMark, endMark)
	}
	var b bytes.Buffer
	b.Write(head)
	b.WriteString(beginMark + "\n")
	if err := r.markdown(&b); err != nil {
		return err
	}
	b.WriteString("\n" + endMark)
	b.Write(tail)
	return os.WriteFile(name, b.Bytes(), 0o644)
}

// escaped returns the cells of a row of a Markdown table.
func escaped(line []string) []string {
	out := make([]string, len(line))
	for i, cell := range line {
		out[i] = strings.ReplaceAll(cell, "|", `\|`)
	}
	return out
}
