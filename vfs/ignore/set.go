package ignore

import "strings"

// classes are the named sets of POSIX for ASCII, as [[:digit:]] names them.
var classes = map[string]func(byte) bool{
	"alnum":  func(c byte) bool { return isAlpha(c) || isDigit(c) },
	"alpha":  isAlpha,
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c byte) bool { return c < ' ' || c == 0x7f },
	"digit":  isDigit,
	"graph":  func(c byte) bool { return c > ' ' && c < 0x7f },
	"lower":  isLower,
	"print":  func(c byte) bool { return c >= ' ' && c < 0x7f },
	"punct":  func(c byte) bool { return c > ' ' && c < 0x7f && !isAlpha(c) && !isDigit(c) },
	"space":  func(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' },
	"upper":  isUpper,
	"xdigit": func(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' },
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
func isAlpha(c byte) bool { return isLower(c) || isUpper(c) }

// parseSet parses the set at the start of text, which begins with a bracket. It returns
// how many bytes the set takes, or 0 if it is malformed. A "]" is literal at the start.
func parseSet(text string) (*charset, int) {
	p := setParser{text: text, i: 1}
	negated := p.i < len(text) && (text[p.i] == '!' || text[p.i] == '^')
	if negated {
		p.i++
	}
	for first := true; ; first = false {
		if p.i >= len(text) {
			return nil, 0
		}
		if text[p.i] == ']' && !first {
			break
		}
		if !p.element() {
			return nil, 0
		}
	}
	if negated {
		for i := range p.set {
			p.set[i] = ^p.set[i]
		}
	}
	return &p.set, p.i + 1
}

type setParser struct {
	text string
	i    int
	set  charset
	last byte // a byte that a range may begin with; 0: none
}

// element parses one byte, range or class. It reports whether it is well formed.
func (p *setParser) element() bool {
	rest := p.text[p.i:]
	switch {
	case rest[0] == '\\':
		if len(rest) == 1 {
			return false
		}
		p.take(rest[1], 2)
	case rest[0] == '-' && p.last != 0 && len(rest) > 1 && rest[1] != ']':
		return p.span(rest)
	case strings.HasPrefix(rest, "[:"):
		return p.named(rest)
	default:
		p.take(rest[0], 1)
	}
	return true
}

func (p *setParser) take(c byte, length int) {
	p.set.add(c)
	p.last = c
	p.i += length
}

// span parses the end of a range, which rest begins with.
func (p *setParser) span(rest string) bool {
	to, length := rest[1], 2
	if to == '\\' {
		if len(rest) == 2 {
			return false
		}
		to, length = rest[2], 3
	}
	for c := int(p.last); c <= int(to); c++ {
		p.set.add(byte(c))
	}
	p.last = 0
	p.i += length
	return true
}

// named parses a class such as [:digit:], or takes a bracket that begins none.
func (p *setParser) named(rest string) bool {
	end := strings.IndexByte(rest[2:], ']')
	if end < 0 {
		return false
	}
	name, isClass := strings.CutSuffix(rest[2:2+end], ":")
	if !isClass {
		p.take('[', 1)
		return true
	}
	in := classes[name]
	if in == nil {
		return false
	}
	for c := range 256 {
		if in(byte(c)) {
			p.set.add(byte(c))
		}
	}
	p.last = 0
	p.i += 2 + end + 1
	return true
}
