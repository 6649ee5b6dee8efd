package tests

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

func scriptReload(ts *testscript.TestScript, failing bool, args []string) {
	r := lastRun(ts)
	text, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("capd.yaml"), text, 0o644))
	word := "capd: reloaded "
	if failing {
		word = "capd: reloading "
	}
	logged, printed := len(r.log.String()), len(r.served.String())
	ts.Check(r.host.Process.Signal(syscall.SIGHUP))
	if !waitFor(2*patience, func() bool { return strings.Contains(r.log.String()[logged:], word) }) {
		ts.Fatalf("it said %q, and not %q", r.log.String()[logged:], word)
	}
	if !waitFor(2*patience, func() bool { return len(args) == 1 || strings.Contains(r.served.String()[printed:], args[1]) }) {
		ts.Fatalf("it printed %q, and not %q", r.served.String()[printed:], args[1]) // it arrives by another pipe than the log
	}
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("SCRATCH"), "log"), []byte(r.log.String()[logged:]), 0o600))
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("SCRATCH"), "served"), []byte(r.served.String()[printed:]), 0o600))
}
