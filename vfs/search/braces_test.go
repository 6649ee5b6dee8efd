package search_test

import (
	"slices"
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/search"
)

// expandSlowly does the same as Expand: it replaces the first brace until there is none.
func expandSlowly(pattern string) (done []string, code vfs.Code) {
	todo := []string{pattern}
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		open, parts, rest := firstBrace(p)
		switch {
		case open < 0:
			done = append(done, p)
		case parts == nil:
			return nil, vfs.Invalid
		}
		if len(done)+len(todo)+len(parts) > search.MaxAlternatives {
			return nil, vfs.Invalid
		}
		for _, part := range slices.Backward(parts) {
			todo = append(todo, p[:open]+part+rest)
		}
	}
	return done, ""
}

// firstBrace splits p into p[:open] + "{" + parts… + "}" + rest. open is -1 if there is
// no brace, and parts is nil if it is not closed.
func firstBrace(p string) (open int, parts []string, rest string) {
	open, depth, from, class := -1, 0, 0, false
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = strings.IndexByte(p[i:], ']') > 0
		case c == '{':
			if depth++; depth == 1 {
				open, from = i, i+1
			}
		case c == ',' && depth == 1:
			parts, from = append(parts, p[from:i]), i+1
		case c == '}' && depth > 0:
			if depth--; depth == 0 {
				return open, append(parts, p[from:i]), p[i+1:]
			}
		}
	}
	if depth > 0 {
		return open, nil, ""
	}
	return -1, nil, ""
}

func checkExpand(t *testing.T, pattern string) {
	t.Helper()
	got, steps, err := search.Expand(pattern)
	want, code := expandSlowly(pattern)
	if vfs.CodeOf(err) != code || !slices.Equal(got, want) {
		t.Fatalf("%q stands for %q, %v; want %q, %q", pattern, got, err, want, code)
	}
	checkSteps(t, pattern, len(got), steps)
}

func checkSteps(t *testing.T, pattern string, alts, steps int) {
	t.Helper()
	if most := len(pattern) * (1 + alts); steps > most {
		t.Fatalf("%.40q took %d steps, and %d bytes with %d patterns may take %d", pattern, steps, len(pattern), alts, most)
	}
}

// TestBraces tries every pattern of a small alphabet.
func TestBraces(t *testing.T) {
	const alphabet = `a{,}[]\`
	var try func(pattern string, more int)
	try = func(pattern string, more int) {
		checkExpand(t, pattern)
		for i := 0; i < len(alphabet) && more > 0; i++ {
			try(pattern+alphabet[i:i+1], more-1)
		}
	}
	try("", 6)
}

// The longest patterns take a step for each of their bytes, and one more for each pattern
// that they stand for.
func TestBracesAreLinear(t *testing.T) {
	six := strings.Repeat("{a,b}", 6)
	for _, c := range []struct {
		name, pattern string
		alts          int // 0: it is refused
	}{
		{"open brackets", strings.Repeat("[", 4060) + six, 64},
		{"brackets", strings.Repeat("[{]", 1350) + six, 64},
		{"braces around nothing", strings.Repeat("x", 2000) + six + strings.Repeat("{}", 1000), 64},
		{"braces around one", six + strings.Repeat("{x}", 1350), 64},
		{"braces within braces", six + strings.Repeat("{x", 1350) + strings.Repeat("}", 1350), 64},
		{"braces within the last", strings.Repeat("{x,", 63) + strings.Repeat("{", 1900) + strings.Repeat("}", 1900+63), 64},
		{"too many", strings.Repeat("{a,b}", 800), 0},
		{"too many in one", "{" + strings.Repeat(",", 4000) + "}", 0},
		{"open braces", strings.Repeat("{", 4095), 0},
	} {
		if len(c.pattern) > vfs.MaxPath {
			t.Fatalf("%s: %d bytes", c.name, len(c.pattern))
		}
		alts, steps, _ := search.Expand(c.pattern)
		if len(alts) != c.alts {
			t.Errorf("%s: it stands for %d patterns, want %d", c.name, len(alts), c.alts)
		}
		checkSteps(t, c.pattern, c.alts, steps)
	}
}
