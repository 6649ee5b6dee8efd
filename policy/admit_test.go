package policy_test

import (
	"strings"
	"testing"

	"capd/operator"
	"capd/policy"
	"capd/vfs"
)

// TestAdmit grants what names no rights, and what holds roots.
func TestAdmit(t *testing.T) {
	roots, err := policy.NewRoots([]operator.Root{
		{ID: "project", Kind: operator.Workspace, Path: "project"},
		{ID: "docs", Kind: operator.Knowledge, Path: "project/docs"},
		{ID: "cache", Kind: operator.ExtensionStorage, Path: "var/cache"},
		{ID: "keys", Kind: operator.Secret, Path: "var/keys"},
		{ID: "out", Kind: operator.Artifact, Path: "out"},
	})
	if err != nil {
		t.Fatal(err)
	}
	const looks = "read,list,watch,metadata"
	for _, c := range []struct {
		subject, root, path string
		rights, in          string // or what the refusal says
	}{
		{"agent", "project", "", looks, "project"}, // docs lies in it
		{"agent", "project", "src", "all", "project"},
		{"agent", "", "project/src", "all", "project"},
		{"agent", "", "projects", "all", ""},
		{"agent", "docs", "a", looks, "docs"},
		{"agent", "", "project/docs/a", looks, "docs"},
		{"agent", "", "out", "read,write,list,watch,metadata", "out"},
		{"agent", "", "", "the root cache, which is not given to an agent-run as a part", ""},
		{"agent", "", "var/keys", "is given by its path; name the root", ""},
		{"agent", "keys", "", "read,write,delete,move,archive,watch,metadata", "keys"},
		{"agent", "keys", "a/b", "read,write,delete,move,archive,watch,metadata", "keys"},
		{"agent", "cache", "", "extension-storage, where an agent-run is given nothing", ""},
		{"extension:lint", "cache", "", "all", "cache"},
		{"extension:lint", "", "var/cache/extension+lint/x", "all", "cache"},
		{"extension:lint", "", "var/cache/extension+lint2", "a directory of its own; name the root", ""},
		{"extension:lint", "", "var/cache", "a directory of its own; name the root", ""},
		{"extension:lint", "", "var", "this holds the root", ""},
		{"person:ada", "", "var", "all", ""},
		{"person:ada", "keys", "", "read,write,delete,move,archive,watch,metadata", "keys"},
		{"core:x", "keys", "", "all", "keys"},
		{"core:x", "", "", "all", ""},
		{"agent", "none", "", "no root has the id none", ""},
	} {
		s, err := operator.ParseSubject(c.subject)
		if err != nil {
			t.Fatal(err)
		}
		w := policy.Wanted{Subject: s, Root: c.root, Path: c.path}
		path, _, err := roots.Find(w)
		if err == nil {
			if rights, in, err := roots.Admit(w, path); err != nil || rights.String() != c.rights || in != c.in {
				t.Errorf("%s in %q at %q: %s in %q, %v; want %s in %q", s, c.root, c.path, rights, in, err, c.rights, c.in)
			}
		} else if !strings.Contains(vfs.Message(err), c.rights) {
			t.Errorf("%s in %q at %q: %v, want %s", s, c.root, c.path, err, c.rights)
		}
	}
}

// A root may be the whole tree.
func TestAdmitInTheWholeTree(t *testing.T) {
	roots, err := policy.NewRoots([]operator.Root{{ID: "all", Kind: operator.Knowledge}, {ID: "src", Kind: operator.Workspace, Path: "src"}})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"": "read,list,watch,metadata", "docs": "read,list,watch,metadata", "src": "all", "src/a": "all", "srcs": "read,list,watch,metadata"} {
		got, _, err := roots.Admit(policy.Wanted{Subject: "agent-run:a", Path: path}, path)
		if err != nil || got.String() != want {
			t.Errorf("%q: %v, %v; want %s", path, got, err, want)
		}
	}
}

func TestNewRoots(t *testing.T) {
	for what, all := range map[string][]operator.Root{
		"no id":    {{Kind: operator.Temp, Path: "a"}},
		"no kind":  {{ID: "a", Kind: "tmp", Path: "a"}},
		"one id":   {{ID: "a", Kind: operator.Temp, Path: "a"}, {ID: "a", Kind: operator.Temp, Path: "b"}},
		"one path": {{ID: "a", Kind: operator.Temp, Path: "a"}, {ID: "b", Kind: operator.Temp, Path: "a"}},
	} {
		if _, err := policy.NewRoots(all); vfs.CodeOf(err) != vfs.Invalid {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// No two subjects have the same directory of their own, also where case does not count.
func TestOwn(t *testing.T) {
	r := operator.Root{ID: "t", Kind: operator.Temp, Path: "tmp"}
	seen := map[string]string{}
	for _, text := range []string{"a", "A", "person:a", "person:A", "agent-run:a:b", "a-b", "a.b", ".", "..", "...", "extension:..", "automation:a"} {
		s, err := operator.ParseSubject(text)
		if err != nil {
			t.Fatal(err)
		}
		own := r.Own(s)
		if _, err := vfs.SplitPath(own); err != nil || vfs.CheckNewName(strings.TrimPrefix(own, "tmp/")) != nil {
			t.Errorf("%s has %q: %v", s, own, err)
		}
		if other := seen[strings.ToLower(own)]; other != "" {
			t.Errorf("%s and %s have %q", s, other, own)
		}
		seen[strings.ToLower(own)] = text
	}
	if own := r.Own("agent-run:talk:3"); own != "tmp/agent-run+talk+3" {
		t.Errorf("own is %q", own)
	}
}
