package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"capd/client/console"
	"capd/config"
	"capd/meter"
	"capd/operator"
)

// holdingJSON is what is held of one kind, as --json prints it.
type holdingJSON struct {
	Used    int64  `json:"used"`
	Limit   *int64 `json:"limit"` // null: no limit
	Share   *int64 `json:"share"` // null: no bound by others
	Refused int64  `json:"refused"`
	Peak    int64  `json:"peak"` // the most that was used at once
}

// laneJSON is what was done in a lane, and what waits there, as --json prints it.
type laneJSON struct {
	Given     int64 `json:"given"`
	SpentMs   int64 `json:"spentMs"`
	Waiting   int   `json:"waiting"`
	LongestMs int64 `json:"longestMs"`
}

type usageJSON struct {
	Connections int64                  `json:"connections"`
	Kinds       map[string]holdingJSON `json:"kinds"`
	Lanes       map[string]laneJSON    `json:"lanes"`
}

type grantUsageJSON struct {
	operator.Grant
	usageJSON
}

type hostUsageJSON struct {
	statusJSON
	Kinds map[string]holdingJSON `json:"kinds"`
	Lanes map[string]laneJSON    `json:"lanes"`
}

// guestsJSON is what capd status --guests --json prints.
type guestsJSON struct {
	Host      hostUsageJSON    `json:"host"`
	Strangers usageJSON        `json:"strangers"`
	Grants    []grantUsageJSON `json:"grants"`
}

func usageToJSON(u operator.Usage) usageJSON {
	out := usageJSON{Kinds: map[string]holdingJSON{}, Lanes: map[string]laneJSON{}}
	for _, use := range u.Uses {
		out.Kinds[use.Kind.String()] = holdingJSON{use.Used, unlessNone(use.Limit), unlessNone(use.Share), use.Refused, use.Peak}
		if use.Kind == meter.Connections {
			out.Connections = use.Used
		}
	}
	for _, t := range u.Turns {
		out.Lanes[t.Lane.String()] = laneJSON{t.Given, t.Spent.Milliseconds(), t.Waiting, t.Longest.Milliseconds()}
	}
	return out
}

func unlessNone(n int64) *int64 {
	if n == meter.NoLimit {
		return nil
	}
	return &n
}

func guestsToJSON(st operator.Status, u console.Usage) guestsJSON {
	host := usageToJSON(u.Host)
	out := guestsJSON{
		Host: hostUsageJSON{statusToJSON(st), host.Kinds, host.Lanes}, Strangers: usageToJSON(u.Strangers), Grants: []grantUsageJSON{},
	}
	for _, g := range u.Grants {
		out.Grants = append(out.Grants, grantUsageJSON{g.Grant, usageToJSON(g.Usage)})
	}
	return out
}

// usageTable shows who uses what: the host, then each grant with its shares below it,
// then strangers. It shows the kinds that are used, were refused, or have a limit that
// was set. Of strangers it always shows connections.
type usageTable struct {
	columns
	paint painter
}

func printUsage(e *env, st operator.Status, u console.Usage) error {
	t := &usageTable{columns: columns{to: e.stdout}, paint: newPainter(e.stdout)}
	t.head("", t.paint.dir("host"), connected(st.Connections), count(st.Threads, "thread"), mib(st.MemoryBytes))
	t.usage("  ", u.Host, meter.HostLimits())
	below := map[string][]operator.GrantUsage{}
	there := map[string]bool{}
	for _, g := range u.Grants {
		there[g.ID] = true
	}
	for _, g := range u.Grants {
		parent := g.Parent
		if !there[parent] {
			parent = ""
		}
		below[parent] = append(below[parent], g)
	}
	for _, g := range below[""] {
		t.line("")
		t.grant("", g, below)
	}
	t.line("")
	t.head("", t.paint.dir("strangers"), "connections that have restored nothing")
	t.usage("  ", u.Strangers, meter.StrangerLimits(), meter.Connections)
	return t.Flush()
}

