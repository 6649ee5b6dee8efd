package authority

import (
	"testing"

	"capd/vfs"
)

// TestListedNames: a name that another program has made cannot add lines to what the operator is shown of a move.
func TestListedNames(t *testing.T) {
	odd := "a\n\u202eb, 4 bytes"
	got := list([]vfs.Part{{Kind: vfs.DirKind}, {Path: odd, Kind: vfs.FileKind, Size: 2}, {Path: odd, Kind: vfs.DirKind}, {Path: odd, Kind: vfs.LinkKind, Target: "c\nd"}})
	safe := `a\u000a\u202eb, 4 bytes`
	if want := safe + ", 2 bytes\n" + safe + "/\n" + safe + `, a link to c\u000ad` + "\n"; got != want {
		t.Errorf("the operator was shown %q, want %q", got, want)
	}
}
