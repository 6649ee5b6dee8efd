package physical

import (
	"os"
	"path/filepath"
	"testing"

	"capd/vfs"
)

// os.Root reports only in the text of an error that a former directory is not a directory
// any more.
func TestExplainNotDir(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	top, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	_, err = top.OpenRoot("f")
	if code := vfs.CodeOf(explain(err)); code != vfs.NotDir {
		t.Errorf("opening a file as a directory: %v is %q, want %q", err, code, vfs.NotDir)
	}
}
