package patch

import (
	"strings"

	"capd/vfs"
)

// v4a reads a patch in the format V4A: between "*** Begin Patch" and "*** End Patch" sections, each for a file, which begin with "*** Add File: ",
// "*** Update File: " or "*** Delete File: ".
func (r *reader) v4a(p *Patch) error {
	for r.at++; r.more(); {
		l := strings.TrimRight(r.peek(0), " \t\r")
		if l == "*** End Patch" {
			return nil
		}
		f := File{line: r.at + 1}
		var err error
		switch name, is := section(l); is {
		case "Add":
			f.Verb, f.To = Create, name
			r.at++
			err = r.added(&f)
		case "Delete":
			f.Verb, f.Path = Delete, name
			r.at++
		case "Update":
			f.Path, f.To = name, name
			r.at++
			err = r.updated(&f)
		default:
			if l == "" {
				r.at++
				continue
			}
			return r.bad(vfs.Invalid, `expected "*** Add File: NAME", "*** Update File: NAME", "*** Delete File: NAME" or "*** End Patch"`)
		}
		if err == nil && f.Name() == "" {
			err = vfs.Errorf(vfs.Invalid, "line %d of the patch: the name of the file is missing", f.line)
		}
		if err == nil {
			err = r.add(p, f)
		}
		if err != nil {
			return err
		}
	}
	return r.bad(vfs.Invalid, `"*** End Patch" is missing; was the patch cut off?`)
}

// section reads the first line of a section.
func section(l string) (name, is string) {
	for _, is := range []string{"Add", "Update", "Delete"} {
		if name, ok := strings.CutPrefix(l, "*** "+is+" File:"); ok {
			return strings.TrimSpace(name), is
		}
	}
	return "", ""
}

// over reports whether a section ends here.
func (r *reader) over() bool {
	l := strings.TrimRight(r.peek(0), " \t\r")
	_, is := section(l)
	return !r.more() || is != "" || l == "*** End Patch"
}

// added reads the content of a new file.
func (r *reader) added(f *File) error {
	h := Hunk{line: r.at + 1}
	for ; !r.over(); r.at++ {
		text, ok := strings.CutPrefix(r.peek(0), "+")
		if !ok {
			if blank(r.peek(0)) { // between two sections
				continue
			}
			return r.bad(vfs.Invalid, `each line of a new file begins with "+"`)
		}
		h.lines = append(h.lines, line{op: '+', text: text})
	}
	if len(h.lines) > 0 {
		f.Hunks = []Hunk{h}
	}
	return nil
}

// updated reads what changes in a file.
func (r *reader) updated(f *File) error {
	if to, ok := strings.CutPrefix(r.peek(0), "*** Move to:"); ok {
		if f.Verb, f.To = Rename, strings.TrimSpace(to); f.To == "" {
			return r.bad(vfs.Invalid, "the name of the file is missing")
		}
		r.at++
	}
	for !r.over() {
		if blank(r.peek(0)) && r.emptyRest() {
			break
		}
		h, err := r.chunk()
		if err != nil {
			return err
		}
		f.Hunks = append(f.Hunks, h)
	}
	if len(f.Hunks) == 0 && f.Verb == Modify {
		return r.bad(vfs.Invalid, "this section says nothing that is to change; was it cut off?")
	}
	return nil
}

// emptyRest skips the empty lines at the end of a section, and reports whether there is nothing else.
func (r *reader) emptyRest() bool {
	at := r.at
	for !r.over() && blank(r.peek(0)) {
		r.at++
	}
	if r.over() {
		return true
	}
	r.at = at
	return false
}

// chunk reads lines that change together, with what says where they are.
func (r *reader) chunk() (Hunk, error) {
	h := Hunk{line: r.at + 1}
	for ; strings.HasPrefix(r.peek(0), "@@"); r.at++ {
		l := strings.TrimRight(r.peek(0), " \t\r")
		if m := header.FindStringSubmatch(l); m != nil && m[1] != "" { // as in a unified diff
			h.old, h.new = number(m[1], 0), number(m[3], 0)
		} else if under := strings.TrimSpace(strings.TrimPrefix(l, "@@")); under != "" && under != "@@" {
			h.under = append(h.under, under)
		}
	}
	for !r.over() && !strings.HasPrefix(r.peek(0), "@@") {
		if strings.TrimRight(r.peek(0), " \t\r") == "*** End of File" {
			h.last = true
			r.at++
			break
		}
		if blank(r.peek(0)) && r.emptyRest() {
			break
		}
		l, ok := bodyLine(r.peek(0))
		if !ok {
			return h, r.bad(vfs.Invalid, `expected a line that begins with " ", "+", "-" or "@@", or "*** End of File"`)
		}
		h.lines = append(h.lines, l)
		r.at++
		r.cut(&h)
	}
	if len(h.lines) == 0 {
		return h, r.bad(vfs.Invalid, "nothing says what is to change here")
	}
	return h, nil
}
