package grep

import (
	"strconv"
	"strings"

	"capd/vfs"
)

// Cursor is how far a search has come. The zero Cursor is the beginning.
type Cursor struct {
	Path  string // the file, or the directory, that was looked at last
	whole bool   // it is searched; otherwise up to place
	place place
}

// String returns c as text, for [ParseCursor].
func (c Cursor) String() string {
	if c.Path == "" || c.whole {
		return c.Path
	}
	return strings.Join([]string{c.Path, strconv.FormatInt(c.place.offset, 10), strconv.FormatInt(c.place.number, 10), strconv.Itoa(c.place.due)}, "\x00")
}

// ParseCursor reads what String wrote. It answers invalid for anything else.
func ParseCursor(text string) (c Cursor, err error) {
	parts := strings.Split(text, "\x00")
	c.Path = parts[0]
	if len(parts) == 1 {
		c.whole = true
		return c, nil
	}
	if len(parts) == 4 {
		offset, err1 := strconv.ParseInt(parts[1], 10, 64)
		number, err2 := strconv.ParseInt(parts[2], 10, 64)
		due, err3 := strconv.Atoi(parts[3])
		if err1 == nil && err2 == nil && err3 == nil && min(offset, number, int64(due)) >= 0 && due <= MaxAround {
			c.place = place{offset, number, due}
			return c, nil
		}
	}
	return Cursor{}, vfs.Errorf(vfs.Invalid, "after is no cursor of this search; begin without it")
}
