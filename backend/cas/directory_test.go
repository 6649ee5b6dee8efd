package cas

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"capd/vfs"
)

// generated makes the message with the API's own types.
func generated(t testing.TB, m *repb.Directory) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func pb(d Digest) *repb.Digest { return &repb.Digest{Hash: d.String(), SizeBytes: d.Size} }

func TestDirectoryByHand(t *testing.T) {
	// One executable file "baz" of no bytes and one link "l" to "x", as protoc --encode
	// writes them.
	hash := "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	want := "0a4b" + "0a0362617a" + "1242" + "0a40" + hex.EncodeToString([]byte(hash)) + "2001" + "1a06" + "0a016c" + "120178"
	d := directory{nodes: []node{
		{kind: vfs.FileKind, name: "baz", digest: Empty, exec: true},
		{kind: vfs.LinkKind, name: "l", target: "x"},
	}}
	if got := hex.EncodeToString(d.encode(nil)); got != want {
		t.Errorf("encoded as\n%s, want\n%s", got, want)
	}
	if got := DigestOf((&directory{}).encode(nil)); got.String() != hash || got != Empty {
		t.Errorf("the empty directory is %v", got)
	}
}

// The generated types are an independent encoder: the same tree has the same bytes.
func TestDirectoryIsTheAPIs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		m, d := &repb.Directory{}, &directory{}
		names := map[string]bool{}
		for range random.IntN(30) {
			name := strings.Repeat(string(rune('!'+random.IntN(14)))+"é", 1+random.IntN(4)) // '/' is the 15th
			if names[name] {
				continue
			}
			names[name] = true
			digest := DigestOf([]byte(name))
			digest.Size = []int64{0, 1, 127, 128, 1 << 40}[random.IntN(5)]
			switch random.IntN(3) {
			case 0:
				exec := random.IntN(2) == 0
				m.Files = append(m.Files, &repb.FileNode{Name: name, Digest: pb(digest), IsExecutable: exec})
				d.nodes = append(d.nodes, node{kind: vfs.FileKind, name: name, digest: digest, exec: exec})
			case 1:
				digest.Size = min(digest.Size, 300)
				m.Directories = append(m.Directories, &repb.DirectoryNode{Name: name, Digest: pb(digest)})
				d.nodes = append(d.nodes, node{kind: vfs.DirKind, name: name, digest: digest})
			case 2:
				m.Symlinks = append(m.Symlinks, &repb.SymlinkNode{Name: name, Target: "/t/" + name})
				d.nodes = append(d.nodes, node{kind: vfs.LinkKind, name: name, target: "/t/" + name})
			}
		}
		slices.SortFunc(m.Files, func(a, b *repb.FileNode) int { return strings.Compare(a.Name, b.Name) })
		slices.SortFunc(m.Directories, func(a, b *repb.DirectoryNode) int { return strings.Compare(a.Name, b.Name) })
		slices.SortFunc(m.Symlinks, func(a, b *repb.SymlinkNode) int { return strings.Compare(a.Name, b.Name) })
		if twice, ok := d.sort(); !ok {
			t.Fatalf("two nodes are called %q", twice)
		}
		message := generated(t, m)
		if got := d.encode(nil); !bytes.Equal(got, message) {
			t.Fatalf("%v is encoded as\n%x, want\n%x", m, got, message)
		}
		read, err := decode(message)
		if err != nil {
			t.Fatalf("%v: %v", m, err)
		}
		for i, n := range read.nodes {
			if w := d.nodes[i]; n.name != w.name || n.kind != w.kind || n.exec != w.exec || n.target != w.target || n.digest != w.digest {
				t.Fatalf("%+v was read, want %+v", n, w)
			}
		}
	}
}

// Another program that makes trees may set node properties. They are no reason to refuse
// a tree.
func TestDirectoryWithProperties(t *testing.T) {
	properties := &repb.NodeProperties{Mtime: &timestamppb.Timestamp{Seconds: 5}, Properties: []*repb.NodeProperty{{Name: "a", Value: "b"}}}
	message := generated(t, &repb.Directory{
		Files:          []*repb.FileNode{{Name: "f", Digest: pb(Empty), NodeProperties: properties}, {Name: "g", Digest: pb(Empty), NodeProperties: &repb.NodeProperties{}}},
		Symlinks:       []*repb.SymlinkNode{{Name: "l", Target: "f", NodeProperties: properties}},
		NodeProperties: properties,
	})
	d, err := decode(message)
	if err != nil || len(d.nodes) != 3 {
		t.Fatalf("%+v, %v", d, err)
	}
}

