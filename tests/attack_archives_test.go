package tests

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"capd/vfs"
)

// A guest extracts archives that are made to harm: nothing is made of them, neither where it may write nor elsewhere.
func TestAttackArchives(t *testing.T) {
	h := serve(t)
	d := dial(t, h.locator).Dir(t.Context()).SubDir("project")
	zipped := func(names ...string) []byte {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for _, name := range names {
			w, err := z.Create(name)
			ok(t, err)
			_, err = w.Write([]byte(name))
			ok(t, err)
		}
		ok(t, z.Close())
		return b.Bytes()
	}
	tarred := func(all ...tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, head := range all {
			ok(t, w.WriteHeader(&head))
		}
		ok(t, w.Close())
		return b.Bytes()
	}
	many := make([]string, 70_000)
	for i := range many {
		many[i] = fmt.Sprint("f", i)
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, err := io.CopyN(z, zeros{}, 400<<20)
	ok(t, err)
	ok(t, z.Close())
	ok(t, os.MkdirAll(filepath.Join(h.served, "there", "d"), 0o755))
	ok(t, os.WriteFile(filepath.Join(h.served, "there", "mine"), []byte("mine"), 0o600))
	ok(t, os.Symlink(t.TempDir(), filepath.Join(h.served, "there", "out")))
	tried := 0
	for name, c := range map[string]struct {
		archive   []byte
		want, add string // the answer for a new directory, and for one that is there
	}{
		"above":               {zipped("ok", "../escaped"), "invalid", ""},
		"above, from below":   {zipped("ok", "d/../../escaped"), "invalid", ""},
		"absolute":            {zipped("ok", "/tmp/escaped"), "invalid", ""},
		"backslashes":         {zipped("ok", `..\escaped`), "invalid", ""},
		"withheld":            {zipped("ok", "d/.env"), "denied", ""},
		"withheld directory":  {zipped("ok", ".ssh/id"), "denied", ""},
		"guarded":             {zipped("ok", ".git/hooks/pre-commit"), "askDenied", ""},
		"over a file":         {zipped("ok", "mine"), "", "exists"},
		"below a file":        {zipped("ok", "mine/x"), "", "exists"},
		"a file for a dir":    {zipped("ok", "d"), "", "exists"},
		"through a link":      {zipped("ok", "out/x"), "", "exists"},
		"twice":               {zipped("ok", "a", "a"), "exists", ""},
		"a link":              {tarred(tar.Header{Name: "ok"}, tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "/etc"}), "unsupported", ""},
		"a link, then a file": {tarred(tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "/tmp"}, tar.Header{Name: "l/x"}), "unsupported", ""},
		"a hard link":         {tarred(tar.Header{Name: "ok"}, tar.Header{Typeflag: tar.TypeLink, Name: "l", Linkname: "/etc/passwd"}), "unsupported", ""},
		"a device":            {tarred(tar.Header{Name: "ok"}, tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}), "notRegular", ""},
		"70,000 files":        {zipped(many...), "limit", ""},
		"a bomb":              {bomb.Bytes(), "limit", ""},
		"no archive":          {[]byte(strings.Repeat("x", 1000)), "invalid", ""},
		"nothing":             {nil, "invalid", ""},
	} {
		_, err := d.Put(t.Context(), "a.bin", bytes.NewReader(c.archive), vfs.If{})
		ok(t, err)
		before := pictureOf(t, filepath.Dir(h.served))
		if c.want != "" {
			tried++
			_, err := d.Extract(t.Context(), "a.bin", d, "new")
			is(t, name, err, c.want)
		}
		tried++
		_, err = d.Extract(t.Context(), "a.bin", d, "there")
		is(t, name+", in a directory that is there", err, cmp.Or(c.add, c.want))
		tried++
		_, err = d.ReadOnly().Extract(t.Context(), "a.bin", d.ReadOnly(), "new")
		is(t, name+", with no right to write", err, "readOnly")
		if after := pictureOf(t, filepath.Dir(h.served)); after != before {
			t.Errorf("%s: there is\n%s\nand was\n%s", name, after, before)
		}
	}
	t.Logf("archives: %d attempts, nothing made", tried)
}

// zeros yields zeros without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// pictureOf lists what is below a directory of this machine, but for what the host keeps for itself.
func pictureOf(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	ok(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasPrefix(e.Name(), ".capd-") || strings.HasPrefix(e.Name(), "state") {
			return fs.SkipDir
		}
		fmt.Fprintln(&all, path, e.Type())
		return nil
	}))
	return all.String()
}
