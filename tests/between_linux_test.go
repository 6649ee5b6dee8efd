package tests

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"capd/client"
	"capd/client/console"
	"capd/vfs"
)

// TestKilledBetween runs testdata/killed against the real program. Beside the commands of [TestScripts] it has
//
//	world DIR      starts a host that serves DIR, and can be killed at any step
//	between ACT [A|B…]
//	               does something, in one of the ways A, B …, and kills the host after a step of it; if thorough it does so
//	               in each way, after every third of its steps, or after some for what an operator does
//	tally          prints how often hosts were killed, and what was not as it had been answered
func TestKilledBetween(t *testing.T) {
	t.Parallel()
	p := scripts(t, "killed")
	prepare := p.Setup
	p.Setup = func(e *testscript.Env) error {
		e.Values["world"] = &world{}
		return prepare(e)
	}
	maps.Copy(p.Cmds, map[string]func(*testscript.TestScript, bool, []string){"world": scriptWorld, "between": scriptBetween, "tally": scriptTally})
	testscript.Run(t, p)
}

// world is a host that is killed and started again, and what its guests and its operator were answered.
type world struct {
	*testscript.TestScript
	capd, dir, state string
	config, reloaded string // the configuration, and the guest that it has besides the first; "" for none
	host             *traced
	first            string // the locator that the first start printed

	works   map[string]string      // locators, by name, of what was granted and not taken back
	gone    map[string]string      // of what was taken back
	locked  map[string]string      // of what may not change anything
	decided map[string]string      // the answers to requests, by id
	changes map[string]func() bool // whether each change is there that was answered

	use, useOf string // the locator of a grant with a number of uses, and its name
	usesLeft   int
	n          int // for names

	kills, lost, undone, unrecorded int
}

func worldOf(ts *testscript.TestScript) *world { return ts.Value("world").(*world) }

func scriptWorld(ts *testscript.TestScript, _ bool, args []string) {
	w := worldOf(ts)
	*w = world{TestScript: ts, dir: ts.MkAbs(args[0]), state: ts.Getenv("STATE"),
		works: map[string]string{}, gone: map[string]string{}, locked: map[string]string{}, decided: map[string]string{},
		changes: map[string]func() bool{}}
	w.config = filepath.Join(ts.Getenv("SCRATCH"), "capd.yaml")
	w.configure()
	var err error
	w.capd, err = exec.LookPath(filepath.Join(filepath.SplitList(ts.Getenv("PATH"))[0], "capd"))
	ts.Check(err)
	w.start(0)
	w.first = locatorText.FindString(w.host.log.String())
	w.works["guest"] = w.first
	ts.Defer(func() { w.host.end() })
}

// start starts a host, which is killed after n steps unless n is 0, and reports whether it serves.
func (w *world) start(n int) bool {
	var err error
	w.host, err = startTraced(n, w.capd, "serve", "--config", w.config, "--state", w.state)
	w.Check(err)
	if w.host.serving() {
		return true
	}
	if step := w.host.end(); step == "" {
		w.Fatalf("capd serve ended: %s", w.host.log.String())
	}
	return false
}

// run runs capd, with a locator if it is for a guest.
func (w *world) run(loc, in string, args ...string) (out string, err error) {
	cmd := w.command(loc, args...)
	cmd.Stdin = strings.NewReader(in)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	b, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("capd %q: %w: %s", args, err, errs.String())
	}
	return strings.TrimSpace(string(b)), err
}

func (w *world) command(loc string, args ...string) *exec.Cmd {
	if loc == "" {
		args = append(args, "--state", w.state)
	}
	cmd := exec.Command(w.capd, args...)
	cmd.Env = []string{"NO_COLOR=1", "HOME=" + w.Getenv("SCRATCH"), "CAPD_CAP=" + loc, endsAtOnce}
	return cmd
}

// must runs capd for what an act needs.
func (w *world) must(loc string, args ...string) string {
	out, err := w.run(loc, "", args...)
	w.Check(err)
	return out
}

// name returns a new name.
func (w *world) name(of string) string {
	w.n++
	return fmt.Sprintf("%s%d", of, w.n)
}

// act is something that hosts are killed in. do reports whether it was answered. after tells what holds since then, when
// another host runs.
type act struct {
	do    func() (answered bool)
	after func(answered bool)
}

var acts = map[string]func(w *world, way string) act{
	"grant": (*world).grants, "share": (*world).shares, "use": (*world).uses, "revoke": (*world).revokes, "lock": (*world).locks,
	"ask": (*world).asks, "decide": (*world).decides, "change": (*world).makes, "start": (*world).starts,
	"operate": (*world).operates,
}