func (t *usageTable) line(s string) { fmt.Fprintln(t, s) }

func (t *usageTable) head(indent, name string, facts ...string) {
	t.line(indent + name + "  " + t.paint.faint(strings.Join(facts, ", ")))
}

// grant prints one grant, and its shares below it.
func (t *usageTable) grant(indent string, g operator.GrantUsage, below map[string][]operator.GrantUsage) {
	state := string(g.State)
	if g.State != operator.Active {
		state = t.paint.bad(state)
	}
	t.head(indent, t.paint.dir(g.Guest), g.ID, cmp.Or(shownPath(g.Path), "everything"), mayDo(g.Grant), state)
	defaults := meter.GrantLimits()
	if g.Parent != "" {
		defaults = nil
	}
	t.usage(indent+"  ", g.Usage, defaults)
	for _, s := range below[g.ID] {
		t.grant(indent+"  ", s, below)
	}
}

func (t *usageTable) usage(indent string, u operator.Usage, defaults meter.Limits, always ...meter.Kind) {
	stored := int64(meter.NoLimit)
	for _, use := range u.Uses {
		set := max(use.Limit, 0) != defaults[use.Kind]
		switch use.Kind {
		case meter.StoredBytes:
			stored = use.Limit
		case meter.StagedBytes: // it is never more
			set = set && use.Limit != stored
		}
		if use.Used > 0 || use.Refused > 0 || set || slices.Contains(always, use.Kind) {
			t.use(indent, use)
		}
	}
	var done, waiting []string
	for _, turns := range u.Turns {
		if turns.Given > 0 {
			done = append(done, fmt.Sprintf("%s %d in %s", turns.Lane, turns.Given, brief(turns.Spent)))
		}
		if turns.Waiting > 0 {
			waiting = append(waiting, fmt.Sprintf("%s %d, up to %s", turns.Lane, turns.Waiting, brief(turns.Longest)))
		}
	}
	if len(done) > 0 {
		t.line(indent + "turns: " + strings.Join(done, ", "))
	}
	if len(waiting) > 0 {
		t.line(indent + t.paint.bad("waiting: "+strings.Join(waiting, "; ")))
	}
}

// use prints one kind: how much is used, of how much, and the percentage.
func (t *usageTable) use(indent string, u meter.Use) {
	most := u.Limit
	if u.Share != meter.NoLimit && (most == meter.NoLimit || u.Share < most) {
		most = u.Share
	}
	of, part, refused := "", "", ""
	switch {
	case most == meter.NoLimit:
	case most == u.Limit:
		of, part = "of "+amount(u.Kind, most), share(u.Used, most)
	case u.Limit == meter.NoLimit:
		of, part = "of "+amount(u.Kind, most)+" now", share(u.Used, most)
	default:
		of, part = fmt.Sprintf("of %s now, %s at most", amount(u.Kind, most), amount(u.Kind, u.Limit)), share(u.Used, most)
	}
	if part != "" && float64(u.Used) >= 0.9*float64(most) {
		part = t.paint.bad(part)
	}
	if u.Refused > 0 {
		refused = t.paint.bad(fmt.Sprintf("%d refused", u.Refused))
	}
	fmt.Fprintf(t, "%s%s\t%s\t%s\t%s\t%s\n", indent, u.Kind, amount(u.Kind, u.Used), of, part, refused)
}

// amount returns n of a kind, for people.
func amount(k meter.Kind, n int64) string {
	if k.Bytes() {
		return config.Size(n).String()
	}
	return fmt.Sprint(n)
}

// connected returns a number of connections, for people.
func connected(n int64) string {
	if n < 0 {
		return "an unknown number of connections"
	}
	return count(int(n), "connection")
}

// share returns what part of most is used.
func share(used, most int64) string {
	switch {
	case used == 0:
		return ""
	case most <= 0:
		return "full"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(used)/float64(most))
}

// brief returns a duration for people, with about three digits.
func brief(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}
