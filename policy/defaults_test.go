package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"capd/operator"
	"capd/policy"
	"capd/vfs"
	"capd/vfs/membrane"
)

// The table of docs/roots.md.
const table = `
root               core  person  agent-run                            extension                            automation
workspace          all   all     all                                  read,list,metadata                   read,list,metadata
extension-storage  all   all     none                                 own:all                              none
artifact           all   all     read,write,list,watch,metadata       read,write,list,watch,metadata       read,write,list,watch,metadata
temp               all   all     own:all                              own:all                              own:all
knowledge          all   all     read,list,watch,metadata             read,list,watch,metadata             read,list,watch,metadata
downloads          all   all     own:read,write,list,metadata         own:read,write,list,metadata         own:read,write,list,metadata
secret             all   all     named:all                            named:all                            named:all
`

// cells calls each for every cell of the table.
func cells(t *testing.T, each func(root, subject, cell string)) {
	lines := strings.Split(strings.TrimSpace(table), "\n")
	kinds := strings.Fields(lines[0])[1:]
	if len(lines)-1 != len(operator.RootKinds()) || len(kinds) != len(operator.SubjectKinds()) {
		t.Fatalf("the table has %d roots and %d subjects", len(lines)-1, len(kinds))
	}
	for _, line := range lines[1:] {
		words := strings.Fields(line)
		for i, cell := range words[1:] {
			each(words[0], kinds[i], cell)
		}
	}
}

// TestRootKinds asks for each right by itself, for all kinds of subjects in all kinds of
// roots.
func TestRootKinds(t *testing.T) {
	asked := 0
	cells(t, func(kind, subject, cell string) {
		roots, err := policy.NewRoots([]operator.Root{{ID: "r", Kind: kind, Path: "a/r"}})
		if err != nil {
			t.Fatal(err)
		}
		how, rights, marked := strings.Cut(cell, ":")
		if !marked {
			rights = cell
		}
		most, err := membrane.ParseRights(rights)
		if err != nil {
			t.Fatal(err)
		}
		s := operator.Subject(subject + ":x")
		own := marked && how == "own"
		for bit := range 8 {
			right := membrane.Rights(1 << bit)
			for _, w := range []policy.Wanted{
				{Subject: s, Root: "r", Rights: right}, {Subject: s, Path: "a/r", Rights: right},
				{Subject: s, Path: "a/r/x", Rights: right}, {Subject: s, Path: "a", Rights: right},
			} {
				asked++
				path, made, err := roots.Find(w)
				mine := roots.All()[0].Own(s)
				if (made == mine) != (own && w.Root != "") && err == nil || made != "" && path != mine {
					t.Errorf("%s in %s: finds %q, and makes %q", s, kind, path, made)
				}
				got, id, again := roots.Admit(w, path)
				if vfs.CodeOf(again) != vfs.CodeOf(err) {
					t.Errorf("%s in %s: Find: %v, Admit: %v", s, kind, err, again)
				}
				may := most&right != 0
				if own {
					may = may && strings.HasPrefix(path, mine)
				}
				if how == "named" {
					may = may && w.Root != ""
				}
				what := fmt.Sprintf("%s for %s in %s at %q, named %v", right, s, kind, w.Path, w.Root != "")
				switch {
				case may && (err != nil || got != right || (id == "r") != (path != "a")):
					t.Errorf("%s: %s, in %q, %v; want it", what, got, id, err)
				case !may && vfs.CodeOf(err) != vfs.Denied:
					t.Errorf("%s: %s, %v; want denied", what, got, err)
				}
				w.Beyond = true
				if path, made, _ = roots.Find(w); made != "" {
					t.Errorf("%s, beyond: makes %q", what, made)
				}
				if got, _, err := roots.Admit(w, path); err != nil || got != right {
					t.Errorf("%s, beyond: %s, %v", what, got, err)
				}
			}
		}
	})
	t.Logf("%d grants", asked)
}
