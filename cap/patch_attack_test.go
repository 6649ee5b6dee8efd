package cap_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"capd/client"
	"capd/host"
	"capd/operator"
	"capd/policy"
	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// partOf returns what changes, makes or removes a file in a patch, and the rights that it needs there.
func partOf(r *rand.Rand, path, text string) (part string, needs []membrane.Rights) {
	switch r.IntN(3) {
	case 0:
		return fmt.Sprintf("--- a/%s\n+++ b/%[1]s\n@@ -1 +1 @@\n-%s\n\\ No newline at end of file\n+patched\n", path, text), []membrane.Rights{client.Read, client.Write}
	case 1:
		return fmt.Sprintf("--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+made\n", path), []membrane.Rights{client.Write}
	}
	return fmt.Sprintf("--- a/%s\n+++ /dev/null\n@@ -1 +0,0 @@\n-%s\n\\ No newline at end of file\n", path, text), []membrane.Rights{client.Read, client.Delete}
}

// TestPatchIsNoWayAround: whatever is granted and whatever the rules are, a patch does only what the guest may do at each of its paths.
// One that is refused leaves everything as it was, also if what it has made may not be read or removed there.
func TestPatchIsNoWayAround(t *testing.T) {
	rounds := 30
	if os.Getenv("CAPD_CI") != "" {
		rounds = 400
	}
	r := rand.New(rand.NewPCG(3, 4))
	seen := map[vfs.Code]int{}
	texts := map[string]string{"p/a": "a", "p/d/b": "b", "p/d/c/e": "e", "p/.env": "secret", "p/keys/.env": "secret", "p/.git/config": "c", "ro/c": "c", "q/f": "f"}
	paths := []string{"p/a", "p/d/b", "p/d/c/e", "p/.env", "p/keys/.env", "p/.git/config", "p/new", "p/d/new", "p/fresh/new", "p/to", "p/a/b", "p/empty", "ro/c", "ro/new", "q/f", "q/new"}
	for range rounds {
		x, book := newExplained(t), &policy.Book{}
		s := scene.Serve(t, x.names.Root(), scene.Options{Policy: book, Desk: true, Options: host.Options{Logf: t.Logf}})
		ok(t, book.Set(randomRules(r), nil))
		_, secret, err := s.Authority.GrantOn(t.Context(), "agent", "", operator.Terms{Rights: randomRights(r)})
		ok(t, err)
		loc := s.At
		loc.Secret = secret
		c := scene.Dial(t, loc)
		d := c.Dir(t.Context())
		for range 12 {
			var text strings.Builder
			dry := r.IntN(4) == 0
			refused := ""
			for _, i := range r.Perm(len(paths))[:1+r.IntN(3)] {
				path := paths[i]
				part, needs := partOf(r, path, texts[path])
				text.WriteString(part)
				for _, right := range needs {
					got, err := d.Explain(t.Context(), right, path, "")
					ok(t, err)
					if notFound := strings.Contains(fmt.Sprint(got.Reasons), "notFound"); (!got.Allowed || got.Asks) && !notFound && !dry {
						refused += fmt.Sprintf("%v of %s: %q; ", right, path, got.Reasons)
					}
				}
			}
			if r.IntN(3) == 0 { // for which there is no room
				text.WriteString("--- /dev/null\n+++ b/q/more\n@@ -0,0 +1 @@\n+made\n")
			}
			before := dump(t, x.names.Root()) + dump(t, x.open)
			files, err := d.Patch(t.Context(), []byte(text.String()), client.PatchOptions{DryRun: dry})
			after := dump(t, x.names.Root()) + dump(t, x.open)
			seen[vfs.CodeOf(err)]++
			if err == nil && refused != "" {
				t.Errorf("the guest may not %s, and this was done:\n%s%v", refused, text.String(), files)
			}
			if err != nil && after != before {
				t.Errorf("%v, and the tree was changed from\n%s to\n%s\nby\n%s", err, before, after, text.String())
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("a guest is told %v", err)
			}
		}
		c.Close()
	}
	t.Log(seen)
	for _, code := range []vfs.Code{"", vfs.Denied, vfs.ReadOnly, vfs.NotFound, vfs.AskDenied, vfs.Quota, vfs.Exists} {
		if seen[code] == 0 {
			t.Errorf("nothing was answered %q", code)
		}
	}
}

