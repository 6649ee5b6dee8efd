package load

import (
	"fmt"
	"iter"
)

// InTurn returns an operation that uses the pieces in turn. Workers begin at different pieces.
func InTurn(pieces []Piece, worker int, op func(*Piece) error) func() error {
	i := worker
	return func() error {
		i++
		return op(&pieces[i%len(pieces)])
	}
}

// FileName returns the name of the file of size bytes, which holds the beginning of the table.
func FileName(size int) string { return fmt.Sprintf("%d.txt", size) }

// At returns the path of the file called name that op is about.
func At(op, name string) string {
	if op == DeepStat || op == DeepFile {
		return DeepDir + "/" + name
	}
	return name
}

// FileOf returns the content of FileName.
func FileOf(table []byte, size int) *Piece {
	b := table[:min(size, len(table))]
	return &Piece{0, b, Sum(b)}
}

// CheckStat checks the size of TableFile.
func CheckStat(size int64) error {
	if size != TableBytes {
		return fmt.Errorf("stat answered %d bytes, not %d", size, TableBytes)
	}
	return nil
}

// CheckList checks the number of entries of ListedDir.
func CheckList(n int) error {
	if n != ListedSize {
		return fmt.Errorf("the directory has %d entries, not %d", n, ListedSize)
	}
	return nil
}

// Streamed is the content of BigFile: StreamBytes bytes of the table, repeated, in chunks.
type Streamed struct {
	table []byte
	size  int
	sum   uint32
}

// NewStreamed cuts the transfer into chunks of size bytes.
func NewStreamed(table []byte, size int) *Streamed {
	s := &Streamed{table: table, size: size}
	for chunk := range s.Chunks() {
		s.sum = Add(s.sum, chunk)
	}
	return s
}

// Chunks yields the chunks of one transfer.
func (s *Streamed) Chunks() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for sent := 0; sent < StreamBytes; sent += s.size {
			off := sent % len(s.table)
			if !yield(s.table[off : off+s.size]) {
				return
			}
		}
	}
}

// Check compares the sum of what arrived with that of the transfer.
func (s *Streamed) Check(sum uint32) error {
	if sum != s.sum {
		return fmt.Errorf("the transfer arrived with the sum %08x, not %08x", sum, s.sum)
	}
	return nil
}
