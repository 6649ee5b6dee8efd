package overlay_test

import (
	"errors"
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/overlay"
)

// TestApplyNamesPath applies a change that the lower store refuses: the error says where.
func TestApplyNamesPath(t *testing.T) {
	for _, path := range []string{"new/.capd-staging-1", "new/.capd-staging-2/deep"} {
		lower := physicalUpper(t)
		o := laid(t, lower, memoryUpper(t))
		b := &bench{T: t, lower: lower, o: o, root: o.Root()}
		b.mkdir(b.root, "new")
		if strings.HasSuffix(path, "/deep") {
			b.mkdir(b.root, "new/.capd-staging-2")
		}
		b.put(b.root, path, "x")
		for _, there := range []bool{false, true} {
			if there {
				b.mkdir(lower, "new")
			}
			_, err := o.Apply(t.Context(), overlay.ApplyOptions{Journal: memoryUpper(t)})
			e, ok := errors.AsType[*vfs.Error](err)
			if !ok || e.Code != vfs.Invalid || !strings.HasPrefix(path, e.Path) || !strings.HasPrefix(e.Path, "new/") {
				t.Errorf("Apply: %v, want invalid that names %s", err, path)
			}
		}
	}
}
