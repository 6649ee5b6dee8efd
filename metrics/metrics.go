// Package metrics prints what a host measures of itself in the text format of Prometheus, version 0.0.4, and serves it over HTTP.
package metrics

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// Type says what a metric is.
type Type string

// The types.
const (
	Counter   Type = "counter" // only grows while the host runs
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Metric is one figure, or the same for several values of a label.
type Metric struct {
	Name    string // letters, digits and _; of a counter it ends in _total
	Help    string // a sentence
	Type    Type
	Samples []Sample
}

// Sample is a figure. What is in labels is never a name or a path of a guest's.
type Sample struct {
	Suffix string // _bucket, _sum or _count in a histogram
	Label  string // "" for none
	Is     string // the label's value
	Value  float64
}

// One returns a metric with one figure.
func One(name string, t Type, help string, value float64) Metric {
	return Metric{name, help, t, []Sample{{Value: value}}}
}

// Distribution returns a histogram. counts has how many were at most each of bounds, and one more for those above; sum is that of
// all values.
func Distribution(name, help string, bounds []float64, counts []uint64, sum float64) Metric {
	m := Metric{Name: name, Help: help, Type: Histogram}
	all := uint64(0)
	for i, n := range counts {
		le := "+Inf"
		if i < len(bounds) {
			le = number(bounds[i])
		}
		all += n
		m.Samples = append(m.Samples, Sample{"_bucket", "le", le, float64(all)})
	}
	m.Samples = append(m.Samples, Sample{Suffix: "_sum", Value: sum}, Sample{Suffix: "_count", Value: float64(all)})
	return m
}

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// Write prints all.
func Write(w io.Writer, all []Metric) error {
	out := bufio.NewWriter(w) // it keeps the first error for Flush
	text := func(parts ...string) {
		for _, part := range parts {
			_, _ = out.WriteString(part)
		}
	}
	for _, m := range all {
		text("# HELP ", m.Name, " ", escapeHelp.Replace(m.Help), "\n# TYPE ", m.Name, " ", string(m.Type), "\n")
		for _, s := range m.Samples {
			text(m.Name, s.Suffix)
			if s.Label != "" {
				text("{", s.Label, `="`, escapeLabel.Replace(s.Is), `"}`)
			}
			text(" ", number(s.Value), "\n")
		}
	}
	return out.Flush()
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
