// Package edit changes parts of a content: what matches a text, or a range of lines. It
// works on bytes, and what is not edited stays identical, whatever the encoding and the line
// endings. It knows nothing of files.
//
// There is one tolerance: where the content has CRLF, an LF in the arguments stands for the
// line ending at that place.
package edit

import (
	"bytes"

	"capd/vfs"
)

// Bounds of what [Apply] takes.
const (
	MaxSize    = 4 << 20   // bytes of a content, before and after
	MaxEdits   = 1000      // edits
	MaxMatches = 100_000   // places that one edit replaces
	maxWork    = 512 << 20 // bytes of the content, times the number of edits
)

// Edit replaces Old, or whole lines, by New.
type Edit struct {
	Old []byte // must match exactly once, or at least once if All is set
	New []byte
	All bool // every match, from left to right

	// ByLines says that Lines are replaced and that Old and All do not count. They are counted
	// in the content as it was before all edits. The ending of the last of them stays as it
	// is, and an LF at the end of New stands for it. An empty New removes the lines.
	ByLines bool
	Lines   Range
}

// Range is some consecutive lines. If Count is 0 it is the place before First.
type Range struct{ First, Count int }

// Result is what [Apply] has done.
type Result struct {
	Content  []byte
	Changed  []Range // lines of Content that were changed. A Count of 0 is where lines were removed
	Replaced int     // how many places were replaced

	old   []byte
	spans []span
}

// Apply makes edits in content, one after the other, all or none. It does not change content,
// but Result.Content may share memory with it. Between edits it calls pace, which may be nil,
// and stops at its error.
//
// It answers conflict if an Old does not match as it must; the message says what is there.
// It answers invalid for an empty Old, for lines that are not there, and for an edit that
// changes nothing, and tooLarge or limit beyond the bounds.
func Apply(content []byte, edits []Edit, pace func() error) (*Result, error) {
	if err := check(len(content), edits); err != nil {
		return nil, err
	}
	r := &Result{Content: content, old: content}
	for i, e := range edits {
		if pace != nil {
			if err := pace(); err != nil {
				return nil, err
			}
		}
		if err := r.edit(e); err != nil {
			return nil, numbered(err, i, len(edits))
		}
	}
	if len(edits) > 1 && bytes.Equal(r.Content, content) {
		return nil, vfs.Errorf(vfs.Invalid, "the edits together change nothing")
	}
	r.Changed = r.ranges()
	return r, nil
}

// check checks the bounds.
func check(size int, edits []Edit) error {
	switch {
	case len(edits) == 0:
		return vfs.Errorf(vfs.Invalid, "there are no edits")
	case len(edits) > MaxEdits:
		return vfs.Errorf(vfs.Limit, "%d edits are more than the %d of one call; use several", len(edits), MaxEdits)
	case size > MaxSize:
		return ErrSize(int64(size))
	case size*len(edits) > maxWork:
		return vfs.Errorf(vfs.Limit, "%d edits of %d bytes are too much for one call; make %d at once", len(edits), size, maxWork/size)
	}
	for i, e := range edits {
		if !e.ByLines && len(e.Old) == 0 {
			return numbered(vfs.Errorf(vfs.Invalid, "old is empty; name the text to replace, or edit by lines"), i, len(edits))
		}
	}
	return nil
}

// ErrSize is the error for a content of size bytes, more than [MaxSize].
func ErrSize(size int64) error {
	return vfs.Errorf(vfs.TooLarge, "it is %d bytes, more than the %d that can be edited; change it in place with write, or write all of it with stage", size, MaxSize)
}

// numbered says which edit err is about.
func numbered(err error, i, n int) error {
	if n == 1 {
		return err
	}
	return vfs.Errorf(vfs.CodeOf(err), "edit %d of %d: %s", i+1, n, vfs.Message(err))
}

// edit makes one edit.
func (r *Result) edit(e Edit) error {
	var places []place
	var err error
	if e.ByLines {
		places, err = r.byLines(e)
	} else {
		places, err = matching(r.Content, e)
	}
	if err != nil {
		return err
	}
	size, changes := len(r.Content), false
	for _, p := range places {
		size += len(p.text) - (p.to - p.from)
		changes = changes || !bytes.Equal(r.Content[p.from:p.to], p.text)
	}
	switch {
	case !changes:
		return vfs.Errorf(vfs.Invalid, "it changes nothing: what it writes is there already%s", r.endingHint(e))
	case size > MaxSize:
		return vfs.Errorf(vfs.TooLarge, "the file would be %d bytes, more than the %d that can be edited", size, MaxSize)
	}
	next := make([]byte, 0, size)
	at := 0
	for _, p := range places {
		next = append(append(next, r.Content[at:p.from]...), p.text...)
		at = p.to
	}
	r.Content = append(next, r.Content[at:]...)
	r.spans = compose(r.spans, places)
	r.Replaced += len(places)
	return nil
}

// endingHint explains why an edit of line endings alone changes nothing.
func (r *Result) endingHint(e Edit) string {
	if e.ByLines || bytes.Equal(e.Old, e.New) {
		return ""
	}
	return "; LF stands for the line ending of that place, so an edit does not change CRLF to LF; write the whole file for that"
}

// place is a part of the content and what takes its place.
type place struct {
	from, to int
	text     []byte
}
