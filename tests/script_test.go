package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"capd/tests/scratch"
)

// TestScripts runs testdata/script against the real program. Beside the
// commands of testscript they have
//
//	serve [ARG…]       starts capd serve with the state directory $STATE, and sets CAPD_CAP if it prints a locator;
//	                   what it prints is in $SCRATCH/served
//	end                ends it as a service manager does, and looks at what it leaves; its log is in $SCRATCH/log
//	die                ends it with SIGKILL
//	reload FILE [TEXT] copies FILE to capd.yaml, has the host read it, and waits, also for TEXT to be printed; its log
//	                   is in $SCRATCH/log
//	locator VAR [json] puts the locator that was printed last into a variable and its file
//	jsonkeys KEY…      the output was an array of objects, or an object, with just these keys
//	jsonpath PATH KEY… at .a.0.b of the output is an object with just these keys
//	jsonis PATH VALUE  at .a.0.b of the output is this value, in JSON
//	refused CODE       the last command ended with 1 and said only "capd: CODE: …", and
//	                   nothing secret, unless it is the operator who is told: refused CODE host
//	usage              the last command ended with 2 and said "capd: usage: …"
//	secretive          what the last command said names no socket, host path or locator
//	run [ARG…]         runs capd, whatever it answers
//	odd DIR            makes names that a terminal would act on, and links, and sets ESC
//	bytes FILE N       writes N bytes
//	[thorough]         is true with CAPD_CI=1: what waits for seconds runs only then
//	awaits PATTERN F   waits until the file F has something that matches
//	metrics [FILE]     gets what capd serve --metrics measures, with the token in a file
//	collector VAR      starts an OpenTelemetry collector; what it gets is in $SCRATCH/collected
//	sql STATE TEXT     changes the database of a state directory
//	pending VAR        waits until a request waits for an approval, and puts its id into a variable
//	ask N VAR          puts the id of the nth request that waits for an approval into a variable
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, scripts(t, "script"))
}

// scripts is how testdata/DIR is run.
func scripts(t *testing.T, dir string) testscript.Params {
	bin := filepath.Dir(capd(t))
	return testscript.Params{
		Dir: filepath.Join("testdata", dir),
		Condition: func(name string) (bool, error) {
			if name != "thorough" {
				return false, fmt.Errorf("there is no condition %q", name)
			}
			return thorough, nil
		},
		Setup: func(e *testscript.Env) error {
			state, err := os.MkdirTemp(scratch.Memory(), "capd")
			if err != nil {
				return err
			}
			e.Defer(func() { os.RemoveAll(state) })
			e.Vars = append(e.Vars, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
				"STATE="+state+"/s", "SCRATCH="+state, "NO_COLOR=1", endsAtOnce, "CAPD_CAP=", "XDG_STATE_HOME="+state+"/xdg")
			e.Values["run"] = &scriptRun{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve": scriptServe, "end": scriptEnd, "die": scriptKill, "locator": scriptLocator, "jsonkeys": scriptKeys, "jsonpath": scriptPath, "jsonis": scriptIs, "run": scriptExec,
			"refused": scriptRefused, "usage": scriptUsage, "secretive": scriptSecretive, "bytes": scriptBytes, "odd": scriptOdd,
			"sql": scriptSQL, "metrics": scriptMetrics, "collector": scriptCollector,
			"awaits": scriptAwaits, "ask": scriptAsk, "pending": scriptPending, "reload": scriptReload,
		},
	}
}

// scriptRun is the state of a script: what it runs, and the last output.
type scriptRun struct {
	host *exec.Cmd
	log  syncBuffer
	out  string

	served *syncBuffer // what host printed
	errs   string
	code   int
	caps   []string
}

func lastRun(ts *testscript.TestScript) *scriptRun { return ts.Value("run").(*scriptRun) }

var locatorText = regexp.MustCompile(`capnp://[^\s'"]+`)

func scriptServe(ts *testscript.TestScript, _ bool, args []string) {
	r := lastRun(ts)
	path, err := exec.LookPath(filepath.Join(filepath.SplitList(ts.Getenv("PATH"))[0], "capd"))
	ts.Check(err)
	r.host = exec.Command(path, append([]string{"serve", "--state", ts.Getenv("STATE")}, args...)...)
	r.host.Dir = ts.MkAbs(".")
	r.host.Env = []string{"NO_COLOR=1", "HOME=" + ts.Getenv("SCRATCH"), endsAtOnce}
	var out syncBuffer
	r.host.Stdout, r.host.Stderr, r.served = &out, &r.log, &out
	begun := time.Now()
	ts.Check(r.host.Start())
	host := r.host // the script may serve again
	ts.Defer(func() { host.Process.Kill(); host.Wait() })
	if !waitFor(2*patience, func() bool { return strings.Contains(out.String(), "Ctrl-C") || strings.HasSuffix(out.String(), "}\n") }) {
		ts.Fatalf("capd serve printed %s%s", out.String(), r.log.String())
	}
	if took := time.Since(begun); took > 2*time.Second && !raceBuilt {
		ts.Logf("it took %v to serve", took)
	}
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("SCRATCH"), "served"), []byte(out.String()), 0o600))
	if loc := locatorText.FindString(out.String()); loc != "" { // otherwise that of an earlier start is good
		r.caps = append(r.caps, loc)
		ts.Setenv("CAPD_CAP", loc)
	}
}

