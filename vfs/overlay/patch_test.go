package overlay_test

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"capd/backend/physical"
	"capd/vfs"
	"capd/vfs/overlay"
)

// needGit skips the test if git is missing, except where nothing may be skipped.
func needGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CAPD_CI") != "" {
			t.Fatal("git is missing")
		}
		t.Skip("git is not installed")
	}
}

// textOf returns the text of all changes as capd diff prints it, and what it lacks.
func textOf(t testing.TB, o *overlay.Overlay) (text, lacks string) {
	t.Helper()
	changes, patch, err := o.Patch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, c := range changes {
		one, missing, err := patch.Text(t.Context(), c)
		if err != nil {
			t.Fatalf("the text of %s: %v", c.Path, err)
		}
		fmt.Fprintf(&b, "M %q\n%s", c.Path, one)
		lacks += missing
	}
	return b.String(), lacks
}

// TestGitApplies makes random changes to random trees and lets git apply the text. The
// result is what the overlay shows, byte for byte, or the text says what it lacks.
func TestGitApplies(t *testing.T) {
	needGit(t)
	rounds := 60
	if os.Getenv("CAPD_CI") != "" {
		rounds = 1500
	}
	exact := 0
	for seed := range rounds {
		w := &scribe{T: t, Rand: rand.New(rand.NewPCG(uint64(seed), 11)), dir: filepath.Join(t.TempDir(), "lower")}
		w.lower(w.dir, 0)
		copied := filepath.Join(t.TempDir(), "copy")
		if err := exec.Command("cp", "-a", w.dir, copied).Run(); err != nil {
			t.Fatal(err)
		}
		store, err := physical.OpenAmbient(w.dir, physical.Options{})
		if err != nil {
			t.Fatal(err)
		}
		o := laid(t, store.Root(), memoryUpper(t))
		var did []string
		for range 1 + w.IntN(12) {
			did = append(did, w.change(o.Root()))
		}
		text, lacks := textOf(t, o)
		want := map[string]string{}
		flat(t, o.Root(), "", want)
		o.Close()
		store.Close()
		if lacks != "" {
			continue
		}
		if exact++; text == "" {
			continue
		}
		cmd := exec.Command("git", "apply", "--whitespace=nowarn", "-")
		cmd.Dir, cmd.Stdin = copied, strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("round %d, git apply: %v\n%s\nof\n%s\nafter\n%s", seed, err, out, text, strings.Join(did, "\n"))
		}
		got := onDisk(t, copied)
		if d := differ(want, got); d != "" {
			t.Fatalf("round %d: git made something else:%s\nof\n%s\nafter\n%s", seed, d, text, strings.Join(did, "\n"))
		}
	}
	if exact < rounds/3 {
		t.Errorf("of %d texts only %d lack nothing", rounds, exact)
	}
}

// scribe makes random trees and changes.
type scribe struct {
	*testing.T
	*rand.Rand
	dir string
}

var oddNames = []string{"a", "b", "c", "d", "two words", "é", "end ", "x b", "quote\"d", "back\\slash", "tab\there", "\xff", "-", "a.txt"}

func (w *scribe) name() string { return oddNames[min(w.IntN(9), w.IntN(len(oddNames)))] }

func (w *scribe) content() string {
	switch w.IntN(8) {
	case 0:
		return ""
	case 1:
		return "bin\x00ary" + fmt.Sprint(w.IntN(3))
	case 2:
		return strings.Repeat("\xff\x01long", w.IntN(400))
	}
	var b strings.Builder
	for range w.IntN(9) {
		b.WriteString([]string{"one\n", "two\n", "three\n", "\n", "crlf\r\n", "- a\n", "+++ b\n", "end"}[w.IntN(8)])
	}
	return b.String()
}

// lower fills the directory at path.
func (w *scribe) lower(path string, depth int) {
	w.must(os.Mkdir(path, 0o755))
	for range w.IntN(6) {
		at := filepath.Join(path, w.name())
		if _, err := os.Lstat(at); err == nil {
			continue
		}
		switch n := w.IntN(8); {
		case n < 3 && depth < 3:
			w.lower(at, depth+1)
		case n == 3:
			w.must(os.Symlink(w.name(), at))
		default:
			w.must(os.WriteFile(at, []byte(w.content()), []fs.FileMode{0o644, 0o644, 0o755}[w.IntN(3)]))
		}
	}
}

