package authority_test

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"capd/backend/physical"
	"capd/record"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

func versionOf(text string) string { return vfs.Version(sha256.Sum256([]byte(text))).String() }

// TestSettle starts a host after another was killed during changes. What is in the tree then says how they ended.
func TestSettle(t *testing.T) {
	put := record.Entry{Op: "replace", Path: "f", Version: versionOf("new"), Size: 3}
	fresh := record.Entry{Op: "replace", Path: "n", Version: versionOf("new"), Size: 3, Nodes: 1}
	move := record.Entry{Op: "rename", Path: "f", To: "d/h"}
	many := record.Entry{Op: "change", Changes: []record.Change{
		{Path: "f", Was: versionOf("old"), Version: versionOf("new")}, {Path: "e", Kind: "directory"}, {Path: "e/n", Version: versionOf("n")}, {Path: "d/g", Was: versionOf("")},
	}}
	one := record.Entry{Op: "change", Path: "d", Changes: []record.Change{{Path: "f", Was: versionOf("old"), Version: versionOf("new")}}}
	back := record.Entry{Op: "replace", Path: "d/f", Version: versionOf("old"), Size: 3}
	for what, c := range map[string]struct {
		intents []record.Entry
		tree    vfstest.Tree // nil is small
		want    []record.Result
	}{
		"put":                           {[]record.Entry{put}, vfstest.Tree{"f": {Data: "new"}}, []record.Result{record.Done}},
		"put, not yet":                  {[]record.Entry{put}, nil, []record.Result{record.NotDone}},
		"put, and something else since": {[]record.Entry{put}, vfstest.Tree{"f": {Data: "other"}}, []record.Result{record.Unknown}},
		"put, and gone since":           {[]record.Entry{put}, vfstest.Tree{}, []record.Result{record.Unknown}},
		"a new file":                    {[]record.Entry{fresh}, vfstest.Tree{"n": {Data: "new"}}, []record.Result{record.Done}},
		"a new file, not yet":           {[]record.Entry{fresh}, nil, []record.Result{record.NotDone}},
		"two puts":                      {[]record.Entry{{Op: "replace", Path: "f", Version: versionOf("older"), Size: 5}, put}, vfstest.Tree{"f": {Data: "new"}}, []record.Result{record.Unknown, record.Done}},
		"mkdir":                         {[]record.Entry{{Op: "mkdir", Path: "hollow"}}, nil, []record.Result{record.Done}},
		"mkdir, not yet":                {[]record.Entry{{Op: "mkdir", Path: "e"}}, nil, []record.Result{record.NotDone}},
		"mkdir, and a file in it":       {[]record.Entry{{Op: "mkdir", Path: "d"}, {Op: "create", Path: "d/g"}}, nil, []record.Result{record.Done, record.Done}},
		"create, remove":                {[]record.Entry{{Op: "create", Path: "e"}, {Op: "remove", Path: "e"}}, nil, []record.Result{record.Unknown, record.Done}},
		"remove, not yet":               {[]record.Entry{{Op: "remove", Path: "f"}}, nil, []record.Result{record.NotDone}},
		"a file in what is removed":     {[]record.Entry{{Op: "create", Path: "e/x"}, {Op: "remove", Path: "e"}}, nil, []record.Result{record.Unknown, record.Done}},
		"rename":                        {[]record.Entry{move}, vfstest.Tree{"d/h": {Data: "old"}}, []record.Result{record.Done}},
		"rename, not yet":               {[]record.Entry{move}, nil, []record.Result{record.NotDone}},
		"rename, and gone since":        {[]record.Entry{move}, vfstest.Tree{"d/g": {}}, []record.Result{record.Unknown}},
		"write, not yet":                {[]record.Entry{{Op: "write", Path: "f"}}, nil, []record.Result{record.NotDone}},
		"write":                         {[]record.Entry{{Op: "write", Path: "f"}}, vfstest.Tree{"f": {Data: "old, longer"}}, []record.Result{record.Unknown}},
		"many paths":                    {[]record.Entry{many}, vfstest.Tree{"f": {Data: "new"}, "e/n": {Data: "n"}}, []record.Result{record.Done}},
		"many paths, not yet":           {[]record.Entry{many}, vfstest.Tree{"f": {Data: "old"}, "d/g": {}}, []record.Result{record.NotDone}},
		"many paths, in part":           {[]record.Entry{many}, vfstest.Tree{"f": {Data: "new"}, "d/g": {}}, []record.Result{record.Unknown}},
		"many paths, a file since":      {[]record.Entry{many, {Op: "create", Path: "e/x"}}, vfstest.Tree{"f": {Data: "new"}, "e/n": {Data: "n"}, "e/x": {}}, []record.Result{record.Done, record.Done}},
		"one of many":                   {[]record.Entry{one}, vfstest.Tree{"d/f": {Data: "new"}}, []record.Result{record.Done}},
		"one of many, as it was since":  {[]record.Entry{one, back}, vfstest.Tree{"d/f": {Data: "old"}}, []record.Result{record.Unknown, record.Done}},
		"one of many, and many since":   {[]record.Entry{back, one}, vfstest.Tree{"d/f": {Data: "new"}}, []record.Result{record.Unknown, record.Done}},
		"one of many, and gone since":   {[]record.Entry{one, {Op: "remove", Path: "d"}}, vfstest.Tree{}, []record.Result{record.Unknown, record.Done}},
		"many paths, one written since": {[]record.Entry{many, {Op: "replace", Path: "e/n", Version: versionOf("m"), Size: 1}}, vfstest.Tree{"f": {Data: "new"}, "e/n": {Data: "m"}}, []record.Result{record.Unknown, record.Done}},
		"not a path any more":           {[]record.Entry{{Op: "create", Path: "f/x"}}, nil, []record.Result{record.Unknown}},
	} {
		t.Run(what, func(t *testing.T) {
			s, err := physical.OpenAmbient(t.TempDir(), physical.Options{})
			ok(t, err)
			t.Cleanup(func() { s.Close() })
			vfstest.Fill(t, s.Root(), small, nil, nil)
			r := newRecorded(t, s.Root())
			info, err := check.FileAt(t, r.root, "f").Stat(t.Context())
			ok(t, err)
			for _, e := range c.intents {
				if e.Path == "f" && e.Op != "rename" && e.Op != "remove" {
					e.Was = &record.Was{Size: info.Size, Modified: info.ModifiedMs}
				}
				e.Grants = []record.Holder{{ID: "g1", Name: "agent"}}
				ok(t, r.log.Intend(e).Wait())
			}
			if c.tree != nil { // what was killed, and others, did this
				other, err := physical.OpenAmbient(t.TempDir(), physical.Options{})
				ok(t, err)
				t.Cleanup(func() { other.Close() })
				vfstest.Fill(t, other.Root(), c.tree, nil, nil)
				r.root = other.Root()
			}
			r.open(t)
			var got []record.Result
			for e, err := range record.Entries(t.Context(), r.db, record.Query{Kinds: []record.Kind{record.Settled}}) {
				ok(t, err)
				got = append(got, e.Result)
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("settled %q, want %q", got, c.want)
			}
		})
	}
}
