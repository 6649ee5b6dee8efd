package policy_test

import (
	"slices"
	"strings"
	"testing"

	"capd/operator"
	"capd/policy"
)

// TestWithheld: a grant that holds roots does not see what the host has made there for others.
func TestWithheld(t *testing.T) {
	roots, err := policy.NewRoots([]operator.Root{
		{ID: "project", Kind: operator.Workspace, Path: "project"},
		{ID: "ext", Kind: operator.ExtensionStorage, Path: "var/ext"},
		{ID: "docs", Kind: operator.Knowledge, Path: "var/ext/docs"},
		{ID: "tmp", Kind: operator.Temp, Path: "var/tmp"},
		{ID: "dl", Kind: operator.Downloads, Path: "dl"},
		{ID: "keys", Kind: operator.Secret, Path: "keys"},
	})
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"var", "var/ext", "var/ext/a", "var/ext/docs/a", "var/ext/extension+lint/x", "var/tmp", "var/tmp/a/x", "var/tmp/b", "var/tmp/extension+lint", "dl/a", "dl/b/x", "keys", "keys/a", "project/a", "scopes/project/a", "x"}
	const extension, temp, downloads = "var/ext/a var/ext/extension+lint/x ", "var/tmp/a/x var/tmp/b var/tmp/extension+lint ", "dl/a dl/b/x "
	for _, c := range []struct{ subject, path, want string }{
		{"core:x", "", "scopes/project/a"},
		{"person:ada", "", "scopes/project/a"},
		{"a", "", "var/ext/a var/ext/extension+lint/x var/tmp/b var/tmp/extension+lint dl/b/x keys keys/a scopes/project/a"},
		{"extension:lint", "", "var/ext/a var/tmp/a/x var/tmp/b " + downloads + "keys keys/a scopes/project/a"},
		{"automation:n", "var", extension + temp},
		{"automation:n", "var/ext", ""}, // it stands there, so the operator has said so
		{"a", "var/tmp", ""},
		{"a", "var/tmp/b", ""},
		{"a", "project", ""},
	} {
		subject, err := operator.ParseSubject(c.subject)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, path := range all {
			at := roots.Withheld(subject, c.path)
			if at == nil {
				break
			}
			for name := range strings.SplitSeq(path, "/") {
				at = at.Step(name)
			}
			if at.Matched() {
				got = append(got, path)
			}
		}
		if want := strings.Fields(c.want); !slices.Equal(got, want) {
			t.Errorf("%s at %q does not see %q, want %q", c.subject, c.path, got, want)
		}
	}
}
