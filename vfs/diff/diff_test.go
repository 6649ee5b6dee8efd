package diff_test

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	"capd/vfs"
	"capd/vfs/diff"
)

// The JSON of changes and conflicts is the output of capd diff --json and capd apply
// --json.
func TestJSON(t *testing.T) {
	file := diff.State{Kind: vfs.FileKind, Version: vfs.Version{1}}
	open := func(context.Context) (io.ReadCloser, error) { return nil, nil }
	for want, v := range map[string]any{
		`{"path":"a","kind":"added"}`: diff.Change{Path: "a", Kind: diff.Added, Is: file, Content: open, Old: open},
		`{"path":"b","from":"a","kind":"renamed","text":"t","lacks":"l"}`: diff.Change{
			Path: "b", From: "a", Kind: diff.Renamed, Was: file, Is: file, Text: "t", Lacks: "l"},
		`{"path":"c","why":"it is gone"}`: (&diff.Change{Path: "c", Was: file}).Conflict(diff.State{}),
	} {
		if got, err := json.Marshal(v); err != nil || string(got) != want {
			t.Errorf("got %s (%v), want %s", got, err, want)
		}
	}
}

func TestKindOf(t *testing.T) {
	file, other := diff.State{Kind: vfs.FileKind, Version: vfs.Version{1}}, diff.State{Kind: vfs.FileKind, Version: vfs.Version{2}}
	exec, dir := file, diff.State{Kind: vfs.DirKind}
	exec.Exec = true
	link := func(to string) diff.State { return diff.State{Kind: vfs.LinkKind, Target: to} }
	for _, c := range []struct {
		was, is diff.State
		want    diff.Kind
	}{
		{diff.State{}, file, diff.Added}, {dir, diff.State{}, diff.Removed}, {file, other, diff.Modified},
		{link("a"), link("b"), diff.Modified}, {file, exec, diff.Mode}, {file, dir, diff.Type},
	} {
		if got := diff.KindOf(c.was, c.is); got != c.want {
			t.Errorf("from %v to %v is %q, want %q", c.was, c.is, got, c.want)
		}
	}
}
