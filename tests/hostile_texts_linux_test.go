package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"capd/client"
	"capd/vfs/patch"
)

// hostileText is a text of a guest that costs much where it is handled without care. want is the code of the answer.
type hostileText struct{ name, text, want string }

// hostileExpressions are for grep. Those that backtrack take exponential time in other programs; the others make automata large.
var hostileExpressions = []hostileText{
	{"nested plus", `(a+)+$`, "ok"},
	{"nested plus, b at the end", `^(a+)+b$`, "ok"},
	{"overlapping alternatives", `(a|a)*b`, "ok"},
	{"overlapping lengths", `(a|aa)+b$`, "ok"},
	{"nested stars", `((a*)*)*b`, "ok"},
	{"stars side by side", strings.Repeat("a*", 400) + "b", "ok"},
	{"optional, then as many", strings.Repeat("a?", 300) + strings.Repeat("a", 300), "ok"},
	{"lazy stars", strings.Repeat(".*?", 100) + "=", "ok"},
	{"dots", `(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)[^a-z ]`, "ok"},
	{"an address", `^([a-zA-Z0-9])(([\-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+[.]{1}(([a-z]{2,3})|([a-z]{2,3}[.]{1}[a-z]{2,3}))$`, "ok"},
	{"many states", `(a|b)*a(a|b){14}c`, "ok"},
	{"many states, any character", `.*a.{30}b.{30}c`, "ok"},
	{"many sets of states", strings.Repeat("(.{0,20}b)", 12) + "c", "ok"},
	{"empty alternatives", `(|a)+(|b)+(||c)*d`, "ok"},
	{"word boundaries", `(\b\w+\b\W*)*\bz\b`, "ok"},
	{"classes of all letters", strings.Repeat(`\pL`, 60) + `\pN`, "ok"},
	{"ignoring case", `(?i)(k|s|` + "\u212a|\u017f" + `)*q{300}`, "ok"},
	{"many alternatives", strings.Repeat("a|b|ab|", 140) + "c", "ok"},
	{"a count", `(a{900}b?)`, "ok"},
	{"a count that is too large", `a{1000}b`, "invalid"},
	{"a count that RE2 does not take", `a{1001}`, "invalid"},
	{"a very large count", `a{999999999999999999999}`, "invalid"},
	{"counts of counts", `((a{100}){100}){100}`, "invalid"},
	{"counts of options", `((a?){50}b?){50}`, "invalid"},
	{"counts of nothing", `((){1000}){1000}`, "invalid"},
	{"counts of ranges", `(.{1,300}){1,300}`, "invalid"},
	{"parentheses", strings.Repeat("(", 500) + strings.Repeat(")", 500), "ok"},
	{"open parentheses", strings.Repeat("(", 1000), "invalid"},
	{"open brackets", strings.Repeat("[", 1000), "invalid"},
	{"a backreference", `(a*)*\1`, "invalid"},
	{"a look ahead", `(?=(a+))a*b`, "invalid"},
	{"a break of lines", `(\n*)*a`, "invalid"},
	{"too long", strings.Repeat("(a*)", 257), "limit"},
}

