package main

import (
	"bytes"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// columns writes lines of cells, which tabs separate, as columns with two spaces between
// them. Lines without a tab do not affect the columns. Colours take no width, and wide
// characters take two places. Nothing is written before Flush.
type columns struct {
	to    io.Writer
	right bool // align all columns but the last to the right
	text  bytes.Buffer
}

func newColumns(to io.Writer) *columns { return &columns{to: to} }

// Write implements io.Writer.
func (c *columns) Write(p []byte) (int, error) { return c.text.Write(p) }

// Flush writes all lines so far.
func (c *columns) Flush() error {
	var rows [][]string
	var widths []int
	for line := range strings.Lines(c.text.String()) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		for i, cell := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if len(cells) > 1 {
				widths[i] = max(widths[i], places(cell))
			}
		}
		rows = append(rows, cells)
	}
	c.text.Reset()
	for _, cells := range rows {
		if _, err := io.WriteString(c.to, c.line(cells, widths)); err != nil {
			return err
		}
	}
	return nil
}

func (c *columns) line(cells []string, widths []int) string {
	var b strings.Builder
	for i, cell := range cells[:len(cells)-1] {
		space := strings.Repeat(" ", widths[i]-places(cell))
		if c.right {
			b.WriteString(space + cell + "  ")
		} else {
			b.WriteString(cell + space + "  ")
		}
	}
	b.WriteString(cells[len(cells)-1])
	return strings.TrimRight(b.String(), " ") + "\n"
}

// places returns how many places of a line s takes on a terminal, without a painter's
// escape sequences.
func places(s string) (n int) {
	for s != "" {
		if rest, ok := strings.CutPrefix(s, "\x1b["); ok {
			_, s, _ = strings.Cut(rest, "m")
			continue
		}
		r, size := utf8.DecodeRuneInString(s)
		s = s[size:]
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case width.LookupRune(r).Kind() == width.EastAsianWide, width.LookupRune(r).Kind() == width.EastAsianFullwidth:
			n += 2
		default:
			n++
		}
	}
	return n
}