func (w *scribe) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// anywhere is a random directory, and one of its names or a new one.
func (w *scribe) anywhere(ctx context.Context, d vfs.Dir) (vfs.Dir, string) {
	for {
		var all []vfs.Entry
		for e, err := range d.List(ctx) {
			w.must(err)
			all = append(all, e)
		}
		if len(all) == 0 || w.IntN(4) == 0 {
			return d, w.name()
		}
		e := all[w.IntN(len(all))]
		if e.Kind != vfs.DirKind || w.IntN(3) == 0 {
			return d, e.Name
		}
		n, err := d.Lookup(ctx, e.Name)
		w.must(err)
		d = n.(vfs.Dir)
	}
}

// change tries one random change and says which.
func (w *scribe) change(root vfs.Dir) string {
	ctx := w.Context()
	d, name := w.anywhere(ctx, root)
	var err error
	what := ""
	switch w.IntN(9) {
	case 0, 1:
		what = "write"
		_, err = vfs.Install(ctx, d, name, strings.NewReader(w.content()), w.IntN(4) == 0, vfs.If{})
	case 2:
		what = "mkdir"
		_, err = d.Mkdir(ctx, name)
	case 3:
		what = "link"
		err = vfs.Symlink(ctx, d, name, w.name())
	case 4:
		what, err = "remove", wipe(ctx, d, name)
	case 5:
		what = "append"
		var n vfs.Node
		if n, err = d.Lookup(ctx, name); err == nil {
			if f, ok := n.(vfs.File); ok {
				_, err = f.WriteAt(ctx, []byte("more\n"), 0, vfs.If{})
			}
		}
	default:
		into, other := w.anywhere(ctx, root)
		what = "move to " + other
		err = d.Rename(ctx, name, into, other, vfs.If{}, vfs.If{})
	}
	return fmt.Sprintf("%s %q: %v", what, name, err)
}

// wipe removes what is called name, and all below it.
func wipe(ctx context.Context, d vfs.Dir, name string) error {
	n, err := d.Lookup(ctx, name)
	if err != nil {
		return err
	}
	defer n.Close()
	if below, ok := n.(vfs.Dir); ok {
		for e, err := range below.List(ctx) {
			if err == nil {
				err = wipe(ctx, below, e.Name)
			}
			if err != nil {
				return err
			}
		}
	}
	return d.Remove(ctx, name, vfs.If{})
}

// flat describes a tree in the form of onDisk.
func flat(t *testing.T, d vfs.Dir, path string, all map[string]string) {
	for e, err := range d.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		at := vfs.Join(path, e.Name)
		n, err := d.Lookup(t.Context(), e.Name)
		if err != nil {
			t.Fatal(err)
		}
		switch n := n.(type) {
		case vfs.Dir:
			all[at] = "directory"
			flat(t, n, at, all)
		case vfs.Link:
			target, err := n.Target(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			all[at] = "link " + target
		case vfs.File:
			info, err := n.Stat(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			data, err := contentOf(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			all[at] = fmt.Sprintf("%v %q", info.Exec, data)
		}
	}
}

func onDisk(t *testing.T, dir string) map[string]string {
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		at := strings.TrimPrefix(path, dir+"/")
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			all[at] = "directory"
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			all[at] = "link " + target
			return err
		default:
			data, err := os.ReadFile(path)
			all[at] = fmt.Sprintf("%v %q", info.Mode()&0o100 != 0, data)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestTextOfWhatIsNewBelow: the lower tree grows in a directory that the overlay has
// removed. The text removes that as well, and marks it as new.
func TestTextOfWhatIsNewBelow(t *testing.T) {
	b := newBench(t, project)
	b.remove(b.root, "src")
	b.put(b.lower, "src/more", "theirs\n")
	if out, _ := textOf(t, b.o); !strings.Contains(out, "diff --git a/src/more b/src/more\ndeleted file mode 100644\n") {
		t.Errorf("the text leaves what is new below:\n%s", out)
	}
}
