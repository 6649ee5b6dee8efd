package cas

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"capd/vfs"
)

// MaxDirectory is the largest size, in bytes, of the message of one directory.
const MaxDirectory = 32 << 20

// MaxNodes is how many nodes one directory may have. A message of [MaxDirectory] has
// room for fewer files or directories, but for many more short links. A directory with
// MaxNodes needs about 100 MiB of memory.
const MaxNodes = 500_000

// directory is a Directory message. Its nodes are in byte order of names. Node
// properties, which other programs may set, are kept unchanged and ignored.
type directory struct {
	nodes      []node
	properties []byte
}

// node is a FileNode, a DirectoryNode or a SymlinkNode, according to kind.
type node struct {
	name       string
	target     string // of a link
	properties []byte // of a file or a link
	digest     Digest // of a file or a directory
	kind       vfs.Kind
	exec       bool
}

// Field numbers of the messages.
const (
	dirFiles, dirDirectories, dirSymlinks, dirProperties = 1, 2, 3, 5
	nodeName, nodeDigest, nodeTarget                     = 1, 2, 2
	fileExec, fileProperties, linkProperties             = 4, 6, 4
	digestHash, digestSize                               = 1, 2
)

// kindOf maps a field of Directory to the kind of its nodes.
var kindOf = [...]vfs.Kind{dirFiles: vfs.FileKind, dirDirectories: vfs.DirKind, dirSymlinks: vfs.LinkKind}

// find returns the node called name, or nil.
func (d *directory) find(name string) *node {
	i, ok := slices.BinarySearchFunc(d.nodes, name, func(n node, name string) int { return strings.Compare(n.name, name) })
	if !ok {
		return nil
	}
	return &d.nodes[i]
}

// weight returns about how many bytes of memory d needs.
func (d *directory) weight() int64 {
	weight := int64(len(d.properties)) + 64
	for i := range d.nodes {
		n := &d.nodes[i]
		weight += int64(unsafe.Sizeof(*n)) + int64(len(n.name)+len(n.target)+len(n.properties))
	}
	return weight
}

// sort sorts the nodes. If two have the same name it returns that name and false.
func (d *directory) sort() (twice string, ok bool) {
	slices.SortFunc(d.nodes, func(a, b node) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(d.nodes); i++ {
		if d.nodes[i].name == d.nodes[i-1].name {
			return d.nodes[i].name, false
		}
	}
	return "", true
}

// encode appends the canonical form of d, which must be sorted: lists in byte order of
// names, fields in order of their numbers, no default values.
func (d *directory) encode(b []byte) []byte {
	var scratch []byte
	for field := protowire.Number(dirFiles); field <= dirSymlinks; field++ {
		for i := range d.nodes {
			if n := &d.nodes[i]; n.kind == kindOf[field] {
				scratch = n.encode(scratch[:0])
				b = appendBytes(b, field, scratch)
			}
		}
	}
	return appendProperties(b, dirProperties, d.properties)
}

func (n *node) encode(b []byte) []byte {
	b = appendString(b, nodeName, n.name)
	switch n.kind {
	case vfs.LinkKind:
		b = appendString(b, nodeTarget, n.target)
		b = appendProperties(b, linkProperties, n.properties)
	case vfs.DirKind:
		b = n.digest.encode(b)
	case vfs.FileKind:
		b = n.digest.encode(b)
		if n.exec {
			b = protowire.AppendVarint(protowire.AppendTag(b, fileExec, protowire.VarintType), 1)
		}
		b = appendProperties(b, fileProperties, n.properties)
	}
	return b
}

// encode appends d as the digest of a node.
func (d Digest) encode(b []byte) []byte {
	digits := hex.EncodedLen(len(d.Hash))
	size := protowire.SizeTag(digestHash) + protowire.SizeBytes(digits)
	if d.Size > 0 {
		size += protowire.SizeTag(digestSize) + protowire.SizeVarint(uint64(d.Size))
	}
	b = protowire.AppendTag(b, nodeDigest, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	b = protowire.AppendTag(b, digestHash, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(digits))
	b = hex.AppendEncode(b, d.Hash[:])
	if d.Size > 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, digestSize, protowire.VarintType), uint64(d.Size))
	}
	return b
}

func appendBytes(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

func appendString(b []byte, field protowire.Number, v string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), v)
}

func appendProperties(b []byte, field protowire.Number, v []byte) []byte {
	if v == nil {
		return b
	}
	return appendBytes(b, field, v)
}

