package main

import (
	"testing"

	"capd/operator"
)

// TestDescribed: what a guest chose stands behind "> ". A diff has its tabs, and nothing else that a terminal would act on.
func TestDescribed(t *testing.T) {
	a := operator.Ask{
		ID: "5f3a2b0011223344", Guest: "agent", Grant: "g1", Operation: "replace", Path: "a\tb", Why: []string{"p: **"},
		Diff: "-\tx := 1\n+\tx :=\x1b[2J 2\t// \r\n",
	}
	want := "5f3a2b00  agent (g1) asks\n> replace a\\u0009b\nbecause of p: **\n> -\tx := 1\n> +\tx :=\\u001b[2J 2\t// \\u000d\n"
	if got := described(a); got != want {
		t.Errorf("%q\nrather than\n%q", got, want)
	}
}
