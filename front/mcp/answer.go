package mcp

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"capd/front/roots"
	"capd/vfs"
)

// answer is what a tool answers: a text, and fields beside it in the structured content.
type answer struct {
	text   string
	fields []field
	media  []byte // JSON of a content block in place of the text; nil for none
	failed bool
}

// field is a member of the structured content. value is JSON.
type field struct {
	name  string
	value []byte
}

// quoted returns text as JSON. What is not UTF-8 becomes U+FFFD.
func quoted(text string) []byte {
	return appendQuoted(make([]byte, 0, len(text)+len(text)/4+16), text)
}

func appendQuoted(dst []byte, text string) []byte {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	dst, err := jsontext.AppendQuote(dst, text)
	if err != nil {
		panic(err) // the text is UTF-8
	}
	return dst
}

// maxAnswer is the size, in bytes, of the longest text of an answer as JSON.
const maxAnswer = 16 << 20

// encodedSize returns the size of a text as JSON, about.
func encodedSize(text string) int {
	n := len(text)
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\' || c == '\n' || c == '\t' || c == '\r':
			n++
		case c < ' ':
			n += 5
		}
	}
	return n
}

// with adds the version of a file to an answer.
func (a answer) with(v vfs.Version) answer {
	if !v.IsZero() {
		a.fields = append(a.fields, field{"version", quoted(v.String())})
	}
	return a
}

// said is an answer that is a text.
func said(text string) answer { return answer{text: text} }

// appendResult appends the result of a tools/call. The text is encoded once, although it stands there twice: some clients show the model the content
// alone, and others the structured content.
func (a answer) appendResult(dst []byte) []byte {
	text := quoted(a.text)
	dst = slices.Grow(dst, 2*len(text)+1<<10)
	dst = append(dst, `{"content":[`...)
	if a.media != nil {
		dst = append(dst, a.media...)
	} else {
		dst = append(append(append(dst, `{"type":"text","text":`...), text...), '}')
	}
	dst = append(dst, ']')
	if a.failed {
		return append(dst, `,"isError":true}`...)
	}
	dst = append(dst, `,"structuredContent":`...)
	return append(a.structured(dst, text), '}')
}

// appendStructured appends the structured content.
func (a answer) appendStructured(dst []byte) []byte { return a.structured(dst, quoted(a.text)) }

func (a answer) structured(dst, text []byte) []byte {
	dst = append(dst, `{"content":`...)
	if a.media != nil {
		dst = append(append(append(dst, '['), a.media...), ']')
	} else {
		dst = append(dst, text...)
	}
	for _, f := range a.fields {
		dst = append(append(append(append(dst, ',', '"'), f.name...), '"', ':'), f.value...)
	}
	return append(dst, '}')
}

// shown are the roots as an agent sees them.
type shown struct{ roots.Roots }

// placed returns err with that of paths as its path with which its text begins: a call about several paths says so which one it is about.
func placed(err error, paths ...string) error {
	e, ok := errors.AsType[*vfs.Error](err)
	if !ok || e.Path != "" {
		return err
	}
	for _, path := range paths {
		if why, ok := strings.CutPrefix(e.Msg, path+": "); ok && path != "" {
			return &vfs.Error{Code: e.Code, Path: path, Msg: why}
		}
	}
	return err
}

// fileURL returns the file URL of a path that is shown.
func fileURL(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

// refused returns the answer for an error: its code, the path as the agent calls it, and what to do next.
func (rs shown) refused(err error) answer {
	a := answer{failed: true}
	var out roots.Outside
	switch e, ok := errors.AsType[*vfs.Error](err); {
	case errors.As(err, &out):
		a.text = out.Error()
	case ok:
		a.text = string(e.Code) + ": "
		if e.Path != "" {
			a.text += rs.Out(e.Path) + ": "
		}
		a.text += inWords(vfs.Message(err))
	default:
		a.text = string(vfs.CodeOf(err)) + ": " + inWords(vfs.Message(err))
	}
	return a
}