// maxSteps is more than any act has.
const maxSteps = 100

func scriptBetween(ts *testscript.TestScript, _ bool, args []string) {
	w := worldOf(ts)
	ways := []string{""}
	if len(args) > 1 {
		ways = strings.Split(args[1], "|")
	}
	switch {
	case !thorough:
		w.round(args[0], ways[rand.IntN(len(ways))], 1+rand.IntN(20))
	case args[0] == "operate": // each round costs a start with all that was mounted, so some steps must do
		for _, way := range slices.Concat(ways, ways, ways) {
			w.round(args[0], way, 1+rand.IntN(40))
		}
	default:
		for _, way := range ways {
			w.each(args[0], way)
		}
	}
}

// stride is how many steps lie between two kills. Which steps these are differs from run to run.
const stride = 3

// each kills a host after every third step of something.
func (w *world) each(name, way string) {
	first := 1 + rand.IntN(stride)
	for n := first; w.round(name, way, n) != ""; n += stride {
		if n >= maxSteps {
			w.Fatalf("%s %s has more than %d steps", name, way, maxSteps)
		}
	}
}

// round does something, kills the host after the nth step of that, starts another and compares. If there are fewer steps
// the host is killed after the answer, and the result is "".
func (w *world) round(name, way string, n int) (step string) {
	a := acts[name](w, way)
	var answered bool
	if name == "start" {
		w.host.end()
		answered = w.start(n)
	} else {
		w.Check(w.host.arm(n))
		answered = a.do()
		if answered && thorough && name == "change" {
			waitFor(1200*time.Millisecond, w.host.killed) // how it ended is written within a second
		}
	}
	step = w.host.end()
	w.kills++
	w.Logf("%s %s: killed after step %d: %s", name, way, n, step)
	if !w.start(0) {
		w.Fatalf("no host serves after %s", step)
	}
	a.after(answered)
	w.holds()
	return step
}

// holds compares what holds now with what was answered.
func (w *world) holds() {
	for name, loc := range w.works {
		if code := answers(w, loc); code != "" {
			w.lost++
			w.Logf("LOST: %s answers %s", name, code)
		}
	}
	for name, loc := range w.gone {
		if code := answers(w, loc); code != vfs.Revoked {
			w.undone++
			w.Logf("UNDONE: %s was revoked, and answers %q", name, code)
		}
	}
	for name, loc := range w.locked {
		if code := tryPut(w, loc, "locked", ""); code != vfs.ReadOnly {
			w.undone++
			w.Logf("UNDONE: %s was locked, and a put answers %q", name, code)
		}
	}
	for path, there := range w.changes {
		if !there() {
			w.lost++
			w.Logf("LOST: the change of %s", path)
		}
	}
	w.recorded()
}

// answers restores a locator, and returns the code of the error.
func answers(w *world, loc string) vfs.Code {
	ctx, stop := context.WithTimeout(context.Background(), 3*patience)
	defer stop()
	c, err := client.Dial(ctx, loc)
	w.Check(err)
	defer c.Close()
	n, err := c.Node(ctx)
	if err == nil {
		n.Close()
	}
	return vfs.CodeOf(err)
}

// tryPut puts a file, and returns the code of the error.
func tryPut(w *world, loc, path, content string) vfs.Code {
	ctx, stop := context.WithTimeout(context.Background(), 3*patience)
	defer stop()
	c, err := client.Dial(ctx, loc)
	w.Check(err)
	defer c.Close()
	_, err = c.Dir(ctx).Put(ctx, path, strings.NewReader(content), vfs.If{})
	return vfs.CodeOf(err)
}

func (w *world) console() (*console.Console, error) {
	return console.Dial(context.Background(), filepath.Join(w.state, "control.sock"))
}

func scriptTally(ts *testscript.TestScript, _ bool, _ []string) {
	w := worldOf(ts)
	w.host.end()
	w.must("", "state", "check")
	line := fmt.Sprintf("authority: killed %d times, %d lost, %d undone, %d unrecorded\n", w.kills, w.lost, w.undone, w.unrecorded)
	fmt.Print(line)
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("SCRATCH"), "out"), []byte(line), 0o600))
	if want := 12; w.kills < want {
		ts.Fatalf("killed %d times, want %d", w.kills, want)
	}
}

// has reports whether a file of the served directory has a content.
func (w *world) has(path, content string) bool {
	b, err := os.ReadFile(filepath.Join(w.dir, path))
	return err == nil && string(b) == content
}

func (w *world) exists(path string) bool {
	_, err := os.Lstat(filepath.Join(w.dir, path))
	return err == nil
}
