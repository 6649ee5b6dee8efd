//go:build unix

package hook_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"capd/database"
	"capd/hook"
	"capd/operator"
	"capd/vfs/vfstest/check"
)

// TestProgram: what a program may do, and what becomes of a change then. Nothing that it has started is left.
func TestProgram(t *testing.T) {
	const pass = `{"answer": "ok"}`
	for name, c := range map[string]struct{ script, want string }{
		"passes":       {"echo '" + pass + "'", "[] a()"},
		"denies":       {`echo '{"answer": "deny", "reason": "no tabs"}'`, "[] a(deny: no tabs) denied: the hook a said no: no tabs"},
		"asks":         {`echo '{"answer": "ask", "reason": "large"}'`, "[hook a: large] a(ask: large)"},
		"reads":        {`read in; case $in in '{"v":1,"when":"before","hook":"a","operation":"replace","path":"project/a.go","subject":"agent-run:agent","grant":"g1"}') echo '` + pass + `';; *) echo "$in" >&2; esac`, "[] a()"},
		"environment":  {`test "$(env | grep -v ^_= | grep -v ^PWD= | sort | cut -d= -f1 | tr '\n' ' ')" = 'CAPD_HOOK PATH ' && test $CAPD_HOOK = a && test "$(basename "$(pwd)")" = a && echo '` + pass + `'`, "[] a()"},
		"hangs":        {"sleep 60", "did not answer within 2s"},
		"hangs deaf":   {"trap '' TERM INT; while :; do sleep 1; done", "did not answer within 2s"},
		"answers late": {"sleep 60; echo '" + pass + "'", "did not answer within 2s"},
		"dies":         {"kill -SEGV $$", "was ended (signal: segmentation fault"},
		"dies after":   {"echo '" + pass + "'; kill -9 $$", "was ended (signal: killed)"},
		"exits 3":      {"echo '" + pass + "'; exit 3", "ended with 3"},
		"says nothing": {":", "answered nothing"},
		"twice":        {"echo '" + pass + "'; echo '" + pass + "'", "answered more than once"},
		"and more":     {"echo '" + pass + "x'", "answered more than once"},
		"garbage":      {"echo yes", "answered what is no answer"},
		"null":         {"echo null", "answered what is no answer"},
		"empty":        {"echo '{}'", "answered what is no answer"},
		"another path": {`echo '{"answer": "ok", "path": "x"}'`, "answered what is no answer"},
		"allows":       {`echo '{"answer": "allow"}'`, `answered "allow"`},
		"1 GiB":        {"head -c 1073741824 /dev/zero", "answered more than 64 KiB"},
		"16 MiB said":  {"head -c 16777216 /dev/zero >&2; echo '" + pass + "'", "[] a()"},
		"leaves one":   {"sleep 60 & echo '" + pass + "'", "[] a()"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			script := filepath.Join(dir, "hook")
			check.OK(t, os.WriteFile(script, []byte("#!/bin/sh\necho $$ >pid\n"+c.script+"\n"), 0o700))
			each := 20 * time.Second
			if strings.Contains(c.want, "within 2s") {
				each = 2 * time.Second // which is enough for it to begin
			}
			db := database.Memory()
			defer db.Close()
			h := opened(t, db, hook.Options{Dir: filepath.Join(dir, "hooks"), Each: each, Together: time.Minute, File: []operator.Hook{{Name: "a", Command: []string{script}, Before: true}}})
			defer h.end(t)
			want := c.want
			if !strings.HasPrefix(want, "[") {
				want = " denied: the hook a " + want
			}
			if got := h.before(t.Context(), put); got != want && (c.want == want || !strings.Contains(got, want)) {
				t.Errorf("%s\nrather than\n%s", got, want)
			}
			none(t, filepath.Join(dir, "hooks", "a", "pid"))
		})
	}
}

// none checks that no process is left in the group of the one whose id is in a file.
func none(t *testing.T, file string) {
	t.Helper()
	pid := number(t, file)
	check.Eventually(t, "its processes have ended", func() bool { return syscall.Kill(-pid, 0) == syscall.ESRCH })
}

// TestProgramCannotStart: the guest is not told where the program is.
func TestProgramCannotStart(t *testing.T) {
	db := database.Memory()
	defer db.Close()
	dir := t.TempDir()
	h := opened(t, db, hook.Options{Dir: filepath.Join(dir, "hooks"), File: []operator.Hook{{Name: "a", Command: []string{filepath.Join(dir, "none")}, Before: true}}})
	defer h.end(t)
	equal(t, h.before(t.Context(), put), "[] a(failed: it could not be started) denied: the hook a could not be started")
}

// TestProgramAfter: a program is told, and told again after it has failed.
func TestProgramAfter(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "hook")
	check.OK(t, os.WriteFile(script, []byte("#!/bin/sh\ncat >>told\ntest -e failed || { touch failed; exit 1; }\n"), 0o700))
	db := database.Memory()
	defer db.Close()
	h := opened(t, db, hook.Options{Dir: dir, File: []operator.Hook{{Name: "a", Command: []string{script}, After: true}}})
	defer h.end(t)
	h.change(t, "agent", "project/a")
	line := `{"v":1,"when":"after","hook":"a","operation":"replace","path":"project/a","subject":"agent-run:agent","grant":"g1","id":"c2","result":"done"`
	check.Eventually(t, "it was told twice", func() bool {
		told, _ := os.ReadFile(filepath.Join(dir, "a", "told"))
		return strings.Count(string(told), line) == 2 && strings.Count(string(told), "\n") == 2
	})
}
