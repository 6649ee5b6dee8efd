package tests

import (
	"encoding/json"
	"os"
	"regexp"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"

	"capd/operator"
)

// scriptAwaits waits until a file, which something in the background writes, has what matches a pattern.
func scriptAwaits(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile(args[0])
	var have []byte
	if !waitFor(2*patience, func() bool {
		have, _ = os.ReadFile(ts.MkAbs(args[1]))
		return want.Match(have)
	}) {
		ts.Fatalf("%s has\n%s", args[1], have)
	}
}

// scriptPending waits until one request waits for an approval, and puts its id into a variable.
func scriptPending(ts *testscript.TestScript, _ bool, args []string) {
	var all []operator.Ask
	if !waitFor(2*patience, func() bool {
		scriptExec(ts, false, []string{"asks", "--json", "--state", ts.Getenv("STATE")})
		ts.Check(json.Unmarshal([]byte(lastRun(ts).out), &all))
		return len(all) == 1
	}) {
		ts.Fatalf("%d requests wait", len(all))
	}
	ts.Setenv(args[0], all[0].ID)
}

// scriptAsk puts the id of a request for an approval into a variable.
func scriptAsk(ts *testscript.TestScript, _ bool, args []string) {
	scriptExec(ts, false, []string{"asks", "--json", "--state", ts.Getenv("STATE")})
	var all []operator.Ask
	ts.Check(json.Unmarshal([]byte(lastRun(ts).out), &all))
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	if n >= len(all) {
		ts.Fatalf("%d requests wait", len(all))
	}
	ts.Setenv(args[1], all[n].ID)
}
