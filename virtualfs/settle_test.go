package virtualfs_test

import (
	"testing"

	"capd/operator"
	"capd/vfs/batch"
	"capd/vfs/diff"
	"capd/vfs/vfstest/check"
	"capd/virtualfs"
)

// What the journal says of an act tells whether it was done, unless somebody else had changed something.
func TestSettledByJournal(t *testing.T) {
	for name, c := range map[string]struct {
		batch       batch.Recovered
		done, known bool
	}{
		"done":                       {batch.Recovered{Done: true}, true, true},
		"done and kept":              {batch.Recovered{Done: true, Kept: true}, true, true},
		"undone":                     {batch.Recovered{}, false, true},
		"undone in part":             {batch.Recovered{Left: make([]diff.Conflict, 1)}, false, false},
		"undone in part, and before": {batch.Recovered{Kept: true}, false, false},
	} {
		c.batch.ID, c.batch.Name = "c1", "project"
		fs := virtualfs.New(virtualfs.Options{Recovered: []batch.Recovered{c.batch}})
		done, known := fs.Settled(t.Context(), "c1", operator.Act{Op: "apply"})
		if done != c.done || known != c.known {
			t.Errorf("%s: done %v, known %v", name, done, known)
		}
		check.OK(t, fs.Close())
	}
}
