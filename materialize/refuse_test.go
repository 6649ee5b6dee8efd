package materialize

import (
	"os"
	"testing"

	"capd/vfs"
	"capd/vfs/diff"
)

// A missing entry is not removed if something could not be looked at: it may be there.
func TestNothingGoesUnseen(t *testing.T) {
	for _, closed := range []bool{false, true} {
		l := &comparison{t: &Tree{}, out: map[string]bool{}, skipped: map[string]string{}, closed: closed, found: []finding{
			{path: "d", old: &record{state: diff.State{Kind: vfs.DirKind}}},
			{path: "d/f", old: &record{state: diff.State{Kind: vfs.FileKind, Version: vfs.Version{1}}}},
		}}
		l.refuseAll()
		if l.out["d"] != closed || l.out["d/f"] != closed {
			t.Errorf("closed %t: %v", closed, l.skipped)
		}
	}
}

// A directory that was replaced before it is opened is busy.
func TestExchangedDirectory(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, name := range []string{"d", "e"} {
		if err := root.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	info, err := root.Lstat("e")
	if err != nil {
		t.Fatal(err)
	}
	l := &comparison{ctx: t.Context(), t: &Tree{}}
	if err := l.subdir(root, "d", "d", info, nil, 1); vfs.CodeOf(err) != vfs.Busy {
		t.Errorf("it answers %v", err)
	}
}
