package ignore

import (
	"strings"

	"capd/vfs"
)

// Bounds of one ignore file, and of all that count in one directory.
const (
	// MaxFile is the size of the largest ignore file that counts, in bytes.
	MaxFile = 1 << 20
	// MaxRules is how many rules one file may have.
	MaxRules = 16_384

	maxLive  = 4 * MaxRules // rules that count in one directory
	maxWidth = 32 << 10     // tokens of patterns with asterisks that count in one directory

	maxTokens = 4096 // of a pattern without asterisks: no path is longer
)

// Rules are the rules of one ignore file. They do not change.
type Rules struct {
	keeps []bool // for each rule whether it begins with "!"
	width int    // tokens of all patterns with asterisks

	names map[string]last // rules for one name
	exts  map[string]last // rules for all names with one extension, such as ".o"
	globs []ruled         // other rules for names, in the order of the file
	paths []ruled         // rules with a slash
}

// last is the last rule for a name, as its number from 1 on; 0: none.
type last struct{ any, dirs int32 }

func (l last) of(isDir bool) int32 {
	if isDir {
		return max(l.any, l.dirs)
	}
	return l.any
}

// ruled is a rule that has to be compared.
type ruled struct {
	rule  int32
	dirs  bool // for directories alone
	glob  glob
	start []uint16
	has   string // a text that every match contains
}

var errTooLarge = vfs.Errorf(vfs.TooLarge, "an ignore file counts up to %d bytes", MaxFile)

// Parse parses an ignore file as git does. A line that git can never match is left out. It
// answers tooLarge and limit for a file that does not count, because of its bytes or its
// rules.
func Parse(data []byte) (*Rules, error) {
	if len(data) > MaxFile {
		return nil, errTooLarge
	}
	r := &Rules{}
	text := strings.TrimPrefix(string(data), "\ufeff")
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" || line[0] == '#' {
			continue
		}
		line, _, _ = strings.Cut(line, "\x00")
		r.add(trimSpaces(line))
		if len(r.keeps) > MaxRules || r.width > maxWidth {
			return nil, vfs.Errorf(vfs.Limit, "an ignore file counts up to %d rules, and %d characters of patterns with \"*\"", MaxRules, maxWidth)
		}
	}
	return r, nil
}

// trimSpaces removes the spaces at the end of a line, but not after a backslash.
func trimSpaces(line string) string {
	end := len(line)
	for end > 0 && line[end-1] == ' ' {
		end--
	}
	slashes := end
	for slashes > 0 && line[slashes-1] == '\\' {
		slashes--
	}
	if (end-slashes)%2 == 1 && end < len(line) {
		end++
	}
	return line[:end]
}

// add adds the rule of a line.
func (r *Rules) add(line string) {
	line, keeps := strings.CutPrefix(line, "!")
	line, dirs := strings.CutSuffix(line, "/")
	anchored := strings.Contains(line, "/")
	g, ok := patternOf(line, anchored)
	if !ok || len(g) == 0 {
		return
	}
	stars := g.stars()
	if !stars && len(g) > maxTokens {
		return
	}
	if rest, every := everywhere(g); anchored && every {
		g, anchored = rest, false
	}
	r.keeps = append(r.keeps, keeps)
	to := ruled{rule: int32(len(r.keeps)), dirs: dirs, glob: g}
	name, plain := g.literal()
	ext, isExt := extension(g)
	switch {
	case anchored:
		r.paths = append(r.paths, to.started())
	case plain:
		note(&r.names, name, to)
	case isExt:
		note(&r.exts, ext, to)
	default:
		r.globs = append(r.globs, to.started())
	}
	if stars && !isExt {
		r.width += len(g)
	}
}

// patternOf compiles a pattern. What precedes its first wildcard is compared as it is, and
// asterisks right after that count as if the pattern began there: foo**/bar is foo,
// followed by what **/bar matches. Git does the same.
func patternOf(text string, anchored bool) (glob, bool) {
	if !anchored {
		return compile(nil, text)
	}
	text = strings.TrimPrefix(text, "/")
	plain := strings.IndexAny(text, `*?[\`)
	if plain < 0 {
		plain = len(text)
	}
	g := make(glob, plain, len(text))
	for i := range plain {
		g[i].char = text[i]
	}
	return compile(g, text[plain:])
}

// everywhere returns what follows **/ in a pattern, if that is all there is to it: a name
// in any directory.
func everywhere(g glob) (glob, bool) {
	if len(g) < 3 || g[0].kind != anyDirs {
		return nil, false
	}
	for _, t := range g[2:] {
		if t.kind == char && t.char == '/' || t.kind > star {
			return nil, false
		}
	}
	return g[2:], true
}

// extension returns ".o" for *.o.
func extension(g glob) (string, bool) {
	if len(g) < 3 || g[0].kind != star && g[0].kind != anyStar || g[1].char != '.' {
		return "", false
	}
	ext, plain := g[1:].literal()
	return ext, plain && strings.LastIndexByte(ext, '.') == 0
}

func (r ruled) started() ruled {
	r.start, r.has = r.glob.reach(nil, 0), r.glob.run()
	return r
}

// note notes the last rule for a name. Rules come in ascending order.
func note(all *map[string]last, name string, to ruled) {
	if *all == nil {
		*all = map[string]last{}
	}
	l := (*all)[name]
	if to.dirs {
		l.dirs = to.rule
	} else {
		l.any = to.rule
	}
	(*all)[name] = l
}

// named returns the last rule that matches a name wherever it is, or 0, and how many steps
// that took.
func (r *Rules) named(b buffers, name string, isDir bool) (best int32, steps int) {
	best = r.names[name].of(isDir)
	if r.exts != nil {
		if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
			best = max(best, r.exts[name[dot:]].of(isDir))
		}
	}
	for i := len(r.globs) - 1; i >= 0 && r.globs[i].rule > best; i-- {
		to := &r.globs[i]
		steps++
		if to.dirs && !isDir || to.glob.apart(name) || !strings.Contains(name, to.has) {
			continue
		}
		at, took := to.glob.after(b, to.start, name)
		steps += took
		if to.glob.ends(at) {
			return to.rule, steps
		}
	}
	return best, steps
}
