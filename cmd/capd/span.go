package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"capd/operator"
)

// span is a flag with a length of time above 0: 90s, 2h30m, 7d.
type span time.Duration

// UnmarshalText reads what time.ParseDuration reads, and a number of days.
func (s *span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if days, ok := strings.CutSuffix(string(text), "d"); err != nil && ok {
		var n int
		if n, err = strconv.Atoi(days); err == nil && n <= 36500 {
			d = time.Duration(n) * 24 * time.Hour
		}
	}
	if err != nil || d <= 0 {
		return usageError{fmt.Sprintf("%q is no time; write 90s, 2h30m or 7d", text)}
	}
	*s = span(d)
	return nil
}

// stateOf says what a grant is now, and what will end it.
func stateOf(g operator.Grant) string {
	state := string(g.State)
	if g.State != operator.Active && g.State != operator.Locked {
		return state
	}
	if g.ExpiresMs != 0 {
		state += " until " + time.UnixMilli(g.ExpiresMs).Local().Format("2006-01-02 15:04")
	}
	if g.UnusedMs != 0 {
		state += ", unused for " + (time.Duration(g.UnusedMs) * time.Millisecond).String()
	}
	if g.UsesLeft != 0 {
		state += fmt.Sprintf(", %d uses left", max(g.UsesLeft, 0))
	}
	return state
}
