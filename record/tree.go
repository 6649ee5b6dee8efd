package record

import (
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// The hash of every complete subtree of blockLevel and of superLevel is kept in the database. The first says which
// entries are wrong, and both together let a start find the top of the tree without reading every entry.
const (
	blockLevel = 8
	superLevel = 16
	blockSize  = 1 << blockLevel
)

// frontier is a Merkle tree (RFC 6962) of which only the complete subtrees without a parent are kept.
type frontier struct {
	size int64 // leaves
	tops []top // the largest first
}

type top struct {
	level int
	hash  tlog.Hash
}

// block is a complete subtree: the nth of its level.
type block struct {
	level int
	n     int64
	hash  tlog.Hash
}

// add adds a complete subtree behind the others, usually a leaf, which has the level 0. It returns the blocks that this
// completes.
func (f *frontier) add(level int, h tlog.Hash) (whole []block) {
	f.size += 1 << level
	for n := len(f.tops) - 1; n >= 0 && f.tops[n].level == level; n-- {
		h = tlog.NodeHash(f.tops[n].hash, h)
		f.tops = f.tops[:n]
		if level++; level == blockLevel || level == superLevel {
			whole = append(whole, block{level, f.size>>level - 1, h})
		}
	}
	f.tops = append(f.tops, top{level, h})
	return whole
}

// root returns the hash of the tree. There is at least one leaf.
func (f *frontier) root() tlog.Hash {
	h := f.tops[len(f.tops)-1].hash
	for _, t := range slices.Backward(f.tops[:len(f.tops)-1]) {
		h = tlog.NodeHash(t.hash, h)
	}
	return h
}

// clone returns a copy.
func (f *frontier) clone() frontier { return frontier{f.size, slices.Clone(f.tops)} }

// with returns f with the tree of the leaves behind it, which are fewer than those of f's smallest subtree.
func (f *frontier) with(last *frontier) frontier {
	return frontier{f.size + last.size, slices.Concat(f.tops, last.tops)}
}
