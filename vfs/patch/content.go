package patch

import (
	"bytes"
	"strings"
)

// content is the content of a file as lines.
type content struct {
	data   []byte
	begins []int32 // of each line, and the end
	open   bool    // no LF ends the last line
	bom    bool

	exact, loose []int32 // ids of the lines as they are, and without CR and byte order mark
	posts        [][]int32
	under        map[string][]int32 // where lines are that come before hunks
}

// none is the id of a line that no hunk has.
const none = -1

// index returns the lines of data, with ids for those that hunks have. The patch's lines alone are kept, so that a large file costs
// little. ids has the ids.
func index(data []byte, hunks []Hunk) (c *content, ids map[string]int32) {
	ids = map[string]int32{}
	c = &content{data: data, bom: bytes.HasPrefix(data, bom), under: map[string][]int32{}}
	for _, h := range hunks {
		for _, l := range h.lines {
			if _, known := ids[l.text]; !known {
				ids[l.text] = int32(len(ids)) //nolint:gosec // fewer than a patch has bytes
			}
		}
		for _, u := range h.under {
			c.under[u] = nil
		}
	}
	c.posts = make([][]int32, len(ids))
	id := func(s []byte) int32 {
		if id, ok := ids[string(s)]; ok {
			return id
		}
		return none
	}
	n := bytes.Count(data, []byte("\n")) + 1
	c.begins, c.exact, c.loose = make([]int32, 0, n+1), make([]int32, 0, n), make([]int32, 0, n)
	for at := 0; at < len(data); {
		end := bytes.IndexByte(data[at:], '\n')
		next := at + end + 1
		if end < 0 {
			c.open, end, next = true, len(data)-at, len(data)
		}
		i := int32(len(c.exact)) //nolint:gosec // a content that is patched is far below 2 GiB
		text := data[at : at+end]
		bare := text
		if !c.open {
			bare = bytes.TrimSuffix(bare, []byte("\r"))
		}
		if at == 0 {
			bare = bytes.TrimPrefix(bare, bom)
		}
		exact := id(text)
		loose := exact
		if len(bare) < len(text) {
			loose = id(bare)
		}
		c.begins, c.exact, c.loose = append(c.begins, int32(at)), append(c.exact, exact), append(c.loose, loose) //nolint:gosec // as above
		c.post(exact, i)
		if loose != exact {
			c.post(loose, i)
		}
		if len(c.under) > 0 {
			trimmed := string(bytes.TrimSpace(bare))
			if all, wanted := c.under[trimmed]; wanted {
				c.under[trimmed] = append(all, i)
			}
		}
		at = next
	}
	c.begins = append(c.begins, int32(len(data))) //nolint:gosec // as above
	return c, ids
}

func (c *content) post(id, at int32) {
	if id != none {
		c.posts[id] = append(c.posts[id], at)
	}
}

// size returns how many lines c has.
func (c *content) size() int { return len(c.exact) }

// raw returns the lines from at up to end, as they are.
func (c *content) raw(at, end int) []byte { return c.data[c.begins[at]:c.begins[end]] }

// text returns a line without its ending.
func (c *content) text(at int) string {
	return strings.TrimSuffix(string(c.raw(at, at+1)), "\n")
}

// isOpen reports whether no LF ends the line at.
func (c *content) isOpen(at int) bool { return c.open && at == c.size()-1 }

// ending returns what ends a line at that place. A line that nothing ends ends like the one before it.
func (c *content) ending(at int) string {
	if at = min(at, c.size()-1); at >= 0 && c.isOpen(at) {
		at--
	}
	if at >= 0 && bytes.HasSuffix(c.raw(at, at+1), []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}
