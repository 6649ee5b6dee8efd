package main

import (
	"testing"
	"time"
)

// A time is printed as flags take it.
func TestLasting(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"10m": 10 * time.Minute, "7d": 7 * 24 * time.Hour, "36h": 36 * time.Hour, "2h30m": 150 * time.Minute,
		"1h0m5s": time.Hour + 5*time.Second, "1m30s": 90 * time.Second, "20s": 20 * time.Second, "1.5s": 1500 * time.Millisecond,
	} {
		got := lasting(d.Milliseconds())
		if got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
		var back span
		if err := back.UnmarshalText([]byte(got)); err != nil || time.Duration(back) != d {
			t.Errorf("%s is read as %v: %v", got, time.Duration(back), err)
		}
	}
}
