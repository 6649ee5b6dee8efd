// Package load is what all contenders share: the payloads, their checks, and the loop that drives a client.
package load

import (
	"fmt"
	"hash/crc32"
	"os"
)

// TableBytes is the size of the table that payloads are cut from.
const TableBytes = 4 << 20

// offsets is the number of places in the table that are read in turn.
const offsets = 16

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum returns the CRC-32C of b. Every receiver computes it over every payload.
func Sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Add continues a sum.
func Add(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }

// MakeTable returns the table: random letters, digits and two signs, so that it is text for contenders that
// serve only text.
func MakeTable() []byte {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	b := make([]byte, TableBytes)
	x := uint32(2463534242)
	for i := range b { // xorshift: Marsaglia, "Xorshift RNGs", 2003
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = letters[x>>26]
	}
	return b
}

// ReadTable reads the table from a file.
func ReadTable(name string) ([]byte, error) {
	b, err := os.ReadFile(name)
	if err == nil && len(b) != TableBytes {
		err = fmt.Errorf("%s holds %d bytes", name, len(b))
	}
	return b, err
}

// A Piece is a payload: its place in the table, and its sum.
type Piece struct {
	Offset uint32
	Bytes  []byte
	Sum    uint32
}

// Check compares what was received with the piece.
func (p *Piece) Check(got []byte) error {
	if len(got) != len(p.Bytes) {
		return fmt.Errorf("%d bytes arrived, not %d", len(got), len(p.Bytes))
	}
	return p.CheckSum(Sum(got))
}

// CheckSum compares the sum that the receiver computed with the piece's.
func (p *Piece) CheckSum(got uint32) error {
	if got != p.Sum {
		return fmt.Errorf("the payload at %d arrived with the sum %08x, not %08x", p.Offset, got, p.Sum)
	}
	return nil
}

// Pieces cuts payloads of one size from the table.
func Pieces(table []byte, size int) []Piece {
	ps := make([]Piece, offsets)
	for i := range ps {
		off := i * (len(table) - size) / offsets
		b := table[off : off+size : off+size]
		ps[i] = Piece{uint32(off), b, Sum(b)}
	}
	return ps
}
