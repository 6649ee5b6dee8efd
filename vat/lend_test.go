package vat_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// A ledger takes chunks that repeat one word, and adds up the words.
type ledger struct {
	chunks atomic.Uint64
	sum    atomic.Uint64
}

var errMixed = errors.New("the chunk has changed on its way")

func (l *ledger) write(c vat.Call[tp.Stream_write_Params, vat.Empty]) error {
	b, err := c.Params().Data()
	if err != nil {
		return err
	}
	word := binary.LittleEndian.Uint64(b)
	for i := 0; i < len(b); i += 8 {
		if binary.LittleEndian.Uint64(b[i:]) != word {
			return errMixed
		}
	}
	l.sum.Add(word)
	l.chunks.Add(1)
	return nil
}

// ledgers serves a ledger whose writes run on the reader or in the pool.
func ledgers(inline bool) (*ledger, *vat.Cap) {
	var how []vat.HandleOption
	if inline {
		how = append(how, vat.Inline())
	}
	l := new(ledger)
	return l, vat.Serve(vat.NewTable(vat.Handle(tp.Stream_write, (*ledger).write, how...)), l)
}

func fill(b []byte, word uint64) {
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], word)
	}
}

// lend sends b as a chunk.
func lend(ctx context.Context, c *vat.Cap, b []byte) *vat.Answer[vat.Empty] {
	return vat.Send(ctx, c, tp.Stream_write, func(_ tp.Stream_write_Params, caps *vat.Caps) error {
		return caps.Lend(tp.Stream_write_Params_data, b)
	})
}

// reachOver connects a client to the target of bootstrap, over a and b.
func reachOver(t *testing.T, a, b net.Conn, bootstrap *vat.Cap) (client *vat.Conn, c *vat.Cap) {
	return reachWithin(t, a, b, bootstrap, vat.Limits{})
}

// reachWithin is reachOver with the client's own limits.
func reachWithin(t *testing.T, a, b net.Conn, bootstrap *vat.Cap, limits vat.Limits) (client *vat.Conn, c *vat.Cap) {
	server := vat.NewConn(b, vat.Options{Bootstrap: bootstrap})
	client = vat.NewConn(a, vat.Options{Limits: limits})
	c = client.Bootstrap(t.Context())
	t.Cleanup(func() {
		c.Release()
		client.Close()
		server.Close()
		<-client.Done()
		<-server.Done()
	})
	return client, c
}

// Lent memory belongs to the caller again after Send has returned, however it reached the object.
func TestLend(t *testing.T) {
	const workers, chunks = 4, 30
	for name, reach := range map[string]func(t *testing.T, c *vat.Cap) *vat.Cap{
		"local": func(_ *testing.T, c *vat.Cap) *vat.Cap { return c },
		"unix": func(t *testing.T, c *vat.Cap) *vat.Cap {
			a, b := sockets(t)
			_, c = reachOver(t, a, b, c)
			return c
		},
		"pipe": func(t *testing.T, c *vat.Cap) *vat.Cap {
			a, b := net.Pipe()
			_, c = reachOver(t, a, b, c)
			return c
		},
		"tls": func(t *testing.T, c *vat.Cap) *vat.Cap {
			a, b, _ := secured(t, vat.Gather)
			_, c = reachOver(t, a, b, c)
			return c
		},
	} {
		for _, inline := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", inline"}[inline], func(t *testing.T) {
				l, c := ledgers(inline)
				c = reach(t, c)
				var all sync.WaitGroup
				for w := range uint64(workers) {
					all.Go(func() {
						memory := make([]byte, 200<<10)
						for i := range uint64(chunks) {
							b := memory[:8*(1+int(i)*(len(memory)/8-1)/(chunks-1))]
							fill(b, w<<32|i)
							if i%3 == 0 {
								ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
								err := vat.Do(ctx, c, tp.Stream_write, func(_ tp.Stream_write_Params, caps *vat.Caps) error {
									return caps.Lend(tp.Stream_write_Params_data, b)
								}, nil)
								if err != nil {
									t.Errorf("vat.Do: %v", err)
								}
								cancel()
							} else {
								lend(t.Context(), c, b).Release()
							}
							clear(b)
						}
					})
				}
				all.Wait()
				vat.OK(t, c.Drain(t.Context()))
				if got := l.chunks.Load(); got != workers*chunks {
					t.Errorf("l.chunks.Load() = %d, want %d", got, workers*chunks)
				}
				const sum = chunks*(workers*(workers-1)/2)<<32 + workers*(chunks*(chunks-1)/2)
				if got := l.sum.Load(); got != sum {
					t.Errorf("l.sum.Load() = %d, want %d", got, uint64(sum))
				}
				if name == "local" {
					c.Release()
				}
			})
		}
	}
}

// A dam lies between two connections. While it is locked, nothing reaches the second.
type dam struct{ sync.Mutex }

