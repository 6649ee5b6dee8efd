package server

import (
	"fmt"
	"strings"
	"testing"

	"capd/operator"
	"capd/state"
	"capd/vfs"
)

// A host starts with changes that fill their place, and with a move after which the packed
// index has no room there. A revert makes room.
func TestKeptFull(t *testing.T) {
	for name, fill := range map[string]func(t *testing.T, d vfs.Dir){"bytes": fillBytes, "nodes": fillNodes, "names": fillNames} {
		t.Run(name, func(t *testing.T) {
			dir, lower := t.TempDir(), t.TempDir()
			mounted := func(limits string) (*FS, vfs.Dir) {
				f, err := OpenFS(t.Context(), state.Dir(dir), FSOptions{Logf: t.Logf})
				if err != nil {
					t.Fatal(err)
				}
				if err := f.Mount(t.Context(), "draft", "overlay:keep,"+limits+":physical:"+lower, operator.Attenuation{}); err != nil {
					f.Close()
					t.Fatalf("the host does not start: %v", err)
				}
				d, err := f.Dir(t.Context(), "draft")
				if err != nil {
					t.Fatal(err)
				}
				return f, d
			}
			f, d := mounted("max=100KiB,nodes=20")
			fill(t, d)
			d.Close()
			f.Close()
			f, d = mounted("max=1KiB,nodes=2") // less than there is
			d.Close()
			f.Close()
			f, d = mounted("max=100KiB,nodes=20")
			defer f.Close()
			defer d.Close()
			if _, err := f.Revert(t.Context(), "draft", nil); err != nil {
				t.Fatal(err)
			}
			if _, err := vfs.Put(t.Context(), d, "again", strings.NewReader("there is room"), vfs.If{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// fillBytes fills d to the last byte.
func fillBytes(t *testing.T, d vfs.Dir) {
	f, err := d.Create(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size, step := int64(0), int64(64<<10); step > 0; step /= 2 {
		for f.Truncate(t.Context(), size+step, vfs.If{}) == nil {
			size += step
		}
	}
}

// fillNodes makes as many files as d can have.
func fillNodes(t *testing.T, d vfs.Dir) {
	for i := 0; ; i++ {
		f, err := d.Create(t.Context(), fmt.Sprint(i))
		if err != nil {
			return
		}
		defer f.Close()
	}
}

// fillNames moves many short paths to where they are long.
func fillNames(t *testing.T, d vfs.Dir) {
	wide, err := d.Mkdir(t.Context(), "w")
	if err != nil {
		t.Fatal(err)
	}
	defer wide.Close()
	for i := range 100 {
		made, err := wide.Mkdir(t.Context(), fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		made.Close()
	}
	name := strings.Repeat("n", 200)
	deep := d
	for range 10 {
		made, err := deep.Mkdir(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		defer made.Close()
		deep = made
	}
	if err := d.Rename(t.Context(), "w", deep, "w", vfs.If{}, vfs.If{}); err != nil {
		t.Fatal(err)
	}
}
