package patch

import (
	"bytes"
	"strings"

	"capd/vfs"
)

// apply returns data with f's hunks applied, or a conflict that says which hunk does not fit, and why.
func (f *File) apply(data []byte) ([]byte, error) {
	if len(f.Hunks) == 0 {
		return data, nil
	}
	l := newLocator(data, f.Hunks)
	spots, err := l.locate()
	if err != nil {
		return nil, err
	}
	w := &writer{content: l.content}
	at := 0
	for i, s := range spots {
		w.raw(l.raw(at, s.at))
		w.hunk(l.hunks[i].lines, s)
		at = s.at + len(l.olds[i])
	}
	w.raw(l.raw(at, l.size()))
	return w.out.Bytes(), nil
}

// writer writes a new content.
type writer struct {
	*content
	out  bytes.Buffer
	open bool // no LF ends what was written last
}

// raw writes lines as they are.
func (w *writer) raw(b []byte) {
	if len(b) == 0 {
		return
	}
	w.close()
	w.out.Write(b)
	w.open = b[len(b)-1] != '\n'
}

// close ends the last line, since another follows.
func (w *writer) close() {
	if w.open {
		w.out.WriteString(w.ending(w.size() - 1))
		w.open = false
	}
}

// hunk writes the new lines of a hunk.
func (w *writer) hunk(lines []line, s spot) {
	mark := w.bom && s.at == 0 && s.loose && len(lines) > 0 && !strings.HasPrefix(lines[0].text, string(bom))
	if mark {
		w.out.Write(bom)
	}
	at := s.at
	for i := 0; i < len(lines); {
		if lines[i].op == ' ' {
			b := w.content.raw(at, at+1)
			if mark && at == 0 {
				b = bytes.TrimPrefix(b, bom)
			}
			w.raw(b)
			at++
			i++
			continue
		}
		end := i
		for end < len(lines) && lines[end].op != ' ' {
			end++
		}
		at = w.run(lines[i:end], at, s.loose)
		i = end
	}
}

// run writes what is added in a run of removed and added lines, and returns the line after those that are removed. An added line
// that stands for the file's endings ends like the removed line in whose place it comes.
func (w *writer) run(lines []line, at int, loose bool) (next int) {
	gone := len(side(lines, '+'))
	added := side(lines, '-')
	next = at + gone
	for k, l := range added {
		w.close()
		w.out.WriteString(l.text)
		last := k == len(added)-1 && next == w.size()
		switch {
		case l.cut, loose && last && w.content.open:
			w.open = true
		case loose && !strings.HasSuffix(l.text, "\r"):
			like := at - 1
			if gone > 0 {
				like = at + min(k, gone-1)
			}
			w.out.WriteString(w.ending(max(like, 0)))
		default:
			w.out.WriteByte('\n')
		}
	}
	return next
}

// created returns the content of a new file.
func (f *File) created() []byte {
	var b bytes.Buffer
	for _, h := range f.Hunks {
		for _, l := range h.lines {
			b.WriteString(l.text)
			if !l.cut {
				b.WriteByte('\n')
			}
		}
	}
	return b.Bytes()
}

// deletes answers conflict unless data is what f deletes.
func (f *File) deletes(data []byte) error {
	if !f.whole {
		return nil
	}
	rest, err := f.apply(data)
	if err == nil && len(bytes.TrimPrefix(rest, bom)) > 0 {
		err = vfs.Errorf(vfs.Conflict, "the file has more than the patch deletes; it was changed")
	}
	return err
}
