package floor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"path"

	"capd/bench/load"
)

// A caller is a Client or a PingPong.
type caller interface {
	call(op uint32, payload, into []byte) (int, error)
}

// Load runs the benchmark's operations on the floor.
type Load struct {
	Table []byte
	Calls caller
	Dial  func() (net.Conn, error) // makes another connection, for transfers without frames
}

// Op implements load.Client.
func (l *Load) Op(op string, size int) (func(worker int) func() error, error) {
	pieces := load.Pieces(l.Table, max(1, min(size, len(l.Table))))
	switch op {
	case load.Echo:
		return func(worker int) func() error {
			into := make([]byte, size)
			return load.InTurn(pieces, worker, func(p *load.Piece) error {
				n, err := l.Calls.call(opEcho, p.Bytes, into)
				if err != nil {
					return err
				}
				return p.Check(into[:n])
			})
		}, nil
	case load.ChainSeq: // there are no capabilities here, so it is as many small calls
		return func(worker int) func() error {
			into := make([]byte, size)
			return load.InTurn(pieces, worker, func(p *load.Piece) error {
				for range load.ChainCalls {
					n, err := l.Calls.call(opEcho, p.Bytes, into)
					if err != nil {
						return err
					}
					if err := p.Check(into[:n]); err != nil {
						return err
					}
				}
				return nil
			})
		}, nil
	case load.Read, load.Pread:
		code := uint32(opRead)
		if op == load.Pread {
			code = opPread
		}
		return func(worker int) func() error {
			into, ask := make([]byte, size), make([]byte, 8)
			return load.InTurn(pieces, worker, func(p *load.Piece) error {
				binary.LittleEndian.PutUint32(ask, p.Offset)
				binary.LittleEndian.PutUint32(ask[4:], uint32(size))
				n, err := l.Calls.call(code, ask, into)
				if err != nil {
					return err
				}
				return p.Check(into[:n])
			})
		}, nil
	case load.Write:
		return func(worker int) func() error {
			into := make([]byte, 4)
			return load.InTurn(pieces, worker, func(p *load.Piece) error {
				if _, err := l.Calls.call(opWrite, p.Bytes, into); err != nil {
					return err
				}
				return p.CheckSum(binary.LittleEndian.Uint32(into))
			})
		}, nil
	case load.Whole, load.DeepFile, load.Version: // the floor has no versions
		whole := load.FileOf(l.Table, size)
		return func(int) func() error {
			into := make([]byte, size)
			return func() error {
				n, err := l.Calls.call(opWhole, []byte(load.At(op, load.FileName(size))), into)
				if err != nil {
					return err
				}
				return whole.Check(into[:n])
			}
		}, nil
	case load.Put:
		return func(worker int) func() error {
			name := path.Join(load.PutDir, fmt.Sprint("floor", worker))
			var b []byte
			return load.InTurn(pieces, worker, func(p *load.Piece) error {
				b = binary.LittleEndian.AppendUint32(b[:0], uint32(len(name)))
				b = append(append(b, name...), p.Bytes...)
				_, err := l.Calls.call(opPut, b, nil)
				return err
			})
		}, nil
	case load.Stat, load.DeepStat:
		return func(int) func() error {
			into := make([]byte, 16)
			return func() error {
				if _, err := l.Calls.call(opStat, []byte(load.At(op, load.TableFile)), into); err != nil {
					return err
				}
				return load.CheckStat(int64(binary.LittleEndian.Uint64(into)))
			}
		}, nil
	case load.List, load.HeldList:
		code, path := uint32(opList), []byte(load.ListedDir)
		if op == load.HeldList {
			code, path = opHeldList, nil
		}
		return func(int) func() error {
			into := make([]byte, 64<<10)
			return func() error {
				n, err := l.Calls.call(code, path, into)
				if err != nil {
					return err
				}
				return load.CheckList(bytes.Count(into[:n], []byte{0}))
			}
		}, nil
	case load.Stream:
		return l.stream(size)
	case load.Download:
		return l.download()
	}
	return nil, load.ErrUnsupported
}

// stream sends bytes over a raw socket.
func (l *Load) stream(size int) (func(worker int) func() error, error) {
	s := load.NewStreamed(l.Table, size)
	return func(int) func() error {
		conn, err := l.Dial()
		if err == nil {
			w := newWriter(conn)
			w.frame(0, opRaw, nil)
			err = w.flush()
		}
		var sum [4]byte
		return func() error {
			if err != nil {
				return err
			}
			for chunk := range s.Chunks() {
				if _, err := conn.Write(chunk); err != nil {
					return err
				}
			}
			if _, err := io.ReadFull(conn, sum[:]); err != nil {
				return err
			}
			return s.Check(binary.LittleEndian.Uint32(sum[:]))
		}
	}, nil
}

// download receives bytes over a raw socket.
func (l *Load) download() (func(worker int) func() error, error) {
	s := load.NewStreamed(l.Table, load.TableBytes)
	return func(int) func() error {
		conn, err := l.Dial()
		var head [headerBytes]byte
		b := make([]byte, 256<<10)
		return func() error {
			if err != nil {
				return err
			}
			w := newWriter(conn)
			w.frame(0, opDownload, []byte(load.BigFile))
			if err := w.flush(); err != nil {
				return err
			}
			if _, err := io.ReadFull(conn, head[:]); err != nil {
				return err
			}
			if _, _, op := header(head[:]); op != opDownload {
				return fmt.Errorf("the download failed")
			}
			var sum uint32
			for left := load.StreamBytes; left > 0; {
				n, err := conn.Read(b[:min(left, len(b))])
				if err != nil {
					return err
				}
				sum = load.Add(sum, b[:n])
				left -= n
			}
			return s.Check(sum)
		}
	}, nil
}
