package edit_test

import (
	"bytes"
	"testing"
	"time"

	"capd/vfs/edit"
)

// Many places of one long line are replaced in a time that is linear in the line. Otherwise this
// takes minutes.
func TestPlacesOfOneLongLine(t *testing.T) {
	part := []byte("ab 4567890123456789012345678901234567890")
	content := bytes.Repeat(part, edit.MaxSize/len(part))
	content = content[:len(part)*99_000]
	begun := time.Now()
	r, err := edit.Apply(content, []edit.Edit{{Old: []byte("ab"), New: []byte("cde"), All: true}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, cut := r.Hunks(1 << 10); !cut || r.Replaced != 99_000 || len(r.Changed) != 1 || r.Changed[0] != (edit.Range{First: 1, Count: 1}) {
		t.Errorf("%d places in %v, cut: %v", r.Replaced, r.Changed, cut)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}
