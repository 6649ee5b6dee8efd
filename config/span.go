package config

import (
	"strconv"
	"strings"
	"time"

	"capd/vfs"
)

// maxDays is the longest span: about a hundred years.
const maxDays = 36500

// ParseSpan parses a length of time above 0, of at most 36,500 days: what [time.ParseDuration] reads, such as 90s or 2h30m, or a
// number of days, such as 7d. It answers invalid.
func ParseSpan(s string) (time.Duration, error) {
	const day = 24 * time.Hour
	d, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); err != nil && ok {
		var n int
		if n, err = strconv.Atoi(days); err == nil && n <= maxDays {
			d = time.Duration(n) * day
		}
	}
	if err != nil || d <= 0 || d > maxDays*day {
		return 0, vfs.Errorf(vfs.Invalid, "%s is no time; write 90s, 2h30m or 7d", quote(s))
	}
	return d, nil
}

// span reads a length of time.
func (r *reader) span(what string, into *time.Duration) func(at place, s string) {
	return func(at place, s string) {
		d, err := ParseSpan(s)
		if err != nil {
			r.mistake(at, "%s: %s", what, vfs.Message(err))
		}
		*into = d
	}
}
