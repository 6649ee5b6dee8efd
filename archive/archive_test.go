package archive_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"capd/archive"
	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/copier"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

var formats = []archive.Format{archive.Zip, archive.Tar, archive.TarGzip, archive.TarZstd}

// content returns data as an open content.
func content(t testing.TB, data []byte) vfs.Content {
	c, err := vfs.Open(t.Context(), vfs.TextFile(string(data)))
	check.OK(t, err)
	return c
}

func open(t testing.TB, data []byte, l archive.Limits) (*archive.Tree, error) {
	tree, err := archive.Open(t.Context(), content(t, data), l)
	if err == nil {
		t.Cleanup(func() { tree.Close() })
	}
	return tree, err
}

// filled returns a tree in memory.
func filled(t testing.TB, tree vfstest.Tree) vfs.Dir {
	d := memory.New(memory.Limits{Bytes: 1 << 30}).Root()
	vfstest.Fill(t, d, tree, vfstest.Symlink(d), vfstest.SetExec(d))
	return d
}

func packed(t testing.TB, d vfs.Dir, f archive.Format) []byte {
	var b bytes.Buffer
	check.OK(t, archive.Write(t.Context(), d, &b, f, copier.Options{}))
	return b.Bytes()
}

func TestSuite(t *testing.T) {
	for _, f := range formats {
		t.Run(string(f), func(t *testing.T) {
			vfstest.Run(t, vfstest.Store{Immutable: true, NoLinks: true, New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
				a, err := open(t, packed(t, filled(t, tree), f), archive.Limits{})
				check.OK(t, err)
				return a.Root()
			}})
		})
	}
}

// TestWrite compares what an archive holds with what was written to it: all but the links, with which it is refused.
func TestWrite(t *testing.T) {
	tree := vfstest.Tree{"a/b/c": {Data: strings.Repeat("some text\n", 10000)}, "a/run": {Data: "#!/bin/sh\n", Exec: true}, "empty": {}, "hollow": {Dir: true}, "ü": {Data: "\x00\xff"}}
	for _, f := range formats {
		t.Run(string(f), func(t *testing.T) {
			data := packed(t, filled(t, tree), f)
			a, err := open(t, data, archive.Limits{})
			check.OK(t, err)
			if a.Entries() != 7 || a.Bytes() != 100012 {
				t.Errorf("%d entries with %d bytes", a.Entries(), a.Bytes())
			}
			to := memory.New(memory.Limits{Bytes: 1 << 30}).Root()
			check.OK(t, copier.Duplicate(t.Context(), copier.Spot{Dir: a.Below("in"), Name: "in"}, copier.Spot{Dir: to, Name: "out"}, copier.Options{Workers: 1}))
			if got, want := shown(t, check.DirAt(t, to, "out")), shown(t, filled(t, tree)); got != want {
				t.Errorf("it is another tree:\n%s\nwant\n%s", got, want)
			}
			if a.Close(); vfs.CodeOf(second(a.Root().Lookup(t.Context(), "empty"))) != vfs.Stale {
				t.Error("a closed archive can be read")
			}
			tree := vfstest.Tree{"l": {Link: "f"}, "f": {}}
			_, err = open(t, packed(t, filled(t, tree), f), archive.Limits{})
			check.Is(t, "with a link", err, vfs.Unsupported)
			for cut := 1; cut < len(data); cut += len(data) / 97 {
				if a, err := open(t, data[:cut], archive.Limits{}); err == nil && readAll(t, a.Root()) == nil && f != archive.Tar {
					t.Errorf("cut off at %d of %d, it is whole", cut, len(data))
				}
			}
		})
	}
}

// shown returns all that d holds but times, as text.
func shown(t testing.TB, d vfs.Dir) string {
	var all strings.Builder
	r := tar.NewReader(bytes.NewReader(packed(t, d, archive.Tar)))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return all.String()
		}
		check.OK(t, err)
		data, err := io.ReadAll(r)
		check.OK(t, err)
		fmt.Fprintf(&all, "%s %o %x\n", h.Name, h.Mode, sha256.Sum256(data))
	}
}

func second[T any](_ T, err error) error { return err }

// readAll reads every file below d.
func readAll(t testing.TB, d vfs.Dir) error {
	var b bytes.Buffer
	return archive.Write(t.Context(), d, &b, archive.Tar, copier.Options{})
}

