package record

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"math/bits"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"capd/vfs"
)

// maxLine is the size, in bytes, of the longest line of an export.
const maxLine = 64 << 20

var errNoExport = vfs.Errorf(vfs.Invalid, "this is no export of a record; capd audit export makes them")

// VerifyExport is [Verify] for what [Export] has written. It finds that an entry was removed, changed or put elsewhere, but not
// which. It answers invalid for what is no export.
func VerifyExport(ctx context.Context, from io.Reader, o VerifyOptions) (r Report, err error) {
	r.Problems = []string{}
	by, since, err := o.parse()
	if err != nil {
		return r, err
	}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	x := exported{report: &r, since: since}
	if x.tree, err = begin(lines); err != nil {
		return r, err
	}
	r.First = x.tree.size
	last, err := x.entries(ctx, lines)
	if err != nil {
		return r, err
	}
	r.Entries = x.tree.size - r.First
	r.ends(last, &x.tree, by)
	x.end()
	return r, nil
}

// exported verifies an export.
type exported struct {
	report *Report
	tree   frontier
	since  *checkpoint // that is still to be compared; nil for none
}

// entries reads the entries, and returns what is behind them.
func (x *exported) entries(ctx context.Context, lines *bufio.Scanner) (last string, err error) {
	var rest []byte
	x.compare()
	for ctx.Err() == nil && lines.Scan() {
		if line := lines.Bytes(); rest == nil && len(line) > 0 && line[0] == '{' {
			x.tree.add(0, tlog.RecordHash(line))
			x.compare()
			continue
		}
		rest = append(append(rest, lines.Bytes()...), '\n')
	}
	if err := lines.Err(); err != nil {
		return "", vfs.Errorf(vfs.Invalid, "the export cannot be read: %v", err)
	}
	return string(rest), ctx.Err()
}

// compare compares the checkpoint that was kept elsewhere, if it ends here.
func (x *exported) compare() {
	if x.since == nil || x.since.size != x.tree.size {
		return
	}
	if x.tree.root() == x.since.root {
		x.report.Checkpoints++
	} else {
		x.report.wrong("the first %d entries are not those of %s", x.since.size, x.since.when())
	}
	x.since = nil
}

// end reports a checkpoint that could not be compared.
func (x *exported) end() {
	switch c := x.since; {
	case c == nil:
	case c.size < x.report.First:
		x.report.wrong("the export begins with entry %d, and %s has only %d: it cannot be compared", x.report.First, c.when(), c.size)
	default:
		x.report.wrong("there are %d entries, and %s has %d: the end was cut off, or an old record was put back", x.tree.size, c.when(), c.size)
	}
}

// begin reads the header of an export, and returns the tree over what comes before.
func begin(lines *bufio.Scanner) (tree frontier, err error) {
	var h exportHeader
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &h) != nil || h.Export != 1 || h.First < 0 || bits.OnesCount64(uint64(h.First)) != len(h.Before) {
		return tree, errNoExport
	}
	left := uint64(h.First)
	for _, hash := range h.Before {
		level := bits.Len64(left) - 1
		left &^= 1 << level
		if len(hash) != tlog.HashSize {
			return tree, errNoExport
		}
		tree.add(level, tlog.Hash(hash))
	}
	return tree, nil
}

// ends compares the checkpoint at the end of an export with its entries.
func (r *Report) ends(text string, tree *frontier, by note.Verifiers) {
	c, err := parse(text, by)
	switch {
	case text == "":
		r.wrong("the checkpoint at the end is missing: the end was cut off")
	case err != nil:
		r.wrong("the checkpoint at the end: %v", err)
	case c.size != tree.size:
		r.wrong("there are %d entries, and the checkpoint at the end has %d: some were removed or added", tree.size, c.size)
	case tree.root() != c.root:
		r.wrong("one of the %d entries was changed, or is in another place", r.Entries)
	default:
		r.Checkpoints++
		r.Signed = c.size
	}
}
