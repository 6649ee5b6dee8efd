package vfs_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// FuzzWalk walks through links with any targets, below a directory that must not be left,
// and in which one name is withheld.
func FuzzWalk(f *testing.F) {
	for _, target := range []string{"..", "../..", "a/../../top", "/etc", "in", "d/in", ".", "", "l", "m", "d/../l", "././d//in", "in/..", "in/.", "\xff", "a\x00", ".env", "d/.ENV", strings.Repeat("../", 50), "../inside/in"} {
		f.Add(target, "d/m", "l")
		f.Add("d/m", target, "l/in")
		f.Add("m/..", target, "d/m")
	}
	f.Fuzz(func(t *testing.T, one, two, path string) {
		s, raw := check.Store(t, vfstest.Tree{"top": {Data: "outside"}, "inside/in": {Data: "in"}, "inside/d/in": {Data: "d/in"}, "inside/.env": {Data: "secret"}, "inside/d/.env": {Data: "secret"}})
		for at, target := range map[string]string{"inside/l": one, "inside/d/m": two, "inside/m": two} {
			if s.Symlink(t.Context(), at, target) != nil {
				return
			}
		}
		for _, wrapped := range []bool{false, true} {
			n, err := raw.Lookup(t.Context(), "inside")
			check.OK(t, err)
			var open atomic.Int64
			var d vfs.Dir = &counting{Dir: n.(vfs.Dir), open: &open}
			if wrapped {
				d = membrane.Guarded(d, nil, deny.Must("**/.env").Guard())
			}
			begun := time.Now()
			for _, walk := range []func() (vfs.Node, error){
				func() (vfs.Node, error) { return vfs.Walk(t.Context(), d, path) },
				func() (vfs.Node, error) { return vfs.WalkLink(t.Context(), d, path) },
			} {
				n, err := walk()
				switch {
				case err == nil:
					if f, ok := n.(vfs.File); ok {
						p := make([]byte, 10)
						size, _ := f.ReadAt(t.Context(), p, 0)
						if got := string(p[:size]); got == "outside" || wrapped && got == "secret" {
							t.Errorf("came to what is %s", got)
						}
					}
					n.Close()
				case vfs.CodeOf(err) == vfs.Internal:
					t.Errorf("an error without a code: %v", err)
				}
			}
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
			if n := open.Load(); n != 0 {
				t.Errorf("%d nodes are left open", n)
			}
		}
	})
}
