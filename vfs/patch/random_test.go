package patch_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"capd/vfs/patch"
	"capd/vfs/unified"
)

// diffOf returns how f becomes b from a, as the tools of capd write it; "" if that is no text.
func diffOf(a, b []byte) string {
	text, whole := unified.Format(
		unified.Side{Path: "f", Mode: unified.File, Data: a}, unified.Side{Path: "f", Mode: unified.File, Data: b}, unified.InPlace, false)
	if !whole || strings.Contains(text, "\nGIT binary patch\n") {
		return ""
	}
	return text
}

// roundTrip checks that the difference of a and b makes b of a, and its reverse a of b.
func roundTrip(t *testing.T, a, b []byte) {
	t.Helper()
	text := diffOf(a, b)
	if text == "" || bytes.Equal(a, b) {
		return
	}
	got, err := tree{"f": string(a)}.apply(text, false)
	if err != nil || got["f"] != string(b) {
		t.Fatalf("%q to %q: %q, %v\n%s", a, b, got, err, text)
	}
	got, err = tree{"f": string(b)}.apply(text, true)
	if err != nil || got["f"] != string(a) {
		t.Fatalf("back from %q to %q: %q, %v\n%s", b, a, got, err, text)
	}
}

// content returns a few lines of a few words, so that many are equal.
func content(r *rand.Rand) []byte {
	var b []byte
	for range r.IntN(30) {
		b = append(b, []string{"a", "b", "", "+a", "-b", "\\ c", "--- a/f", "+++ b/f", "@@ -1 +1 @@", "-- ", " ", "*** End Patch", "\xef\xbb\xbfa"}[r.IntN(13)]...)
		b = append(b, []string{"\n", "\n", "\n", "\r\n", "\r\r\n"}[r.IntN(5)]...)
	}
	if r.IntN(3) == 0 {
		b = bytes.TrimSuffix(b, []byte("\n"))
	}
	return b
}

// edited returns b with a few lines changed.
func edited(r *rand.Rand, b []byte) []byte {
	lines := bytes.SplitAfter(b, []byte("\n"))
	var out []byte
	for _, l := range lines {
		switch r.IntN(8) {
		case 0:
			out = append(out, content(r)...)
		case 1:
			continue
		}
		out = append(out, l...)
	}
	return out
}

func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	rounds := 500
	if os.Getenv("CAPD_CI") != "" {
		rounds = 20_000
	}
	for range rounds {
		a := content(r)
		roundTrip(t, a, edited(r, a))
	}
}

// TestRandomLikeGit compares with git apply: what git takes has the same result here.
func TestRandomLikeGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CAPD_CI") != "" {
			t.Fatal("git is missing")
		}
		t.Skip("git is not installed")
	}
	r := rand.New(rand.NewPCG(3, 4))
	cases := 30
	if os.Getenv("CAPD_CI") != "" {
		cases = 1000
	}
	took, both := 0, 0
	for i := range cases {
		dir := t.TempDir()
		a := content(r)
		b := edited(r, a)
		text := diffOf(a, b)
		if text == "" || bytes.Equal(a, b) {
			continue
		}
		at := a
		if r.IntN(2) == 0 { // somebody has changed it meanwhile
			at = edited(r, a)
		}
		name := filepath.Join(dir, "f")
		if err := os.WriteFile(name, at, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("git", "apply", "--whitespace=nowarn", "-")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(text)
		out, failed := cmd.CombinedOutput()
		gits, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := tree{"f": string(at)}.apply(text, false)
		switch {
		case failed != nil:
			if bytes.Equal(at, a) {
				t.Fatalf("case %d: git does not take its own diff: %s", i, out)
			}
		case err == nil && ours["f"] != string(gits):
			// git takes the place nearest to the line number where several fit.
			t.Errorf("case %d: %q\n%s: git has %q, and this %q", i, at, text, gits, ours["f"])
		case err != nil && !strings.Contains(fmt.Sprint(err), "several places"):
			t.Errorf("case %d: %q\n%s: git has %q, and this %v", i, at, text, gits, err)
		case err == nil:
			both++
		}
		took++
	}
	t.Logf("%d random patches, %d taken by both with the same result", took, both)
}

func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("a\nb\n"), []byte("a\nc"))
	f.Add([]byte("a\r\nb\n"), []byte("\xef\xbb\xbfa\n"))
	f.Fuzz(roundTrip)
}

// FuzzApply applies any text to any content, both ways: it may only fail with a code.
func FuzzApply(f *testing.F) {
	f.Add([]byte(hunk("@@ -1 +1 @@", "-a", "+b")), []byte("a\n"))
	f.Add([]byte(v4a("*** Update File: f", "@@ a", " a", "-b", "*** End of File")), []byte("a\r\nb"))
	f.Add([]byte(git+"rename from f\nrename to g\n"), []byte("a"))
	f.Fuzz(func(t *testing.T, text, data []byte) {
		p, err := patch.Parse(text)
		if err != nil {
			return
		}
		for range 2 {
			_, _ = p.Apply(tree{"f": string(data)}.read)
			if p, err = p.Reverse(); err != nil {
				return
			}
		}
	})
}