func hostileDirectories(t testing.TB) map[string][]byte {
	file := func(name string) *repb.FileNode { return &repb.FileNode{Name: name, Digest: pb(Empty)} }
	sub := func(name string) *repb.DirectoryNode { return &repb.DirectoryNode{Name: name, Digest: pb(Empty)} }
	files := func(all ...*repb.FileNode) []byte { return generated(t, &repb.Directory{Files: all}) }
	digest := func(hash string, size int64) []byte {
		return files(&repb.FileNode{Name: "f", Digest: &repb.Digest{Hash: hash, SizeBytes: size}})
	}
	link := func(target string) []byte {
		return generated(t, &repb.Directory{Symlinks: []*repb.SymlinkNode{{Name: "l", Target: target}}})
	}
	fine := files(file("f"))
	all := map[string][]byte{
		"unsorted files":               files(file("b"), file("a")),
		"unsorted directories":         generated(t, &repb.Directory{Directories: []*repb.DirectoryNode{sub("b"), sub("a")}}),
		"unsorted links":               generated(t, &repb.Directory{Symlinks: []*repb.SymlinkNode{{Name: "b", Target: "x"}, {Name: "a", Target: "x"}}}),
		"a name twice":                 files(file("a"), file("a")),
		"a name in two lists":          generated(t, &repb.Directory{Files: []*repb.FileNode{file("a")}, Directories: []*repb.DirectoryNode{sub("a")}}),
		"no digest":                    files(&repb.FileNode{Name: "f"}),
		"a short hash":                 digest("e3b0", 0),
		"a long hash":                  digest(Empty.String()+"00", 0),
		"a hash in capitals":           digest(strings.ToUpper(Empty.String()), 0),
		"a hash that is none":          digest(strings.Repeat("g", 64), 0),
		"a size below 0":               digest(Empty.String(), -1),
		"a link without a target":      link(""),
		"a link to a NUL":              link("a\x00"),
		"a link with a long target":    link(strings.Repeat("x", vfs.MaxPath+1)),
		"a field that is not known":    append(slices.Clone(fine), 0x3a, 0x01, 0x00),
		"a group":                      {0x0b, 0x0c},
		"half a message":               fine[:len(fine)-1],
		"lists out of order":           append(generated(t, &repb.Directory{Directories: []*repb.DirectoryNode{sub("a")}}), fine...),
		"properties twice":             {0x2a, 0x00, 0x2a, 0x00},
		"files after properties":       append([]byte{0x2a, 0x00}, fine...),
		"no bytes where a field is":    {0x0a},
		"a length beyond the end":      {0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f},
		"a length in too many bytes":   append([]byte{0x0a, fine[1] | 0x80, 0x00}, fine[2:]...),
		"a file of a directory's form": {0x0a, 0x00},
	}
	for _, name := range []string{"", ".", "..", "a/b", "/", "a\x00b", strings.Repeat("n", 256)} {
		all["a file called "+name] = files(file(name))
		all["a directory called "+name] = generated(t, &repb.Directory{Directories: []*repb.DirectoryNode{sub(name)}})
	}
	notUTF8 := bytes.Clone(files(file("\x01")))
	notUTF8[bytes.IndexByte(notUTF8, 1)+0] = 0xff
	all["a name that is not UTF-8"] = notUTF8
	all["false that is said"] = bytes.Replace(files(&repb.FileNode{Name: "f", Digest: pb(Empty), IsExecutable: true}), []byte{0x20, 0x01}, []byte{0x20, 0x00}, 1)
	return all
}

func TestDirectoryRefusesWhatIsNotCanonical(t *testing.T) {
	for what, message := range hostileDirectories(t) {
		if d, err := decode(message); vfs.CodeOf(err) != vfs.Corrupt {
			t.Errorf("%.40q: %+v, %v, want corrupt", what, d, err)
		}
	}
	big := Empty
	big.Size = MaxDirectory + 1
	message := generated(t, &repb.Directory{Directories: []*repb.DirectoryNode{{Name: "d", Digest: pb(big)}}})
	if _, err := decode(message); vfs.CodeOf(err) != vfs.TooLarge {
		t.Errorf("a directory that is too large: %v", err)
	}
	if _, err := decode(make([]byte, MaxDirectory+1)); vfs.CodeOf(err) != vfs.TooLarge {
		t.Errorf("a message that is too large: %v", err)
	}
}