func scriptEnd(ts *testscript.TestScript, _ bool, _ []string) {
	r := lastRun(ts)
	ts.Check(r.host.Process.Signal(syscall.SIGTERM))
	if err := r.host.Wait(); err != nil {
		ts.Fatalf("capd serve ended with %v: %s", err, r.log.String())
	}
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("SCRATCH"), "log"), []byte(r.log.String()), 0o600))
	for _, pattern := range []string{ts.Getenv("STATE") + "/*.sock", ts.MkAbs(".") + "/.capd-*", ts.MkAbs(".") + "/*/.capd-*"} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			ts.Fatalf("it left %q", left)
		}
	}
}

func scriptKill(ts *testscript.TestScript, _ bool, _ []string) {
	r := lastRun(ts)
	ts.Check(r.host.Process.Kill())
	r.host.Wait()
}

// scriptExec runs capd and remembers its output. "<FILE" is its input, and ">FILE" is where its output goes.
func scriptExec(ts *testscript.TestScript, _ bool, args []string) {
	r := lastRun(ts)
	path := filepath.Join(filepath.SplitList(ts.Getenv("PATH"))[0], "capd")
	var keep []string
	var in, to string
	for _, a := range args {
		switch {
		case strings.HasPrefix(a, "<"):
			in = a[1:]
		case strings.HasPrefix(a, ">"):
			to = a[1:]
		default:
			keep = append(keep, a)
		}
	}
	cmd := exec.Command(path, keep...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = []string{"NO_COLOR=1", "HOME=" + ts.Getenv("SCRATCH"), "XDG_STATE_HOME=" + ts.Getenv("XDG_STATE_HOME"), "CAPD_CAP=" + ts.Getenv("CAPD_CAP"), "CAPD_TURN=" + ts.Getenv("CAPD_TURN"), endsAtOnce}
	if in != "" {
		b, err := os.ReadFile(ts.MkAbs(in))
		ts.Check(err)
		cmd.Stdin = bytes.NewReader(b)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		ts.Check(err)
	}
	r.out, r.errs, r.code = out.String(), errs.String(), cmd.ProcessState.ExitCode()
	if loc := locatorText.FindString(r.out); loc != "" {
		r.caps = append(r.caps, loc)
	}
	if to == "" {
		to = "out"
	}
	ts.Check(os.WriteFile(ts.MkAbs(filepath.Join(ts.Getenv("SCRATCH"), to)), out.Bytes(), 0o600))
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("SCRATCH"), "err"), errs.Bytes(), 0o600))
	ts.Logf("[%d] %s%s", r.code, head(r.out), r.errs)
}

func head(s string) string { return s[:min(len(s), 2000)] }

var refusal = regexp.MustCompile(`^capd: ([a-zA-Z]+): [^\n]+\n$`)

func scriptRefused(ts *testscript.TestScript, _ bool, args []string) {
	r := lastRun(ts)
	m := refusal.FindStringSubmatch(r.errs)
	if r.code != 1 || m == nil || m[1] != args[0] || r.out != "" {
		ts.Fatalf("it ended with %d, said %q and printed %q; want 1 and capd: %s: …", r.code, r.errs, head(r.out), args[0])
	}
	if len(args) == 1 {
		scriptSecretive(ts, false, nil)
	}
}

