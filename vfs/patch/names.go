package patch

import "strings"

// absent is the name of no file.
const absent = "/dev/null"

// fileName reads the name in a line "--- name" or "+++ name", without the time that may follow it after a tab.
func fileName(s string) (string, bool) {
	if strings.HasPrefix(s, `"`) {
		name, _, ok := unquote(s)
		return name, ok
	}
	name, _, _ := strings.Cut(s, "\t")
	return strings.TrimRight(name, " \r"), true
}

// plainName reads the name in a line such as "rename from name".
func plainName(s string) (string, bool) {
	if strings.HasPrefix(s, `"`) {
		name, _, ok := unquote(s)
		return name, ok
	}
	return strings.TrimSuffix(s, "\r"), true
}

// unquote reads a name in quotes as git writes it, with the escapes of C, and returns what follows it.
func unquote(s string) (name, rest string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; c {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
			if at := strings.IndexByte(`abfnrtv"\`, s[i]); at >= 0 {
				b.WriteByte("\a\b\f\n\r\t\v\"\\"[at])
				continue
			}
			n := 0
			for k := range 3 {
				if i+k >= len(s) || s[i+k] < '0' || s[i+k] > '7' {
					return "", "", false
				}
				n = n*8 + int(s[i+k]-'0')
			}
			if n > 255 {
				return "", "", false
			}
			b.WriteByte(byte(n))
			i += 2
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// prefixes are the pairs that git diff writes before names: by default, and with diff.mnemonicPrefix.
var prefixes = [][2]string{{"a/", "b/"}, {"i/", "w/"}, {"c/", "i/"}, {"c/", "w/"}, {"o/", "w/"}, {"1/", "2/"}}

// strip returns old and new without the prefixes that git writes, if they have them.
func strip(old, now string) (string, string) {
	for _, p := range prefixes {
		for _, p := range [][2]string{p, {p[1], p[0]}} { // the second is git diff -R
			a, ok := without(old, p[0])
			b, ok2 := without(now, p[1])
			if ok && ok2 && (old != absent || now != absent) {
				return a, b
			}
		}
	}
	return old, now
}

func without(name, prefix string) (string, bool) {
	if name == absent {
		return name, true
	}
	return strings.CutPrefix(name, prefix)
}

// sameNames reads the two names in a line "diff --git a/name b/name", which say the same apart from the prefix. git tells them apart by that
// alone; where they differ, other lines have the names.
func sameNames(s string) (string, bool) {
	s = strings.TrimRight(s, "\r")
	if strings.HasPrefix(s, `"`) {
		old, rest, ok := unquote(s)
		rest, spaced := strings.CutPrefix(rest, " ")
		if !ok || !spaced {
			return "", false
		}
		now := rest
		if strings.HasPrefix(rest, `"`) {
			if now, _, ok = unquote(rest); !ok {
				return "", false
			}
		}
		return equalNames(old, now)
	}
	if at := strings.Index(s, ` "`); at >= 0 && strings.HasSuffix(s, `"`) {
		if now, rest, ok := unquote(s[at+1:]); ok && rest == "" {
			return equalNames(s[:at], now)
		}
	}
	if len(s)%2 == 0 || s[len(s)/2] != ' ' {
		return "", false
	}
	return equalNames(s[:len(s)/2], s[len(s)/2+1:])
}

func equalNames(old, now string) (string, bool) {
	old, now = strip(old, now)
	return old, old == now && old != ""
}