func dammed(t *testing.T) (a, b net.Conn, d *dam) {
	a, in := sockets(t)
	out, b := sockets(t)
	d = new(dam)
	go func() {
		defer out.Close()
		for buf := make([]byte, 4<<10); ; {
			n, err := in.Read(buf)
			if err != nil {
				return
			}
			d.Lock()
			_, err = out.Write(buf[:n])
			d.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer in.Close()
		_, _ = io.Copy(in, out)
	}()
	return a, b, d
}

// lendStuck makes four callers lend more than the sockets hold to a peer that does not read. It returns when they wait.
func lendStuck(ctx context.Context, t *testing.T) (l *ledger, client *vat.Conn, c *vat.Cap, d *dam, all *sync.WaitGroup, back, failed *atomic.Int64) {
	a, b, d := dammed(t)
	l, c = ledgers(false)
	client, c = reachOver(t, a, b, c)
	vat.OK(t, c.Settle(t.Context()))
	d.Lock()
	all, back, failed = new(sync.WaitGroup), new(atomic.Int64), new(atomic.Int64)
	for w := range uint64(4) {
		all.Go(func() {
			memory := make([]byte, 960<<10)
			fill(memory, w+1)
			answer := lend(ctx, c, memory)
			clear(memory)
			back.Add(1)
			if _, _, err := answer.Await(t.Context()); err != nil {
				failed.Add(1)
			}
			answer.Release()
		})
	}
	time.Sleep(50 * time.Millisecond)
	if got := back.Load(); got >= 4 {
		t.Errorf("back.Load() = %d, want less than 4: what has not left is still lent", got)
	}
	if got := l.chunks.Load(); got != 0 {
		t.Errorf("l.chunks.Load() = %d, want 0", got)
	}
	return l, client, c, d, all, back, failed
}

// A caller that stops waiting for the peer gets the memory back. The peer gets what was in it.
func TestLendGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l, _, c, d, all, back, failed := lendStuck(ctx, t)
	cancel()
	soon(t, func() bool { return back.Load() == 4 }, "the memory does not come back")
	if got := l.chunks.Load(); got != 0 {
		t.Errorf("l.chunks.Load() = %d, want 0", got)
	}
	d.Unlock()
	all.Wait()
	vat.OK(t, c.Drain(t.Context()))
	if got := l.chunks.Load(); got != 4 {
		t.Errorf("l.chunks.Load() = %d, want 4", got)
	}
	if got := l.sum.Load(); got != 1+2+3+4 {
		t.Errorf("l.sum.Load() = %d, want %d", got, 1+2+3+4)
	}
	if got := failed.Load(); got != 0 {
		t.Errorf("failed.Load() = %d, want 0", got)
	}

	err := vat.Do(t.Context(), c, tp.Stream_write, func(_ tp.Stream_write_Params, caps *vat.Caps) error {
		return caps.Lend(tp.Stream_write_Params_data, make([]byte, 4<<20))
	}, nil)
	if err != nil {
		t.Fatalf("a loan after others were given up: %v", err)
	}
}

// When a connection ends, it gives back what it was lent.
func TestLendClosed(t *testing.T) {
	_, client, _, d, all, _, failed := lendStuck(t.Context(), t)
	begun := time.Now()
	client.Close()
	all.Wait()
	if got := time.Since(begun); got >= patience {
		t.Errorf("that took %v, want less than %v", got, patience)
	}
	if got := failed.Load(); got != 4 {
		t.Errorf("failed.Load() = %d, want 4", got)
	}
	d.Unlock()
}

// A peer that takes nothing is given up after Limits.WriteTimeout, even if those who lend to it give up earlier.
func TestLendToNobody(t *testing.T) {
	a, b, d := dammed(t)
	_, c := ledgers(false)
	client, c := reachWithin(t, a, b, c, vat.Limits{WriteTimeout: 200 * time.Millisecond})
	vat.OK(t, c.Settle(t.Context()))
	d.Lock()
	defer d.Unlock()
	memory := make([]byte, 32<<10)
	for begun := time.Now(); client.Err() == nil; {
		if got := time.Since(begun); got >= patience {
			t.Fatalf("that took %v, want less than %v", got, patience)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		lend(ctx, c, memory).Release()
		cancel()
	}
}

// lingering is an object that takes long to end.
type lingering time.Duration

func (s lingering) Release() { time.Sleep(time.Duration(s)) }

// Nothing follows a frame that was cut off, even if the connection takes long to end and the peer reads again.
func TestNothingFollowsACutFrame(t *testing.T) {
	a, b := sockets(t)
	defer b.Close()
	const size = 4 << 20
	write := tp.Stream_write
	write.Stream = false // the second one does not wait for the first
	client := vat.NewConn(a, vat.Options{Bootstrap: vat.Serve(vat.NewTable(), lingering(300*time.Millisecond)), Limits: vat.Limits{WriteTimeout: 200 * time.Millisecond}})
	c := client.Bootstrap(t.Context())
	defer c.Release()
	for _, word := range []uint64{1, 2} {
		vat.Send(t.Context(), c, write, func(_ tp.Stream_write_Params, caps *vat.Caps) error {
			b, err := caps.Data(tp.Stream_write_Params_data, size)
			fill(b, word)
			return err
		}).Release()
	}
	time.Sleep(100 * time.Millisecond)
	go client.Close()                  // it waits for the object's end;
	time.Sleep(150 * time.Millisecond) // meanwhile the write has timed out,
	all, err := io.ReadAll(b)          // and the peer reads on
	vat.OK(t, err)
	if got := len(all); got >= size {
		t.Errorf("len(all) = %d, want less than %d", got, size)
	}
	<-client.Done()
}

// A write has its own time limit, and not the rest of the limit of the write before.
func TestOldWriteTimeout(t *testing.T) {
	a, b, d := dammed(t)
	_, c := ledgers(true)
	client, c := reachWithin(t, a, b, c, vat.Limits{WriteTimeout: 250 * time.Millisecond})
	vat.OK(t, c.Settle(t.Context()))
	memory := make([]byte, 4<<20)
	for range 3 {
		d.Lock()
		time.AfterFunc(20*time.Millisecond, d.Unlock)
		lend(t.Context(), c, memory).Release() // waits for the dam, and has until then
		vat.OK(t, c.Drain(t.Context()))
		time.Sleep(300 * time.Millisecond)
		lend(t.Context(), c, memory[:1<<10]).Release() // is written at once
		vat.OK(t, c.Drain(t.Context()))
	}
	vat.OK(t, client.Err())
}