// TestPatchTellsNothing: what a guest may not look at answers a patch as what is not there does.
func TestPatchTellsNothing(t *testing.T) {
	x := newExplained(t)
	s := scene.Serve(t, x.names.Root(), scene.Options{Options: host.Options{Logf: t.Logf}})
	at, _ := s.Grant(t, "agent", "p", false)
	d := scene.Dial(t, at).Dir(t.Context())
	told := func(d *client.Dir, text string) string {
		_, err := d.Patch(t.Context(), []byte(text), client.PatchOptions{DryRun: true})
		return fmt.Sprint(err)
	}
	for _, text := range []string{"*** Update File: %s\n-secret\n+s", "*** Update File: %s\n-other\n+s", "*** Add File: %s\n+s", "*** Delete File: %s"} {
		text = "*** Begin Patch\n" + text + "\n*** End Patch\n"
		there, not := told(d, fmt.Sprintf(text, "keys/.env")), told(d, fmt.Sprintf(text, "d/c/.env"))
		if there != strings.ReplaceAll(not, "d/c/.env", "keys/.env") || !strings.Contains(there, "denied") {
			t.Errorf("%q: of what is there and withheld it is told %q, and of what is not there %q", text, there, not)
		}
		// Without the right to read, a patch does not compare.
		blind := d.Narrow(client.AllRights &^ client.Read)
		right, wrong := told(blind, fmt.Sprintf(strings.ReplaceAll(text, "secret", "a"), "a")), told(blind, fmt.Sprintf(text, "a"))
		if right != wrong || !strings.Contains(right, "denied") {
			t.Errorf("%q: one that may not read is told %q and %q", text, right, wrong)
		}
	}
}

// TestPatchTakesBack: a patch for which there is no room at its last file leaves nothing, although a rule would ask about, or deny,
// every call that takes back what it has made.
func TestPatchTakesBack(t *testing.T) {
	text := "*** Begin Patch\n*** Update File: p/a\n-a\n+A\n*** Add File: p/fresh/new\n+made\n*** Add File: p/new\n+made\n*** Add File: q/more\n+made\n*** End Patch\n"
	for _, effect := range []operator.RuleEffect{operator.RuleDeny, operator.RuleAsk} {
		for _, operation := range []string{"read", "list", "delete", "move", "metadata"} {
			x, book := newExplained(t), &policy.Book{}
			s := scene.Serve(t, x.names.Root(), scene.Options{Policy: book, Desk: true, Options: host.Options{Logf: t.Logf}})
			ok(t, book.Set(policy.Rules{Rules: []operator.Rule{{Effect: effect, Patterns: []string{"**/new"}, Operations: []string{operation}, Source: "test"}}}, nil))
			_, secret, err := s.Authority.GrantOn(t.Context(), "agent", "", operator.Terms{})
			ok(t, err)
			loc := s.At
			loc.Secret = secret
			c := scene.Dial(t, loc)
			before := dump(t, x.names.Root()) + dump(t, x.open)
			_, err = c.Dir(t.Context()).Patch(t.Context(), []byte(text), client.PatchOptions{})
			check.Is(t, fmt.Sprint(effect, " ", operation), err, vfs.Quota)
			if after := dump(t, x.names.Root()) + dump(t, x.open); after != before {
				t.Errorf("%v %s: the tree was changed from\n%s to\n%s", effect, operation, before, after)
			}
			c.Close()
		}
	}
}