// decode parses a Directory message from an untrusted source. It accepts only the
// canonical form of a directory with valid names, and answers corrupt for anything
// else. It answers tooLarge above [MaxDirectory] and [MaxNodes].
func decode(message []byte) (*directory, error) {
	if len(message) > MaxDirectory {
		return nil, errDirectorySize
	}
	count := countNodes(message)
	if count > MaxNodes {
		return nil, errDirectoryNodes
	}
	d := &directory{nodes: make([]node, 0, count)}
	var last protowire.Number
	var canonical, scratch []byte
	rest := message // from the present field on
	err := fields(message, func(field protowire.Number, v value) (err error) {
		canonical = canonical[:0]
		switch field {
		case dirFiles, dirDirectories, dirSymlinks:
			n := node{kind: kindOf[field]}
			if err = n.decode(v.bytes); err != nil {
				return err
			}
			if field < last || field == last && d.nodes[len(d.nodes)-1].name >= n.name {
				return malformed("nodes out of order")
			}
			d.nodes = append(d.nodes, n)
			scratch = n.encode(scratch[:0])
			canonical = appendBytes(canonical, field, scratch)
		case dirProperties:
			if field == last {
				return malformed("properties twice")
			}
			if d.properties, err = properties(v.bytes); err != nil {
				return err
			}
			canonical = appendProperties(canonical, field, d.properties)
		default:
			return malformed("a field that is not known")
		}
		last = field
		// A message is canonical if encode makes the same bytes. This finds overlong
		// numbers and repeated fields of a node.
		var ok bool
		if rest, ok = bytes.CutPrefix(rest, canonical); !ok {
			return malformed("an encoding that is not canonical")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if twice, ok := d.sort(); !ok { // in two lists
		return nil, malformed("two nodes of the name " + vfs.Printable(twice))
	}
	return d, nil
}

// countNodes returns how many nodes a message has, as far as it is valid.
func countNodes(message []byte) (n int) {
	_ = fields(message, func(field protowire.Number, _ value) error {
		if field <= dirSymlinks {
			n++
		}
		return nil
	})
	return n
}

func (n *node) decode(message []byte) error {
	err := fields(message, func(field protowire.Number, v value) (err error) {
		switch {
		case field == nodeName:
			n.name, err = text(v.bytes)
		case field == nodeTarget && n.kind == vfs.LinkKind:
			n.target, err = text(v.bytes)
		case field == nodeDigest && n.kind != vfs.LinkKind:
			err = n.digest.decode(v.bytes)
		case field == fileExec && n.kind == vfs.FileKind:
			n.exec = v.number == 1
		case field == fileProperties && n.kind == vfs.FileKind, field == linkProperties && n.kind == vfs.LinkKind:
			n.properties, err = properties(v.bytes)
		default:
			err = malformed("a field that is not known")
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case vfs.CheckName(n.name) != nil:
		return malformed("a name that nothing can have")
	case n.kind == vfs.LinkKind && vfs.CheckTarget(n.target) != nil:
		return malformed("a link without a target, or with one that no link can have")
	case n.kind == vfs.DirKind && n.digest.Size > MaxDirectory:
		return errDirectorySize
	}
	return nil
}

func (d *Digest) decode(message []byte) error {
	return fields(message, func(field protowire.Number, v value) error {
		switch field {
		case digestHash:
			if !parseHash(&d.Hash, string(v.bytes)) {
				return malformed("a hash that is not a sha256")
			}
		case digestSize:
			d.Size = int64(v.number)
			if d.Size < 0 {
				return malformed("a size below 0")
			}
		default:
			return malformed("a field that is not known")
		}
		return nil
	})
}

// value is the value of a field: number for a varint.
type value struct {
	bytes  []byte
	number uint64
}

// fields calls visit for every field of a message.
func fields(message []byte, visit func(protowire.Number, value) error) error {
	for len(message) > 0 {
		field, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return malformed("bytes that are no message")
		}
		message = message[n:]
		var v value
		switch typ {
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			v.number, n = protowire.ConsumeVarint(message)
		default:
			return malformed("a field of another type")
		}
		if n < 0 {
			return malformed("bytes that are no message")
		}
		message = message[n:]
		if err := visit(field, v); err != nil {
			return err
		}
	}
	return nil
}

// properties returns a NodeProperties message unchanged, but never nil, if it consists
// of fields.
func properties(message []byte) ([]byte, error) {
	for rest := message; len(rest) > 0; {
		_, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			return nil, malformed("node properties that are no message")
		}
		rest = rest[n:]
	}
	return append([]byte{}, message...), nil
}

func text(b []byte) (string, error) {
	if !utf8.Valid(b) {
		return "", malformed("text that is not UTF-8")
	}
	return string(b), nil
}

var errDirectorySize = vfs.Errorf(vfs.TooLarge, "the message of a directory is longer than %d MiB", MaxDirectory>>20)

var errDirectoryNodes = vfs.Errorf(vfs.TooLarge, "a directory has more than %d nodes", MaxNodes)

func malformed(what string) error {
	return vfs.Errorf(vfs.Corrupt, "a stored directory has %s; put the tree again", what)
}
