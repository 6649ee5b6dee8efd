package grep_test

import (
	"context"
	"iter"
	"math"
	"testing"

	"capd/vfs"
	"capd/vfs/grep"
	"capd/vfs/vfstest/check"
)

// endless is a directory with a file of one letter, as long as a file can be.
type endless byte

func (e endless) Lookup(_ context.Context, name string) (vfs.Node, error) {
	if name != "f" {
		return nil, vfs.NotFound
	}
	return vfs.NewImmutableFile(vfs.Info{Size: math.MaxInt64}, func(ctx context.Context) (vfs.Content, error) {
		return vfs.NewContent(ctx, e, math.MaxInt64), nil
	}), nil
}

func (endless) List(context.Context) iter.Seq2[vfs.Entry, error] {
	return vfs.Entries(vfs.Entry{Name: "f", Kind: vfs.FileKind})
}

func (e endless) ReadAt(p []byte, _ int64) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

func (endless) Close() error { return nil }

// TestEndless: of a file that never ends, a search reads a bounded part, and says so.
func TestEndless(t *testing.T) {
	const work = 64 << 20
	for _, c := range []struct {
		letter  byte
		pattern string
		output  grep.Output
		found   int64 // lines
		missed  vfs.Code
	}{
		{'x', "y", grep.Lines, 0, vfs.TooLarge}, {'x', "x", grep.Lines, 0, vfs.TooLarge}, {'x', "y", grep.Counts, 0, vfs.TooLarge},
		{'x', "x", grep.Names, 1, ""}, {'x', "", grep.Names, 1, ""}, {0, "", grep.Lines, 1, ""}, {0, "x", grep.Lines, 0, vfs.TooLarge},
		{'\n', "x", grep.Counts, 0, vfs.TooLarge}, {'\n', "x", grep.Lines, 0, ""}, // which can be continued
	} {
		found, missed := int64(0), vfs.Code("")
		_, _, err := grep.Search{
			Pattern: pattern(t, c.pattern), Show: grep.Show{Output: c.output, LineBytes: 100}, Work: work, Matches: 10, Bytes: 1 << 16,
			Found: func(f grep.File) { found += f.Count }, Missed: func(_ string, err error) { missed = vfs.CodeOf(err) },
		}.In(t.Context(), vfs.NewImmutableDir(endless(c.letter)))
		if check.OK(t, err); found != c.found || missed != c.missed {
			t.Errorf("%q in many %q, %v: found %d, missed %q, want %d and %q", c.pattern, c.letter, c.output, found, missed, c.found, c.missed)
		}
	}
}
