package patch

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"capd/vfs"
)

// which names the hunk i for people.
func (l *locator) which(i int) string {
	return fmt.Sprintf("hunk %d of %d (line %d of the patch)", i+1, len(l.hunks), l.hunks[i].line)
}

// quoted returns a line for people: a part of it, in quotes, without what acts on a terminal.
func quoted(s string) string {
	const most = 100
	s = strings.TrimPrefix(s, string(bom))
	cut := s
	if len(cut) > most {
		n := most
		for n > most-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		cut = s[:n]
	}
	q := fmt.Sprintf("%q", cut)
	if len(cut) < len(s) {
		q += "…"
	}
	return q
}

func (l *locator) ambiguous(i int, found []spot) error {
	var at []string
	for _, s := range found[:min(len(found), maxFound)] {
		at = append(at, fmt.Sprint(s.at+1))
	}
	if len(found) > maxFound {
		at = append(at, "…")
	}
	return vfs.Errorf(vfs.Conflict, "%s fits at several places, at the lines %s; give more lines of context, or the number of its line", l.which(i), strings.Join(at, ", "))
}

// missing returns why the hunk i is nowhere at or below the line after.
func (l *locator) missing(i, after int) error {
	text := l.which(i) + " fits nowhere"
	if l.size() == 0 {
		return vfs.Errorf(vfs.Conflict, "%s: the file is empty", text)
	}
	if above := l.find(i, 0, min(after+len(l.olds[i]), l.size()), 1); len(above) > 0 && !l.hunks[i].last {
		return vfs.Errorf(vfs.Conflict, "%s below the hunk before it; it fits at line %d: put the hunks in the order of the file", text, above[0].at+1)
	}
	back := newLocator(l.data, []Hunk{l.hunks[i].reverse()})
	if is := side(l.hunks[i].lines, '-'); len(is) > 0 {
		if done := back.find(0, 0, back.size(), 1); len(done) > 0 {
			return vfs.Errorf(vfs.Conflict, "%s, and what it makes is at line %d: it seems applied already", text, done[0].at+1)
		}
	}
	at, ok := l.closest(i)
	if !ok {
		return vfs.Errorf(vfs.Conflict, "%s: the file has none of its lines; read the file again", text)
	}
	return vfs.Errorf(vfs.Conflict, "%s; %s", text, l.differs(i, at))
}

// differs says where the hunk i differs from the lines at.
func (l *locator) differs(i, at int) string {
	text := fmt.Sprintf("the closest is line %d", at+1)
	for k, o := range l.olds[i] {
		n := at + k
		switch {
		case n >= l.size():
			return fmt.Sprintf("%s, but the file ends before %s", text, quoted(o.text))
		case n < 0 || l.loose[n] == l.oldIDs[i][k] || l.exact[n] == l.oldIDs[i][k]:
			if n >= 0 && o.cut && !l.isOpen(n) {
				return fmt.Sprintf("%s, but line %d is not the end of a file without a final newline", text, n+1)
			}
			continue
		}
		is := strings.TrimSuffix(l.text(n), "\r")
		return fmt.Sprintf("%s, but line %d is %s and the patch has %s%s", text, n+1, quoted(is), quoted(o.text), why(is, o.text))
	}
	if l.hunks[i].last {
		return text + ", which is not at the end of the file"
	}
	return text
}

// why says in what way two lines that look alike differ.
func why(is, has string) string {
	is, has = strings.TrimPrefix(is, string(bom)), strings.TrimPrefix(has, string(bom))
	switch {
	case is == has:
		return ""
	case strings.TrimRight(is, " \t\r") == strings.TrimRight(has, " \t\r"):
		return " (they differ in spaces at the end)"
	case noSpace(is) == noSpace(has):
		return " (they differ in tabs and spaces)"
	case straight.Replace(is) == straight.Replace(has):
		return " (they differ in curly quotes or dashes)"
	case strings.EqualFold(is, has):
		return " (they differ in case)"
	case !utf8.ValidString(is):
		return " (the file is not UTF-8 there)"
	}
	return ""
}

// straight replaces what editors put for quotes, dashes and spaces.
var straight = strings.NewReplacer("‘", "'", "’", "'", "“", `"`, "”", `"`, "–", "-", "—", "-", "−", "-", "\u00a0", " ")

func noSpace(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\r\u00a0", r) {
			return -1
		}
		return r
	}, s)
}

func alike(s string) string { return strings.ToLower(straight.Replace(noSpace(s))) }

// Bounds of the search for the closest lines.
const (
	maxVoters = 64 // lines of a hunk
	maxVotes  = 64 // places of each
)

// closest returns the line at which most lines of the hunk i, or lines that look like them, are where they should be.
func (l *locator) closest(i int) (at int, ok bool) {
	places := map[string][]int{}
	for k, o := range l.olds[i][:min(len(l.olds[i]), maxVoters)] {
		if key := alike(o.text); key != "" {
			places[key] = append(places[key], k)
		}
	}
	votes, seen := map[int]int{}, map[string]int{}
	best := 0
	for n := range l.size() {
		b := l.raw(n, n+1)
		if len(b) > 4096 { // no line that a hunk has
			continue
		}
		key := alike(strings.TrimPrefix(strings.TrimSuffix(string(b), "\n"), string(bom)))
		if len(places[key]) == 0 || seen[key] == maxVotes {
			continue
		}
		seen[key]++
		for _, k := range places[key] {
			votes[n-k]++
			if votes[n-k] > best {
				best, at, ok = votes[n-k], n-k, true
			}
		}
	}
	return max(at, 0), ok
}
