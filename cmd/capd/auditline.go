package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"capd/meter"
	"capd/operator"
	"capd/record"
	"capd/vfs"
)

// auditWidths are how many places the columns of capd audit take at least: the id, who, what and how. Lines are printed as
// entries are read, so a longer text moves the rest of its line.
var auditWidths = []int{5, 9, 8, 8}

// auditLine is a line of capd audit: the time and the id of an entry, and cells.
func auditLine(e record.Numbered, cells ...string) string {
	line := time.UnixMilli(e.At).Local().Format(time.DateTime)
	for i, cell := range append([]string{fmt.Sprintf("c%d", e.Number)}, cells...) {
		line += "  " + cell
		if i < len(auditWidths) {
			line += strings.Repeat(" ", max(auditWidths[i]-places(cell), 0))
		}
	}
	return strings.TrimRight(line, " ")
}

// changeLine describes an entry. How is how it ended, if it is the intent of a change.
func changeLine(p painter, e record.Numbered, how string) string {
	switch e.Kind {
	case record.Intended:
		return auditLine(e, actor(e.Entry), e.Op, cmp.Or(how, p.faint("under way")), changed(e.Entry))
	case record.Denied:
		return deniedLine(p, e)
	case record.Counted:
		lines := make([]string, len(e.Dirs))
		for i, d := range e.Dirs {
			lines[i] = p.faint(auditLine(e, actor(e.Entry), "reads", readText(d)))
		}
		return strings.Join(lines, "\n")
	}
	return p.faint(auditLine(e, append([]string{actor(e.Entry)}, noted(e.Entry)...)...))
}

// outcome says how a change ended.
func outcome(p painter, e record.Entry) string {
	how := string(e.Result)
	if e.Code != "" {
		how = string(e.Code)
	}
	if e.Kind == record.Settled {
		how = "settled: " + how
	}
	if e.Result == record.Done {
		return p.good(how)
	}
	return p.bad(how)
}

// actor names the grant or the share that e is about, or whom it is about, or the host.
func actor(e record.Entry) string {
	if len(e.Grants) > 0 {
		return cmp.Or(e.Grants[0].Name, e.Grants[0].ID)
	}
	return cmp.Or(operator.Subject(e.Subject).Name(), "host")
}

// where is the path of e, for people.
func where(e record.Entry) string {
	if e.Path == "" {
		return operator.Place("")
	}
	return shownPath(string(e.Path))
}

// changed says what the change of an intent is about.
func changed(e record.Entry) string {
	text := where(e)
	if e.To != "" {
		text += " -> " + shownPath(string(e.To))
	}
	if e.Paths > 0 {
		text += "  " + count(e.Paths, "path")
	}
	if e.Undoes != "" {
		text += "  undoes " + vfs.Printable(e.Undoes)
	}
	return text
}

// deniedLine says what was refused, how often, and by which rule.
func deniedLine(p painter, e record.Numbered) string {
	who := "nobody"
	if len(e.Grants) > 0 {
		who = actor(e.Entry)
	}
	if e.Op == "" {
		return auditLine(e, who, fmt.Sprintf("and %d other calls were refused", e.Times))
	}
	text := changed(e.Entry)
	if e.Times > 1 {
		text += fmt.Sprintf("  %d times", e.Times)
	}
	if e.Rule != "" {
		text += "  [" + vfs.Printable(e.Rule) + "]"
	}
	return auditLine(e, who, e.Op, p.bad(string(e.Code)), text)
}

// noted returns the cells of an entry that is no change, from what it is about on.
func noted(e record.Entry) []string {
	what := e.Kind.String()
	switch e.Kind {
	case record.Started:
		return []string{what}
	case record.Asked:
		return []string{what, askedText(e)}
	case record.Decided:
		return []string{what, e.Answer, askedText(e)}
	case record.Hook:
		return []string{what, hookText(e)}
	case record.Ruled:
		return []string{what, e.Policy[:min(len(e.Policy), 12)]}
	case record.Changed:
		return []string{what, cmp.Or(limitsText(e.Limits), "rights "+e.Rights), where(e)}
	case record.Trimmed:
		return []string{what, fmt.Sprintf("the entries before c%d", e.Before)}
	case record.Read:
		return []string{e.Op, where(e)}
	case record.Mounted, record.Unmounted:
		return []string{what, shownDir(string(e.Path)), vfs.Printable(e.URL)}
	case record.Locked:
		return lockedCells(e)
	}
	return []string{what, cmp.Or(e.Invite, where(e))}
}

// askedText says what was asked for, and the id that capd ask takes.
func askedText(e record.Entry) string {
	text := changeOf(e.Op, string(e.Path), string(e.To))
	if e.Op == "request" && e.Rights != "" {
		text += " with " + e.Rights
	}
	return text + "  " + shortID(e.Ask)
}

// hookText names a hook, and says what became of it.
func hookText(e record.Entry) string {
	var all []string
	for _, h := range e.Hooks {
		all = append(all, vfs.Printable(h.Name)+" "+h.Said)
	}
	return strings.Join(all, ", ")
}

// limitsText says what limits are from now on: KIND=N.
func limitsText(limits map[string]int64) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		k, known := meter.KindOf(name)
		all = append(all, name+"="+exact(limits[name], known && k.Bytes()))
	}
	return strings.Join(all, " ")
}

// exact returns a limit as capd limit takes it.
func exact(n int64, bytes bool) string {
	if n == meter.NoLimit {
		return "none"
	}
	unit := ""
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if !bytes || n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, next
	}
	return fmt.Sprint(n, unit)
}

// lockedCells says what is refused, and where.
func lockedCells(e record.Entry) []string {
	if len(e.Refuses) == 0 {
		return []string{"unlocked", where(e)}
	}
	return []string{e.Kind.String(), strings.Join(e.Refuses, ","), where(e)}
}

// readText says how often something was read in a directory.
func readText(d record.Dir) string {
	where := shownDir(string(d.Path))
	if d.Rest {
		where = "other directories"
	}
	return fmt.Sprintf("%d read, %d listed  %s", d.Reads, d.Lists, where)
}
