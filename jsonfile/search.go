package jsonfile

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"capd/vfs"
)

// whitespace is what JSON allows between tokens.
const whitespace = " \t\r\n"

// byteOrderMark may begin a document.
const byteOrderMark = "\ufeff"

// span is a part of a document, by its offsets.
type span struct{ start, end int }

// member is a member of an object, or an element of an array.
type member struct {
	lead    int // where the member before it ends, or the delimiter that opens
	start   int // of the name, or of the element
	nameEnd int // of a member alone
	value   span
}

// container is an object or an array.
type container struct {
	array     bool
	open, end int // after the delimiter that opens, and before the one that closes
	count     int
	last      member
	hit       member // the one that the pointer names, if there is one
	next      member // the one after it
	hits      int
}

// search is a walk through a whole document to what a pointer names.
type search struct {
	mark  []byte // the byte order mark, or nothing
	body  []byte // the rest
	names []string

	found bool
	value span
	in    *container   // that has the value, or lacks it; nil if that is missing or for the whole document
	way   []*container // to in, which is the last; the first is the outermost

	pointer string
	dec     *jsontext.Decoder
	problem error // why the pointer leads nowhere. Invalid JSON is worse
}

// find looks for what pointer names in doc. It reads all of doc. It answers invalid,
// tooLarge, and notFound if not even the container is there.
func find(doc []byte, pointer string) (*search, error) {
	if len(doc) > MaxBytes {
		return nil, vfs.Errorf(vfs.TooLarge, "the document is %d bytes, more than %d", len(doc), MaxBytes)
	}
	names, err := parse(pointer)
	if err != nil {
		return nil, err
	}
	s := &search{body: doc, names: names, pointer: pointer}
	if body, ok := bytes.CutPrefix(doc, []byte(byteOrderMark)); ok {
		s.mark, s.body = doc[:len(byteOrderMark)], body
	}
	s.dec = jsontext.NewDecoder(bytes.NewBuffer(s.body), jsontext.AllowDuplicateNames(true))
	_, err = s.walk(0)
	if err == nil {
		err = atEnd(s.dec)
	}
	if err != nil {
		return nil, notJSON("the document", s.body, err)
	}
	return s, s.problem
}

// walk reads a value, to which the first depth names have led.
func (s *search) walk(depth int) (span, error) {
	if depth < len(s.names) {
		switch s.dec.PeekKind() {
		case '{':
			return s.object(depth)
		case '[':
			return s.array(depth)
		}
	}
	value, err := s.raw()
	if err != nil {
		return span{}, err
	}
	if depth < len(s.names) {
		s.fail(vfs.Errorf(vfs.NotFound, "%s is %s, which has nothing in it", prefix(s.pointer, depth), kindOf(s.body[value.start:])))
	} else {
		s.found, s.value = true, value
	}
	return value, nil
}

// raw reads a value, or a name, without looking into it.
func (s *search) raw() (span, error) {
	v, err := s.dec.ReadValue()
	end := int(s.dec.InputOffset())
	return span{end - len(v), end}, err
}

// enter reads the delimiter that opens a container, to which the first depth names have led.
func (s *search) enter(depth int, array bool) (*container, error) {
	_, err := s.dec.ReadToken()
	c := &container{array: array, open: int(s.dec.InputOffset())}
	s.way = append(s.way, c)
	if depth == len(s.names)-1 {
		s.in = c
	}
	return c, err
}

// leave reads the delimiter that closes c.
func (s *search) leave(c *container) (span, error) {
	_, err := s.dec.ReadToken()
	end := int(s.dec.InputOffset())
	c.end = end - 1
	return span{c.open - 1, end}, err
}

// add notes the member that was read last. hit says that the pointer names it.
func (c *container) add(m member, hit bool) {
	switch {
	case hit && c.hits == 0:
		c.hit = m
	case c.hits == 1 && c.next.value.end == 0:
		c.next = m
	}
	if hit {
		c.hits++
	}
	c.last = m
	c.count++
}

// lead returns where the member begins that comes after those of c.
func (c *container) lead() int {
	if c.count == 0 {
		return c.open
	}
	return c.last.value.end
}

func (s *search) object(depth int) (span, error) {
	c, err := s.enter(depth, false)
	if err != nil {
		return span{}, err
	}
	for s.dec.PeekKind() != '}' {
		name, err := s.raw()
		if err != nil {
			return span{}, err
		}
		m := member{lead: c.lead(), start: name.start, nameEnd: name.end}
		hit, err := isName(s.body[name.start:name.end], s.names[depth])
		if err != nil {
			return span{}, err
		}
		if hit && c.hits == 1 {
			line, _ := position(s.body, c.hit.start)
			again, _ := position(s.body, name.start)
			s.fail(vfs.Errorf(vfs.Invalid, "%s is there twice, on lines %d and %d; remove one first", prefix(s.pointer, depth+1), line, again))
		}
		if hit && c.hits == 0 {
			m.value, err = s.walk(depth + 1)
		} else {
			m.value, err = s.raw()
		}
		if err != nil {
			return span{}, err
		}
		c.add(m, hit)
	}
	if c.hits == 0 && depth < len(s.names)-1 {
		s.fail(s.absent(depth))
	}
	return s.leave(c)
}

func (s *search) array(depth int) (span, error) {
	c, err := s.enter(depth, true)
	if err != nil {
		return span{}, err
	}
	want, ok := index(s.names[depth])
	if !ok {
		s.fail(vfs.Errorf(vfs.Invalid, "%s is an array; name an element by its number from 0, or - for the place after the last", prefix(s.pointer, depth)))
	}
	for s.dec.PeekKind() != ']' {
		m, hit := member{lead: c.lead()}, ok && c.count == want
		if hit {
			m.value, err = s.walk(depth + 1)
		} else {
			m.value, err = s.raw()
		}
		if err != nil {
			return span{}, err
		}
		m.start = m.value.start
		c.add(m, hit)
	}
	if c.hits == 0 && depth < len(s.names)-1 {
		s.fail(s.absent(depth))
	}
	return s.leave(c)
}

// isName reports whether a name as it is written is want.
func isName(written []byte, want string) (bool, error) {
	if bytes.IndexByte(written, '\\') < 0 {
		return string(written[1:len(written)-1]) == want, nil
	}
	name, err := jsontext.AppendUnquote(nil, written)
	return string(name) == want, err
}

// fail notes the first reason why the pointer leads nowhere.
func (s *search) fail(problem error) {
	if s.problem == nil {
		s.problem = problem
	}
}

// absent is the error for a pointer whose name at depth is not there, though its container is.
func (s *search) absent(depth int) error {
	if c := s.way[depth]; c.array {
		return vfs.Errorf(vfs.NotFound, "nothing is at %s; the array has %d elements", prefix(s.pointer, depth+1), c.count)
	}
	return vfs.Errorf(vfs.NotFound, "nothing is at %s", prefix(s.pointer, depth+1))
}