// TestRefuses opens archives that no guest may have extracted.
func TestRefuses(t *testing.T) {
	zipped := func(names ...string) []byte {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for _, n := range names {
			w, err := z.Create(n)
			check.OK(t, err)
			if !strings.HasSuffix(n, "/") {
				_, err = w.Write([]byte(n))
			}
			check.OK(t, err)
		}
		check.OK(t, z.Close())
		return b.Bytes()
	}
	tarred := func(all ...tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range all {
			check.OK(t, w.WriteHeader(&h))
			_, err := w.Write(make([]byte, h.Size))
			check.OK(t, err)
		}
		check.OK(t, w.Close())
		return b.Bytes()
	}
	for name, c := range map[string]struct {
		data []byte
		want vfs.Code
	}{
		"nothing":                      {nil, vfs.Invalid},
		"a text":                       {[]byte(strings.Repeat("a text\n", 100)), vfs.Invalid},
		"above":                        {zipped("../x"), vfs.Invalid},
		"above, further down":          {zipped("a/../../x"), vfs.Invalid},
		"absolute":                     {zipped("/etc/passwd"), vfs.Invalid},
		"a drive":                      {zipped(`C:\x`), vfs.Invalid},
		"a name that hides":            {zipped("a\u202etxt"), vfs.Invalid},
		"a control character":          {zipped("a\x1b[2J"), vfs.Invalid},
		"twice":                        {zipped("a", "b", "a"), vfs.Exists},
		"twice, as file and directory": {zipped("a", "a/b"), vfs.Exists},
		"twice, the other way round":   {zipped("a/b", "a"), vfs.Exists},
		"a directory twice":            {zipped("a/", "a/"), vfs.Exists},
		"too deep":                     {zipped(strings.Repeat("d/", 200) + "f"), vfs.Limit},
		"above, tar":                   {tarred(tar.Header{Name: "../x", Mode: 0o644}), vfs.Invalid},
		"absolute, tar":                {tarred(tar.Header{Name: "/x", Mode: 0o644}), vfs.Invalid},
		"a symbolic link":              {tarred(tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "/etc"}), vfs.Unsupported},
		"a hard link":                  {tarred(tar.Header{Name: "f"}, tar.Header{Typeflag: tar.TypeLink, Name: "l", Linkname: "f"}), vfs.Unsupported},
		"a device":                     {tarred(tar.Header{Typeflag: tar.TypeBlock, Name: "sda", Devmajor: 8}), vfs.NotRegular},
		"a FIFO":                       {tarred(tar.Header{Typeflag: tar.TypeFifo, Name: "p"}), vfs.NotRegular},
		"no name":                      {tarred(tar.Header{Name: "."}), vfs.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := open(t, c.data, archive.Limits{})
			check.Is(t, "Open", err, c.want)
		})
	}
}

// TestLimits gives archives that hold too much.
func TestLimits(t *testing.T) {
	many := vfstest.Tree{"zeros": {Data: strings.Repeat("\x00", 20<<20)}, "f": {Data: "text"}}
	for _, f := range formats {
		data := packed(t, filled(t, many), f)
		for name, c := range map[string]struct {
			limits archive.Limits
			want   vfs.Code
		}{
			"enough":  {archive.Limits{Ratio: 1 << 20}, ""},
			"bytes":   {archive.Limits{Ratio: 1 << 20, Bytes: 20 << 20}, vfs.Limit},
			"entries": {archive.Limits{Ratio: 1 << 20, Entries: 1}, vfs.Limit},
			"ratio":   {archive.Limits{}, map[bool]vfs.Code{false: vfs.Limit}[f == archive.Tar]},
		} {
			_, err := open(t, data, c.limits)
			check.Is(t, string(f)+", "+name, err, c.want)
		}
	}
}

// TestOverlap makes a zip file of 4,000 entries that all have the same content.
func TestOverlap(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for range 2 {
		w, err := z.Create("aaaa")
		check.OK(t, err)
		_, err = w.Write(bytes.Repeat([]byte("x"), 1000))
		check.OK(t, err)
	}
	check.OK(t, z.Close())
	data := b.Bytes()
	at := bytes.LastIndex(data, []byte("PK\x01\x02")) // the second entry of the directory
	copy(data[at+42:at+46], []byte{0, 0, 0, 0})       // begins where the first does
	copy(data[at+46:], "bbbb")
	_, err := open(t, data, archive.Limits{})
	check.Is(t, "Open", err, vfs.Invalid)
	if err != nil && !strings.Contains(err.Error(), "share bytes") {
		t.Error(err)
	}
}

// TestSamples opens what Go's own tests have, among it what must not be opened. None may panic, and what opens can be read or is damaged.
func TestSamples(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	check.OK(t, err)
	opened, refused := 0, 0
	for _, pattern := range []string{"zip/testdata/*.zip", "tar/testdata/*.tar"} {
		names, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), "src/archive", pattern))
		check.OK(t, err)
		for _, name := range names {
			data, err := os.ReadFile(name)
			check.OK(t, err)
			a, err := open(t, data, archive.Limits{})
			if err == nil {
				err = readAll(t, a.Root())
			}
			switch code := vfs.CodeOf(err); code {
			case "":
				opened++
			case vfs.Invalid, vfs.Unsupported, vfs.Exists, vfs.NotRegular, vfs.Limit:
				refused++
			default:
				t.Errorf("%s: %v", filepath.Base(name), err)
			}
		}
	}
	t.Logf("archives: %d opened, %d refused", opened, refused)
	if opened < 20 || refused < 10 {
		t.Error("there are too few of them")
	}
}

// TestEnds ends the call while an archive is unpacked.
func TestEnds(t *testing.T) {
	data := packed(t, filled(t, vfstest.Tree{"f": {Data: "text"}}), archive.TarGzip)
	ctx, end := context.WithCancel(t.Context())
	end()
	if _, err := archive.Open(ctx, content(t, data), archive.Limits{}); err != context.Canceled {
		t.Error(err)
	}
}

func FuzzOpen(f *testing.F) {
	for _, format := range formats {
		f.Add(packed(f, filled(f, vfstest.Tree{"a/b": {Data: "text"}, "c": {Exec: true}}), format))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := open(t, data, archive.Limits{Entries: 1000, Bytes: 1 << 20})
		if err != nil {
			if vfs.CodeOf(err) == vfs.Internal {
				t.Fatal(err)
			}
			return
		}
		if err := readAll(t, a.Root()); vfs.CodeOf(err) == vfs.Internal {
			t.Fatal(err)
		}
	})
}