// With short links too, a directory cannot have more nodes than others may have.
func TestDirectoryBoundsNodes(t *testing.T) {
	links := &directory{}
	for i := range MaxNodes + 1 {
		links.nodes = append(links.nodes, node{kind: vfs.LinkKind, name: fmt.Sprintf("%06d", i), target: "x"})
	}
	if _, err := decode(links.encode(nil)); vfs.CodeOf(err) != vfs.TooLarge {
		t.Errorf("one node too many: %v", err)
	}
	if err := (&pendingDir{nodes: links.nodes}).store(t.Context()); vfs.CodeOf(err) != vfs.TooLarge {
		t.Errorf("storing one node too many: %v", err)
	}
	links.nodes = links.nodes[1:]
	if d, err := decode(links.encode(nil)); err != nil || len(d.nodes) != MaxNodes || cap(d.nodes) != MaxNodes {
		t.Errorf("as many as there may be: %v", err)
	}
}

// FuzzDirectory: what decode accepts is what the API's types read, and no other bytes
// mean the same.
func FuzzDirectory(f *testing.F) {
	for _, message := range hostileDirectories(f) {
		f.Add(message)
	}
	f.Add(generated(f, &repb.Directory{
		Files:       []*repb.FileNode{{Name: "a", Digest: pb(Empty), IsExecutable: true}, {Name: "b", Digest: pb(DigestOf([]byte("b")))}},
		Directories: []*repb.DirectoryNode{{Name: "d", Digest: pb(Empty)}},
		Symlinks:    []*repb.SymlinkNode{{Name: "l", Target: "../x"}},
	}))
	f.Fuzz(func(t *testing.T, message []byte) {
		d, err := decode(message)
		if err != nil {
			if c := vfs.CodeOf(err); c != vfs.Corrupt && c != vfs.TooLarge {
				t.Fatalf("an error of the code %s: %v", c, err)
			}
			return
		}
		if d.properties != nil || slices.ContainsFunc(d.nodes, func(n node) bool { return n.properties != nil }) {
			return // which are not looked into
		}
		m := &repb.Directory{}
		if err := proto.Unmarshal(message, m); err != nil {
			t.Fatalf("the API's types do not read it: %v", err)
		}
		if n := len(m.Files) + len(m.Directories) + len(m.Symlinks); n != len(d.nodes) {
			t.Fatalf("%d nodes, want %d", len(d.nodes), n)
		}
		for i, n := range d.nodes {
			if vfs.CheckName(n.name) != nil || i > 0 && d.nodes[i-1].name >= n.name || d.find(n.name) != &d.nodes[i] {
				t.Fatalf("node %d is called %q", i, n.name)
			}
		}
		for _, n := range m.Files {
			if found := d.find(n.Name); found == nil || found.kind != vfs.FileKind || found.exec != n.IsExecutable ||
				found.digest.String() != n.Digest.Hash || found.digest.Size != n.Digest.SizeBytes {
				t.Fatalf("%v was read as %+v", n, found)
			}
		}
	})
}

func TestDigestText(t *testing.T) {
	hash := strings.Repeat("0123456789abcdef", 4)
	for text, size := range map[string]int64{hash: -1, hash + "/0": 0, hash + "/17": 17, hash + "/9223372036854775807": 1<<63 - 1} {
		var d Digest
		if err := d.UnmarshalText([]byte(text)); err != nil || d.Size != size || d.String() != hash {
			t.Errorf("%s: %v %d, %v", text, d, d.Size, err)
		}
		if again, err := d.MarshalText(); err != nil || string(again) != text {
			t.Errorf("%s is written as %s, %v", text, again, err)
		}
	}
	for _, text := range []string{"", hash[1:], hash + "0", strings.ToUpper(hash), "g" + hash[1:], hash + "/", hash + "/-1", hash + "/01",
		hash + "/+1", hash + "/9223372036854775808", hash + "/1/2", hash + " ", "sha256:" + hash} {
		d := Digest{Size: 7}
		if err := d.UnmarshalText([]byte(text)); vfs.CodeOf(err) != vfs.Invalid || d.Size != 7 {
			t.Errorf("%q: %v, %v, want invalid", text, d, err)
		}
	}
}
