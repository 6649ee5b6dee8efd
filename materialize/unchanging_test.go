package materialize

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"capd/vfs"
)

// A file that is written, cut or lengthened while it is read is busy. So is one that was
// already being written when it was opened.
func TestUnchanging(t *testing.T) {
	for name, change := range map[string]func(f *os.File) error{
		"nothing":    nil,
		"written":    func(f *os.File) error { _, err := f.WriteAt([]byte("x"), 0); return err },
		"cut":        func(f *os.File) error { return f.Truncate(10) },
		"lengthened": func(f *os.File) error { return f.Truncate(1 << 10) },
	} {
		for _, begun := range []bool{true, false} {
			path := filepath.Join(t.TempDir(), "f")
			if err := os.WriteFile(path, make([]byte, 100), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			info, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			u := &unchanging{ctx: t.Context(), f: f, a: attrOf(info)}
			time.Sleep(settle + 10*time.Millisecond) // so that a write shows
			if begun {
				if _, err := u.Read(make([]byte, 50)); err != nil {
					t.Fatal(err)
				}
			}
			if change != nil {
				if err := change(f); err != nil {
					t.Fatal(err)
				}
			}
			if !begun && change != nil { // it is not even begun
				if n, err := u.Read(make([]byte, 1)); n > 0 || vfs.CodeOf(err) != vfs.Busy {
					t.Errorf("%s: the first read answers %d, %v", name, n, err)
				}
			}
			data, err := io.ReadAll(u)
			if len(data) > 100 {
				t.Errorf("%s: %d bytes were read of 100", name, len(data))
			}
			if change == nil && err != nil || change != nil && vfs.CodeOf(err) != vfs.Busy {
				t.Errorf("%s, begun %t: %v", name, begun, err)
			}
		}
	}
}
