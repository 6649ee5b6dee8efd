package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"capd/client"
	"capd/vfs"
	"capd/vfs/lines"
)

type catCommand struct {
	Path  string `arg:"" optional:"" help:"A file (default: the capability itself)."`
	Lines string `placeholder:"FROM:TO" help:"Only these lines, counted from 1; FROM: is to the end, and -N the last N."`
	JSON  bool   `name:"json" help:"Print one window of lines as JSON, with its version and where the next begins."`
	capFlag
}

func (catCommand) Help() string {
	return `The file may have any size. The output is one content, even if the file is replaced meanwhile. With
--lines it is an error if the file changes meanwhile.

With --json one window is printed, of at most 10,000 lines and 256 KiB. A line of more than 2000 bytes
is cut there, and is in clipped. Bytes that are not UTF-8 are in base64, in bytes in place of text.

Examples:
  capd cat project/README.md
  capd cat project/data.bin > data.bin
  capd cat project/main.go --lines 200:260
  capd cat project/log.txt --lines -20
  capd cat project/main.go --lines 200:260 --json | jq -r .version`
}

func (c *catCommand) Run(e *env) error {
	q, to, err := lineRange(c.Lines)
	if err != nil {
		return err
	}
	path := trimPath(c.Path)
	_, n, err := c.node(e, path, true)
	if err != nil {
		return err
	}
	f, ok := n.(*client.File)
	if !ok {
		return vfs.At(path, vfs.IsDir)
	}
	switch {
	case c.JSON:
		return printWindow(e, f, q)
	case c.Lines != "":
		return vfs.At(path, catLines(e, e.stdout, f, q, to))
	}
	w := newProgress(e, e.stdout, "read")
	defer w.end()
	_, err = f.Stream(e, w, 0, 0)
	return err
}

// lineRange reads "10:20", "10:", ":20", "10", "-20" or nothing. to is the last line that is wanted.
func lineRange(text string) (q lines.Query, to int64, err error) {
	bad := usageError{"lines are FROM:TO, FROM:, :TO, one number, or -N for the last N"}
	if text == "" {
		return q, math.MaxInt64, nil
	}
	if last, ok := strings.CutPrefix(text, "-"); ok {
		n, err := strconv.ParseUint(last, 10, 32)
		if err != nil || n == 0 {
			return q, 0, bad
		}
		return lines.Query{Last: true, Count: int(min(n, math.MaxInt32))}, 0, nil
	}
	from, end, ranged := strings.Cut(text, ":")
	number := func(s string, empty int64) int64 {
		n, bad := strconv.ParseInt(s, 10, 64)
		switch {
		case s == "":
			return empty
		case bad != nil || n < 1:
			return 0
		}
		return n
	}
	q.From = number(from, 1)
	if to = q.From; ranged {
		to = number(end, math.MaxInt64)
	}
	if q.From == 0 || to == 0 || text == ":" || to < q.From {
		return q, 0, bad
	}
	q.Count = int(min(to-q.From+1, lines.MaxCount))
	return q, to, nil
}

// catLines writes the lines to w, whole.
func catLines(ctx context.Context, w io.Writer, f *client.File, q lines.Query, to int64) error {
	if q.Last && q.Count > lines.MaxCount {
		return vfs.Errorf(vfs.Limit, "at most the last %d lines; ask for the others with FROM:TO", lines.MaxCount)
	}
	version := vfs.Version{}
	for {
		got, err := f.ReadLines(ctx, q)
		if err != nil {
			return err
		}
		if !version.IsZero() && got.Version != version {
			return vfs.Errorf(vfs.Conflict, "the file changed while its lines were read; read them again")
		}
		version = got.Version
		if err := writeLines(ctx, w, f, got); err != nil {
			return err
		}
		q.From = got.Next
		q.Count = int(min(to-got.Next+1, lines.MaxCount))
		if q.Last || !got.More || q.Count <= 0 {
			return nil
		}
	}
}

// writeLines writes the lines of a window, and reads the rest of those that are clipped.
func writeLines(ctx context.Context, w io.Writer, f *client.File, got lines.Window) error {
	data, at := got.Data, 0
	for _, c := range got.Clipped {
		for ; at < c.Index; at++ {
			n := bytes.IndexByte(data, '\n') + 1
			if _, err := w.Write(data[:n]); err != nil {
				return err
			}
			data = data[n:]
		}
		if _, err := f.Stream(ctx, w, c.Offset, c.Size); err != nil {
			return err
		}
		line, rest, ended := bytes.Cut(data, []byte{'\n'})
		ending := ""
		if ended {
			if ending = "\n"; bytes.HasSuffix(line, []byte{'\r'}) {
				ending = "\r\n"
			}
		}
		if _, err := io.WriteString(w, ending); err != nil {
			return err
		}
		data, at = rest, at+1
	}
	_, err := w.Write(data)
	return err
}

// windowJSON is a window of lines as --json prints it.
type windowJSON struct {
	Text    *string    `json:"text,omitempty"`
	Bytes   []byte     `json:"bytes,omitempty"` // in base64, where the lines are not UTF-8
	First   int64      `json:"first"`
	Count   int        `json:"count"`
	Next    int64      `json:"next"`
	More    bool       `json:"more"`
	Lines   int64      `json:"lines"`
	Version string     `json:"version,omitempty"`
	Clipped []clipJSON `json:"clipped,omitempty"`
}

type clipJSON struct {
	Index     int   `json:"index"`
	Offset    int64 `json:"offset"`
	SizeBytes int64 `json:"sizeBytes"`
}

func printWindow(e *env, f *client.File, q lines.Query) error {
	w, err := f.ReadLines(e, q)
	if err != nil {
		return err
	}
	js := windowJSON{First: w.First, Count: w.Count, Next: w.Next, More: w.More, Lines: w.Total, Version: fmt.Sprint(w.Version)}
	if utf8.Valid(w.Data) {
		js.Text = new(string(w.Data))
	} else {
		js.Bytes = w.Data
	}
	for _, c := range w.Clipped {
		js.Clipped = append(js.Clipped, clipJSON{c.Index, c.Offset, c.Size})
	}
	return printJSON(e.stdout, js)
}