func scriptUsage(ts *testscript.TestScript, _ bool, _ []string) {
	if r := lastRun(ts); r.code != 2 || !strings.HasPrefix(r.errs, "capd: usage: ") {
		ts.Fatalf("it ended with %d and said %q; want 2 and capd: usage: …", r.code, r.errs)
	}
}

func scriptSecretive(ts *testscript.TestScript, _ bool, _ []string) {
	r := lastRun(ts)
	hidden := []string{ts.Getenv("STATE"), ".sock", ts.MkAbs("."), "capnp://"}
	for _, loc := range r.caps {
		hidden = append(hidden, loc[strings.LastIndexAny(loc, "/#?=@:")+1:])
	}
	for _, h := range hidden {
		if h != "" && strings.Contains(r.errs, h) {
			ts.Fatalf("it said %q, which names %q", r.errs, h)
		}
	}
}

func scriptLocator(ts *testscript.TestScript, _ bool, args []string) {
	r := lastRun(ts)
	loc := strings.TrimSuffix(r.out, "\n")
	if len(args) > 1 { // of --json
		loc = locatorText.FindString(r.out)
	}
	if r.code != 0 || locatorText.FindString(loc) != loc || loc == "" {
		ts.Fatalf("it ended with %d and printed %q, which is no locator: %s", r.code, r.out, r.errs)
	}
	ts.Setenv(args[0], loc)
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("SCRATCH"), args[0]), []byte(loc+"\n"), 0o600))
}

func scriptKeys(ts *testscript.TestScript, _ bool, want []string) {
	var all []map[string]any
	text := lastRun(ts).out
	if strings.HasPrefix(text, "{") {
		text = "[" + text + "]"
	}
	ts.Check(json.Unmarshal([]byte(text), &all))
	for _, o := range all {
		for _, key := range want {
			if _, there := o[strings.TrimSuffix(key, "?")]; !there && !strings.HasSuffix(key, "?") {
				ts.Fatalf("%v has no %s", o, key)
			}
		}
		for key := range o {
			if !bytes.Contains([]byte(" "+strings.ReplaceAll(strings.Join(want, " "), "?", "")+" "), []byte(" "+key+" ")) {
				ts.Fatalf("%v has %s, which nobody asked for", o, key)
			}
		}
	}
	if len(all) == 0 {
		ts.Fatalf("there is nothing in %q", text)
	}
}

// valueAt returns what is at .a.0.b of the last command's output.
func valueAt(ts *testscript.TestScript, path string) (v any) {
	ts.Check(json.Unmarshal([]byte(lastRun(ts).out), &v))
	for key := range strings.SplitSeq(strings.TrimPrefix(path, "."), ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[key]
		case []any:
			i, err := strconv.Atoi(key)
			if ts.Check(err); i >= len(in) {
				ts.Fatalf("%s: there are %d", path, len(in))
			}
			v = in[i]
		default:
			ts.Fatalf("there is nothing at %s", path)
		}
	}
	return v
}

func scriptPath(ts *testscript.TestScript, _ bool, args []string) {
	o, _ := valueAt(ts, args[0]).(map[string]any)
	have, want := slices.Sorted(maps.Keys(o)), slices.Sorted(slices.Values(args[1:]))
	if !slices.Equal(have, want) {
		ts.Fatalf("%s has %q, want %q", args[0], have, want)
	}
}

func scriptIs(ts *testscript.TestScript, _ bool, args []string) {
	if have, err := json.Marshal(valueAt(ts, args[0])); err != nil || string(have) != args[1] {
		ts.Fatalf("%s is %s, want %s", args[0], have, args[1])
	}
}

func scriptBytes(ts *testscript.TestScript, _ bool, args []string) {
	n, ok := map[string]int{"20M": 20 << 20, "1M+1": 1<<20 + 1, "800": 800}[args[1]]
	if !ok {
		ts.Fatalf("how many bytes are %q?", args[1])
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>12)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o644))
}

func scriptOdd(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Setenv("ESC", "\x1b")
	for _, name := range []string{"\x1b[31mred", "bell\x07", "two\nlines", "\u202eturned", "back\x08"} {
		ts.Check(os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	ts.Check(os.Symlink("f", filepath.Join(dir, "in")))
	ts.Check(os.Symlink(ts.MkAbs("in"), filepath.Join(dir, "out")))
}
