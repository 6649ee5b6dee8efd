package main

import (
	"fmt"
	"strings"
	"time"

	"capd/config"
	"capd/operator"
	"capd/vfs"
)

// span is a flag with a length of time above 0: 90s, 2h30m, 7d.
type span time.Duration

// UnmarshalText is [config.ParseSpan].
func (s *span) UnmarshalText(text []byte) error {
	d, err := config.ParseSpan(string(text))
	if err != nil {
		return usageError{vfs.Message(err)}
	}
	*s = span(d)
	return nil
}

// lasting returns a length of time of ms milliseconds as a span reads it, such as 10m or 7d.
func lasting(ms int64) string {
	const day = 24 * time.Hour
	d := time.Duration(ms) * time.Millisecond
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	text := d.String()
	if d%time.Minute == 0 {
		text = strings.TrimSuffix(text, "0s")
	}
	if d%time.Hour == 0 {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// stateOf says what a grant is now, and what will end it.
func stateOf(g operator.Grant) string {
	state := string(g.State)
	if g.State != operator.Active && g.State != operator.Locked {
		return state
	}
	if g.ExpiresMs != 0 {
		state += " until " + atTime(g.ExpiresMs)
	}
	if g.UnusedMs != 0 {
		state += ", ends when unused for " + lasting(g.UnusedMs)
	}
	if g.UsesLeft != 0 {
		state += ", " + count(int(max(g.UsesLeft, 0)), "use") + " left"
	}
	return state
}
