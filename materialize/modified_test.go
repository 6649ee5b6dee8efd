package materialize

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/vfs"
)

// TestModifiedBeforeRecorded: the record of a file has the attributes from after its time
// was set, so that an untouched file need not be read.
func TestModifiedBeforeRecorded(t *testing.T) {
	store := memory.New(memory.Limits{})
	if _, err := store.Root().Replace(t.Context(), "a", strings.NewReader("a"), vfs.If{}); err != nil {
		t.Fatal(err)
	}
	b, err := OpenAmbient(filepath.Join(t.TempDir(), "base"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	tree, err := b.New(t.Context(), store.Root(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	info, err := os.Lstat(filepath.Join(tree.Path(), "a"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tree.records["a"].attr, attrOf(info); got != want {
		t.Errorf("the record has %+v, the file %+v", got, want)
	}
}
