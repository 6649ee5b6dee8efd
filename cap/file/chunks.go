package file

import (
	"sync"

	"capd/cap/wire"
)

// chunks are buffers for reads, up to wire.MaxChunk bytes each.
var chunks pool

type pool struct {
	small, large sync.Pool
}

func (p *pool) of(n int) (*sync.Pool, int) {
	if n <= wire.Chunk {
		return &p.small, wire.Chunk
	}
	return &p.large, wire.MaxChunk
}

func (p *pool) get(n int) []byte {
	from, size := p.of(n)
	if b, ok := from.Get().(*[]byte); ok {
		return (*b)[:n]
	}
	return make([]byte, n, size)
}

func (p *pool) put(b []byte) {
	to, _ := p.of(cap(b))
	b = b[:cap(b)]
	to.Put(&b)
}
