package tests

import (
	"flag"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// ownMountsVar is set in the process with its own mount namespace, to the directory
// of the program that was built.
const ownMountsVar = "CAPD_TESTS_OWN_MOUNTS"

// attacks counts for every TestAttack….
var attacks tally

// tally is the result of each suite of attacks, by the name of its test.
type tally struct {
	mu     sync.Mutex
	suites map[string]toll
}

// toll is the result of attacks.
type toll struct {
	cases, names int64 // cases that were set up, and the names tried there
	tries        int64 // operations on names
	behind       int64 // of these, those on names that could not be opened: they show no more than the open does
	escapes      int64
	hangs        int64
}

func (a toll) plus(b toll) toll {
	return toll{a.cases + b.cases, a.names + b.names, a.tries + b.tries, a.behind + b.behind, a.escapes + b.escapes, a.hangs + b.hangs}
}

func (a toll) String() string {
	return fmt.Sprintf("%d cases with %d names; %d tries, and %d on what an open had refused; %d escapes, %d hangs",
		a.cases, a.names, a.tries-a.behind, a.behind, a.escapes, a.hangs)
}

// tollLine is the format of String.
const tollLine = "%d cases with %d names; %d tries, and %d on what an open had refused; %d escapes, %d hangs"

func parseToll(line string) (a toll, err error) {
	_, err = fmt.Sscanf(line, tollLine, &a.cases, &a.names, &a.tries, &a.behind, &a.escapes, &a.hangs)
	a.tries += a.behind
	return a, err
}

func (c *tally) add(t testing.TB, more toll) {
	suite, _, _ := strings.Cut(t.Name(), "/")
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.suites == nil {
		c.suites = map[string]toll{}
	}
	c.suites[suite] = c.suites[suite].plus(more)
}

// tried counts one try. behind means that its name could not be opened.
func (c *tally) tried(t testing.TB, behind bool) {
	one := toll{tries: 1}
	if behind {
		one.behind = 1
	}
	c.add(t, one)
}

func (c *tally) escape(t testing.TB) { c.add(t, toll{escapes: 1}) }

const attackCases = "attack cases: "

func (c *tally) report() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all toll
	for _, t := range c.suites {
		all = all.plus(t)
	}
	if all.tries > 0 {
		fmt.Println(attackCases + all.String())
	}
}

// fewest is the least that each suite must try on Linux. Tries behind a refused
// open do not count.
var fewest = map[string]toll{
	"TestAttackAuthority":   {cases: 7, names: 7, tries: 300},
	"TestAttackCommits":     {cases: 2, names: 22, tries: 26},
	"TestAttackConfinement": {cases: 9, names: 16, tries: 112},
	"TestAttackDeny":        {cases: 11, names: 27, tries: 157},
	"TestAttackLinks":       {cases: 15, names: 49, tries: 269},
	"TestAttackMounts":      {cases: 5, names: 15, tries: 98},
	"TestAttackMoves":       {cases: 13, names: 22, tries: 48},
	"TestAttackNames":       {cases: 17, names: 26, tries: 229},
	"TestAttackPaths":       {cases: 127, names: 6900, tries: 13900},
	"TestAttackRaces":       {cases: 11, names: 11, tries: 58},
	"TestAttackTypes":       {cases: 10, names: 11, tries: 80},
}

// missing returns the suites that have tried less than they should, among those
// that the command line selects.
func (c *tally) missing() (all []string) {
	if runtime.GOOS != "linux" || flag.Lookup("test.list").Value.String() != "" {
		return nil
	}
	run, skip := flag.Lookup("test.run").Value.String(), flag.Lookup("test.skip").Value.String()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(fewest)) {
		if run != "" && (strings.Contains(run, "/") || !regexp.MustCompile(run).MatchString(name)) ||
			skip != "" && regexp.MustCompile(skip).MatchString(name) {
			continue
		}
		want, have := fewest[name], c.suites[name]
		if have.cases < want.cases || have.names < want.names || have.tries-have.behind < want.tries {
			all = append(all, fmt.Sprintf("%s: %v; want at least %d cases with %d names, and %d tries", name, have, want.cases, want.names, want.tries))
		}
	}
	return all
}
