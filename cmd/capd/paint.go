package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// painter colours output for a terminal, unless NO_COLOR is set.
type painter struct{ on bool }

func newPainter(w io.Writer) painter { return painter{isTerminal(w) && os.Getenv("NO_COLOR") == ""} }

func isTerminal(w any) bool {
	if o, ok := w.(*output); ok {
		w = o.to
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (p painter) paint(code, s string) string {
	if !p.on {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p painter) dir(s string) string    { return p.paint("1;34", s) }
func (p painter) link(s string) string   { return p.paint("36", s) }
func (p painter) exec(s string) string   { return p.paint("32", s) }
func (p painter) faint(s string) string  { return p.paint("2", s) }
func (p painter) secret(s string) string { return p.paint("1;33", s) }
func (p painter) good(s string) string   { return p.paint("32", s) }
func (p painter) bad(s string) string    { return p.paint("1;31", s) }