// hostileRules are ignore files. One that does not count is among what was missed.
var hostileRules = []hostileText{
	{"asterisks", strings.Repeat("*a", 2000) + "b", "ok"},
	{"asterisks and marks", strings.Repeat("*?", 2000) + "b", "ok"},
	{"deep double asterisks", strings.Repeat("**/", 5000) + "b", "ok"},
	{"deep double asterisks and names", strings.Repeat("*/**/", 3000) + "b", "ok"},
	{"double asterisks between names", strings.Repeat("**/a*/", 2000) + "b", "ok"},
	{"asterisks in paths", strings.Repeat("*a*/", 2000) + "**/b", "ok"},
	{"asterisks without end", strings.Repeat("*", 1_000_000), "ok"},
	{"sets", strings.Repeat("*[!b]", 2000) + "b", "ok"},
	{"open brackets", strings.Repeat("[", 500_000), "ok"},
	{"classes", strings.Repeat("[[:alpha:]]*", 2000) + "b", "ok"},
	{"slashes", strings.Repeat("/", 500_000), "ok"},
	{"backslashes", strings.Repeat(`\`, 500_001), "ok"},
	{"taken back and again", strings.Repeat("a*\n!a*\n", 4000), "ok"},
	{"many rules", strings.Repeat("*a*a*b\n", 50_000), "limit"},
	{"many empty lines", strings.Repeat("\n", 1<<20), "ok"},
	{"more than counts", strings.Repeat("#", 8<<20), "tooLarge"},
}

// hostileGlobs are patterns of paths.
var hostileGlobs = []hostileText{
	{"asterisks", strings.Repeat("*a", 500) + "b", "ok"},
	{"deep double asterisks", strings.Repeat("**/", 100) + "b", "ok"},
	{"deeper double asterisks", strings.Repeat("**/", 1000) + "b", "limit"},
	{"double asterisks between names", strings.Repeat("**/a*/", 50) + "b", "ok"},
	{"asterisks in every name", "**/" + strings.Repeat("*a*a*a*/", 100) + "b", "ok"},
	{"braces of braces", strings.Repeat("{a,b}", 40), "invalid"},
	{"nested braces", strings.Repeat("{a,", 500) + strings.Repeat("}", 500), "invalid"},
	{"open brackets", strings.Repeat("[", 5000), "limit"},
	{"a long name", strings.Repeat("?", 1<<20), "limit"},
}

// hostilePatches are applied to f, which has 100,000 equal lines and one that ends them.
func hostilePatches() []hostileText {
	unified := func(lines string) string { return "--- a/f\n+++ b/f\n" + lines }
	v4a := func(lines string) string {
		return "*** Begin Patch\n*** Update File: f\n" + lines + "\n*** End Patch\n"
	}
	fill := func(s string) string { return strings.Repeat(s, patch.MaxBytes/len(s)-100) }
	files := func(n int) string { return strings.Repeat("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n", n) }
	long := strings.Repeat(" a\n", 1000)
	return []hostileText{
		{"4 MiB of hunk headers", unified(fill("@@ -1 +1 @@\n")), "invalid"},
		{"4 MiB of headers of files", fill("--- a/f\n+++ b/f\n"), "invalid"},
		{"4 MiB of git's headers", fill("diff --git a/f b/f\n"), "invalid"},
		{"4 MiB of V4A headers", "*** Begin Patch\n" + fill("*** Update File: f\n") + "*** End Patch\n", "invalid"},
		{"4 MiB of V4A hunks", v4a(fill("@@ the function that it is in\n")), "invalid"},
		{"4 MiB of text before it", fill("nothing of a patch\n"), "invalid"},
		{"one line of 4 MiB", unified("@@ -1 +1 @@\n-" + fill("a") + "\n+b\n"), "conflict"},
		{"too much of it", unified(strings.Repeat("a", patch.MaxBytes)), "tooLarge"},
		{"one line at 100,000 places", unified("@@ @@\n-a\n+b\n"), "conflict"},
		{"the same, from V4A", v4a("@@\n-a\n+b"), "conflict"},
		{"many hunks at 100,000 places", unified(strings.Repeat("@@ @@\n-a\n+b\n", 20_000)), "conflict"},
		{"long hunks at 100,000 places", unified(strings.Repeat("@@ @@\n"+long+"-b\n+c\n", 200)), "conflict"},
		{"hunks that almost match", unified("@@ @@\n" + strings.Repeat(" a\n", 50_000) + "-z\n+c\n"), "conflict"},
		{"hunks below equal lines", v4a(strings.Repeat("@@ a\n-b\n+c\n", 20_000) + "@@ a\n-b"), "conflict"},
		{"empty lines", unified("@@ @@\n" + strings.Repeat("\n", 500_000)), "invalid"},
		{"more lines than it may have", unified("@@ @@\n" + fill("\n")), "limit"},
		{"large numbers", unified("@@ -99999999999999999999,99999999999999999999 +99999999999999999999,9 @@\n-z\n+b\n"), "conflict"},
		{"large counts", unified("@@ -1,2147483647 +1,2147483647 @@\n-z\n+b\n"), "conflict"},
		{"numbers below 0", unified("@@ --1,-1 +-1,-1 @@\n-z\n+b\n"), "conflict"},
		{"more files than it may have", files(1001), "limit"},
		{"more hunks than it may have", unified(strings.Repeat("@@ @@\n-a\n+b\n", 50_001)), "limit"},
		{"a deep path", "--- a/" + strings.Repeat("d/", 500_000) + "f\n+++ b/" + strings.Repeat("d/", 500_000) + "f\n@@ -1 +1 @@\n-a\n+b\n", "limit"},
		{"names in octal", "--- \"a/" + fill(`\101`) + "\"\n+++ \"b/f\"\n@@ -1 +1 @@\n-a\n+b\n", "ok"}, // the second name counts
		{"a name that leads out", "--- a/../../x\n+++ b/../../x\n@@ -1 +1 @@\n-a\n+b\n", "invalid"},
	}
}

// mostForTexts is far above what a host needs beside the texts that it is sent, in MiB.
const mostForTexts = 512

// promptForTexts is how long the host may take for one text. Under the race detector it takes about ten times as long as without.
func promptForTexts() time.Duration {
	if raceBuilt {
		return 10 * prompt
	}
	return prompt
}

// A guest sends texts that are hostile to whoever matches or parses them. Each is answered or refused, with the code that it should
// have, while the host is alive and has bounded memory. The time is only to notice what would never end.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	h := serve(t)
	plantHostile(t, h.served)
	d := dial(t, h.locator).Dir(t.Context()).SubDir("project")
	peakOf := func() int { return statusOf(h.pid(), "VmHWM") >> 10 }
	counts, answered, refused := map[string]int{}, 0, 0
	try := func(kind string, all []hostileText, ask func(ctx context.Context, text string) error) {
		for _, c := range all {
			ctx, cancel := context.WithTimeout(t.Context(), promptForTexts())
			begun := time.Now()
			err := ask(ctx, c.text)
			if hung := ctx.Err() != nil; hung {
				t.Errorf("%s, %s: there was no answer in %v", kind, c.name, promptForTexts())
			}
			cancel()
			t.Logf("%s, %s: %v, %d MiB, %.100v", kind, c.name, time.Since(begun).Round(time.Millisecond), peakOf(), err)
			counts[kind]++
			if is(t, kind+", "+c.name, err, c.want); err == nil {
				answered++
			} else {
				refused++
			}
		}
	}
	try("expressions", hostileExpressions, func(ctx context.Context, text string) (failed error) {
		for _, err := range d.Grep(ctx, client.Grep{Path: "texts", Pattern: text, Show: client.GrepCounts}) {
			failed = err
		}
		return failed
	})
	try("ignore files", hostileRules, func(ctx context.Context, text string) (failed error) {
		ok(t, os.WriteFile(filepath.Join(h.served, "names", ".gitignore"), []byte(text), 0o644))
		names := d.SubDir("names")
		defer names.Close()
		for _, err := range names.Glob(ctx, "**/*", client.LeaveIgnored) {
			failed = err
		}
		_, err := names.Tree(ctx, "", client.TreeOptions{Leave: []client.Leave{client.LeaveIgnored}})
		if (err == nil) != (failed == nil) {
			t.Errorf("glob says %v, and tree %v", failed, err)
		}
		return failed
	})
	ok(t, os.Remove(filepath.Join(h.served, "names", ".gitignore")))
	try("globs", hostileGlobs, func(ctx context.Context, text string) (failed error) {
		for _, err := range d.SubDir("names").Glob(ctx, text) {
			failed = err
		}
		return failed
	})
	try("patches", hostilePatches(), func(ctx context.Context, text string) error {
		_, err := d.Patch(ctx, []byte(text), client.PatchOptions{DryRun: true})
		return err
	})
	peak := peakOf()
	if peak == 0 || peak > mostForTexts {
		t.Errorf("the host had %d MiB, want at most %d", peak, mostForTexts)
	}
	_, err := d.OpenFile("f").Stat(t.Context())
	is(t, "a look at a file afterwards", err, "ok")
	fmt.Printf("hostile texts: %d expressions, %d ignore files, %d globs, %d patches: %d answered, %d refused, 0 without an end; the host had at most %d MiB\n",
		counts["expressions"], counts["ignore files"], counts["globs"], counts["patches"], answered, refused, peak)
}

// plantHostile makes what the texts are matched against: lines that nearly match, long names in deep directories, and f.
func plantHostile(t *testing.T, dir string) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	random := make([]byte, 64<<10)
	for i := range random {
		random[i] = "ab"[r.IntN(2)]
	}
	a := strings.Repeat("a", 255)
	for name, text := range map[string]string{
		"texts/one line": strings.Repeat("a", 256<<10),
		"texts/lines":    strings.Repeat(strings.Repeat("a", 60)+"\n", 2000),
		"texts/random":   string(random),
		"texts/words":    strings.Repeat("foo bar_baz K\u017fs \u212a ", 4000),
		"f":              strings.Repeat("a\n", 100_000) + "b\n",
		"names/" + strings.Repeat("aaaaaaaaaa/", 100) + "a": "",
	} {
		ok(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		ok(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	for i := range 200 {
		name := fmt.Sprint(i, a)[:255]
		ok(t, os.WriteFile(filepath.Join(dir, "names", name), nil, 0o644))
	}
}
