package git

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/backend/internal/recent"
	"capd/vfs"
)

// FuzzTree reads any bytes as a tree. The names in it are sorted and valid in vfs, and a
// lookup finds each of them.
func FuzzTree(f *testing.F) {
	id := bytes.Repeat([]byte{1}, idLen)
	for _, seed := range []string{"", "100644 a\x00" + string(id), "40000 d\x00" + string(id) + "100644 a\x00" + string(id), "100644 .git\x00" + string(id), "1 a\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		tree, err := parseTree(raw)
		if err != nil {
			return
		}
		last := ""
		for _, off := range tree.at {
			e := tree.entry(off)
			if e.name <= last || vfs.CheckName(e.name) != nil || isDotGit(e.name) {
				t.Fatalf("%q after %q", e.name, last)
			}
			if have, ok := tree.find(e.name); !ok || have != e {
				t.Fatalf("%q is not found", e.name)
			}
			last = e.name
		}
	})
}

// FuzzPatch applies any delta. It never makes more bytes than it announces, and never reads
// outside its base.
func FuzzPatch(f *testing.F) {
	base := []byte("what the delta is based on")
	f.Add(base, []byte{26, 5, 0x90, 4, 1, 'x'})
	f.Add(base, []byte{26, 30, 0xff, 0, 0, 0, 0, 26, 0, 0})
	f.Add([]byte{}, []byte{0, 0})
	f.Fuzz(func(t *testing.T, base, delta []byte) {
		const most = 1 << 16
		if out, err := patch(base, delta, most); err == nil && len(out) > most {
			t.Fatalf("%d bytes", len(out))
		}
	})
}

// FuzzPack opens anything as a pack and its index, and reads every object that it finds.
func FuzzPack(f *testing.F) {
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\x31x\x9c\x03\x00\x00\x00\x00\x01"), []byte("\xfftOc\x00\x00\x00\x02"))
	f.Fuzz(func(t *testing.T, packData, indexData []byte) {
		dir := t.TempDir()
		// The index gets a valid header, so that the fuzzer reaches the rest.
		index := append([]byte("\xfftOc\x00\x00\x00\x02"), make([]byte, 4*256)...)
		count := byte(len(indexData) / (idLen + 8))
		for i := range 256 {
			index[8+4*i+3] = count
		}
		index = append(append(index, indexData[:int(count)*(idLen+8)]...), make([]byte, indexTail)...)
		head := []byte{'P', 'A', 'C', 'K', 0, 0, 0, 2, 0, 0, 0, count}
		for name, data := range map[string][]byte{"p.idx": index, "p.pack": append(append(head, packData...), make([]byte, idLen)...)} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p, err := openPack(hostDir{path: dir}, "p.idx", recent.New[base, whole](1<<16, nil))
		if err != nil {
			return
		}
		defer p.close()
		var id plumbing.Hash
		for i := range int64(count) {
			if err := p.index.ids(id[:], i); err != nil {
				t.Fatal(err)
			}
			if off, ok, err := p.index.find(id); err == nil && ok {
				_, _, _ = p.head(off)
				_, _, _ = p.read(off, 1<<20)
			}
		}
		for off := range int64(len(packData)) {
			_, _, _ = p.read(12+off, 1<<20)
		}
	})
}
