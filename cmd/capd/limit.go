package main

import (
	"fmt"
	"strings"

	"capd/config"
	"capd/meter"
	"capd/vfs"
)

// limit is a limit on a command line: KIND=N.
type limit struct {
	kind meter.Kind
	most int64
}

// UnmarshalText reads KIND=N.
func (l *limit) UnmarshalText(text []byte) (err error) {
	l.kind, l.most, err = config.ParseLimit(string(text))
	if err != nil {
		return usageError{vfs.Message(err)}
	}
	return nil
}

// limitsOf combines limits. A kind may be given only once.
func limitsOf(all []limit) (meter.Limits, error) {
	l := meter.Limits{}
	for _, one := range all {
		if _, twice := l[one.kind]; twice {
			return nil, usageError{fmt.Sprintf("the limit of %s is there twice; give one", one.kind)}
		}
		l[one.kind] = one.most
	}
	return l, nil
}

// kindsHelp lists the kinds of limits, with the defaults of a grant.
func kindsHelp() string {
	var b strings.Builder
	w := newColumns(&b)
	defaults := meter.GrantLimits()
	for k := range meter.Kinds {
		most := "no limit"
		if n := defaults[k]; n > 0 {
			most = amount(k, n)
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\n", k, most, k.Noun())
	}
	_ = w.Flush() // it writes to memory
	return strings.TrimSuffix(b.String(), "\n")
}

type limitCommand struct {
	Guest  string  `arg:"" help:"The guest's name, or a grant's id."`
	Limits []limit `arg:"" name:"kind=n" help:"What it may hold: storedBytes=64MiB, threads=16; none for no limit."`
	stateFlag
}

func (limitCommand) Help() string {
	return `It takes effect at once, also on open connections. What is held beyond a new limit stays until it is
released; until then the guest gets no more of it. A kind that is not named keeps its limit. capd status
--guests shows the limits and how much of each is used; docs/limits.md explains each kind. For a guest of
serve --config, the limits in the file hold again when the host reads it again.

The kinds, with their defaults:

` + kindsHelp() + `

Examples:
  capd limit builder storedBytes=1GiB storedNodes=100000
  capd limit g3 connections=4 threads=8
  capd limit builder storedBytes=none`
}

func (c *limitCommand) Run(e *env) error {
	l, err := limitsOf(c.Limits)
	if err != nil {
		return err
	}
	con, err := c.console(e)
	if err != nil {
		return err
	}
	n, err := con.SetLimits(e, c.Guest, l)
	if err != nil {
		return err
	}
	e.result("set %s of %s of %s", count(len(l), "limit"), count(n, "grant"), c.Guest)
	return nil
}
