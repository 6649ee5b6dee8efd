package tests

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	schema "capd/capnp"
)

// frameAttacks send data that is not a message, or a message that cannot be read.
func frameAttacks() []hostileRow {
	hello := append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, pattern(0, 500)...)
	return []hostileRow{
		bytesThat("TLS", "segments", hello),
		bytesThat("HTTP", "segments", []byte("GET / HTTP/1.1\r\nHost: capd\r\nConnection: keep-alive\r\n\r\n")),
		bytesThat("SSH", "segments", []byte("SSH-2.0-OpenSSH_10.0\r\n")),
		bytesThat("nothing but zeros", "without a root", make([]byte, 4096)),
		bytesThat("nothing but ones", "segments", bytes.Repeat([]byte{0xff}, 4096)),
		{name: "garbage", must: "the connection ends, and no other", do: func(a *assault) {
			rnd := rand.New(rand.NewPCG(1, uint64(a.round)))
			b := make([]byte, 1+rnd.IntN(4096))
			for i := range b {
				b[i] = byte(rnd.Uint32())
			}
			if a.round%2 == 0 { // so that at least the header is valid
				copy(b, header(0, uint32(len(b)/8)))
			}
			a.stranger().say(b)
		}},
		bytesThat("four billion segments", "segments", header(0xffff_ffff, 1)),
		bytesThat("a message of 32 GiB", "limit", header(0, 0xffff_ffff)),
		bytesThat("segments that come to terabytes", "limit", slicesOf(header(511, 0xffff_ffff), bytes.Repeat([]byte{0xff}, 512*4))),
		bytesThat("512 empty segments", "without a root", slicesOf(header(511, 0), make([]byte, 512*4))),
		bytesThat("a root in an empty segment", "malformed", slicesOf(header(1, 0), []byte{1, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 8))),
		bytesThat("a far pointer to itself", "malformed", words(far(0, 0))),
		bytesThat("far pointers in circles", "malformed", segments([]uint64{far(1, 0)}, []uint64{far(0, 0)})),
		bytesThat("a landing pad that is not there", "malformed", words(far(7, 0)|4)),
		bytesThat("a double far pointer in circles", "malformed", segments([]uint64{far(1, 0) | 4}, []uint64{far(1, 0), far(1, 0) | 4})),
		bytesThat("a root that points out of the message", "malformed", words(uint64(1)|1<<34|1<<48)),
		bytesThat("a root that is a list", "", words(1|2<<32|8<<35, 0, 0)),
		{name: "pointers of another kind for every parameter", must: "invalid or malformed, each; never internal", do: wrongPointers},
		{name: "deep nesting in what is echoed", must: "an echo or an abort", do: func(a *assault) { echoed(a, nest) }},
		{name: "a tree of pointers to one place in what is echoed", must: "an echo or an abort, no larger than the message", room: 64, do: func(a *assault) { echoed(a, fold) }},
		{name: "a struct that holds itself in what is echoed", must: "an echo or an abort", room: 64, do: func(a *assault) { echoed(a, knot) }},
		{name: "half a billion empty structs in what is echoed", must: "an echo or an abort", room: 64, do: func(a *assault) { echoed(a, amplify) }},
		{name: "half a billion empty entries in a capability table", must: "abort, or an error of that call", room: 64, do: emptyTable},
		{name: "bit flips of an honest session", must: "the connection ends, and no other", do: func(a *assault) {
			session := honestSession(a)
			each(8, func(w int) {
				rnd := rand.New(rand.NewPCG(uint64(a.round), uint64(w)))
				for range 25 {
					b := bytes.Clone(session)
					for range 1 + rnd.IntN(8) {
						b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
					}
					a.stranger().say(b)
				}
			})
		}},
		{name: "an honest session's messages in any order", must: "the connection ends, and no other", do: func(a *assault) {
			frames := framesOf(honestSession(a))
			each(4, func(w int) {
				rnd := rand.New(rand.NewPCG(uint64(a.round), uint64(w)))
				for range 10 {
					var b []byte
					for range 2 * len(frames) {
						b = append(b, frames[rnd.IntN(len(frames))]...)
					}
					a.stranger().say(b)
				}
			})
		}},
		{name: "connections dropped in mid-frame", must: "nothing", do: func(a *assault) {
			session := honestSession(a)
			each(8, func(w int) {
				rnd := rand.New(rand.NewPCG(uint64(a.round), uint64(w)))
				for range 50 {
					nc, err := net.Dial("unix", a.evil.Socket)
					if err != nil {
						continue // the listener's queue is full
					}
					nc.Write(session[:rnd.IntN(len(session))])
					nc.Close()
				}
			})
		}},
		{name: "8-byte headers on 200 connections", must: "nothing: memory follows the bytes that arrive", room: 96, once: true, do: func(a *assault) {
			for range 200 {
				p := a.stranger()
				p.bootstrap(1)
				p.works(1)
				p.hasty = true
				p.bytes(header(0, 1<<20))
				p.flush()
			}
			time.Sleep(100 * time.Millisecond)
		}},
		{name: "8 MiB but for the last byte, on 16 connections", must: "nothing: each takes what has arrived, and half as much again", room: 16*8*3/2 + 64, once: true, do: func(a *assault) {
			body := make([]byte, 8<<20-1)
			each(16, func(int) {
				p := a.stranger()
				p.bootstrap(1)
				p.works(1)
				p.hasty = true
				p.bytes(header(0, 1<<20))
				p.bytes(body)
				p.flush()
			})
			time.Sleep(100 * time.Millisecond)
		}},
		{name: "half-closed sockets", must: "the connection ends", do: func(a *assault) {
			each(20, func(i int) {
				p, _, top := a.guest()
				p.call(globFor(1, export(top), "project/hostile/*"))
				p.call(openFile(2, export(top), "project/hostile/big"))
				p.call(read(3, result(2, 0), 0, 1<<20))
				p.flush()
				u := p.nc.(*net.UnixConn)
				if i%2 == 0 {
					u.CloseWrite()
					p.ended()
				} else {
					u.CloseRead()
				}
			})
		}},
	}
}

// lastingAttacks are slow. The host must not wait for them without end.
func lastingAttacks() []hostileRow {
	return []hostileRow{
		lasting("a byte at a time, for ever", "abort: too long, after a minute", "too long", time.Minute, func(nc net.Conn) {
			frame := slicesOf(header(0, 1<<10), make([]byte, 8<<10))
			for i := 0; i < len(frame); i++ {
				if _, err := nc.Write(frame[i : i+1]); err != nil {
					return
				}
				time.Sleep(200 * time.Millisecond)
			}
		}),
		lasting("a connection that says nothing", "abort: too long, after ten seconds", "too long", 10*time.Second, func(net.Conn) {}),
	}
}

// far returns a far pointer to a word of a segment.
func far(segment, word uint64) uint64 { return 2 | word<<3 | segment<<32 }

// segments returns a frame of several segments.
func segments(all ...[]uint64) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(all)-1))
	for _, s := range all {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
	}
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	for _, s := range all {
		for _, w := range s {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
	}
	return b
}

func slicesOf(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// bytesThat returns a row in which a stranger sends b. The host must abort and say why.
func bytesThat(name, why string, b []byte) hostileRow {
	return hostileRow{name: name, must: "abort: " + why, do: func(a *assault) {
		p := a.stranger()
		p.bytes(b)
		p.aborted(why)
	}}
}

// say sends bytes and nothing more, and waits until the connection ends.
func (p *peer) say(b []byte) {
	p.nc.SetWriteDeadline(time.Now().Add(rush()))
	p.nc.Write(b)
	p.nc.(*net.UnixConn).CloseWrite()
	p.ended()
	p.nc.Close()
}

// lasting returns a row of connections that stay open as long as the host lets them. When
// their time is up, the host must end them and say why. The result is checked after
// everything else.
func lasting(name, must, why string, limit time.Duration, do func(net.Conn)) hostileRow {
	const n = 10
	outcomes := make(chan string, n)
	begun := time.Now()
	return hostileRow{
		name: name, must: must, once: true,
		do: func(a *assault) {
			begun = time.Now()
			for range n {
				nc, err := net.Dial("unix", a.evil.Socket)
				ok(a.TB, err)
				a.keeps++
				go func() {
					for {
						at := time.Now()
						go do(nc)
						b, _ := io.ReadAll(nc)
						took := time.Since(at)
						nc.Close()
						switch {
						case len(b) == 0: // a crowd of others sent it away
							if hurried() {
								outcomes <- ""
								return
							}
							if nc, err = net.Dial("unix", a.evil.Socket); err == nil {
								continue
							}
							outcomes <- err.Error()
						case !strings.Contains(string(b), why):
							outcomes <- "the host says " + string(b)
						case took > limit+2*prompt:
							outcomes <- "it took " + took.String()
						default:
							outcomes <- ""
						}
						return
					}
				}()
			}
		},
		later: func() string {
			if !waitFor(time.Until(begun.Add(3*limit+2*prompt)), func() bool { return len(outcomes) == n }) {
				return "a connection goes on"
			}
			for range n {
				if o := <-outcomes; o != "" {
					return o
				}
			}
			return ""
		},
	}
}

// honestSession returns what a guest sends that uses a little of everything.
func honestSession(a *assault) []byte {
	var b []byte
	add := func(fill func(rpc.Message) error) { b = append(b, message(a.TB, fill)...) }
	add(func(m rpc.Message) error { _, err := m.NewBootstrap(); return err })
	top := result(1, 0, 0)
	for _, c := range []call{
		restore(1, result(0), a.evil.Secret[:]),
		openFile(2, top, "project/hostile/f"),
		read(3, result(2, 0), 0, 64),
		stream(4, result(2, 0), hosted(5)),
		globFor(5, top, "project/hostile/*"),
		of(6, top, schema.Dir_list, nil),
		of(7, top, schema.Dir_put, func(p schema.Dir_put_Params) error {
			return firstOf(p.SetPath("tmp/flipped"), p.SetData([]byte("honest")))
		}),
		moveTo(8, top, promise(6)),
		of(9, top, schema.Dir_stage, func(p schema.Dir_stage_Params) error { return p.SetPath("tmp/staged") }),
		of(10, result(9, 0), schema.Writer_write, func(p schema.Writer_write_Params) error { return p.SetData(make([]byte, 100)) }),
		of(11, result(9, 0), schema.Writer_commit, nil),
		of(12, top, schema.Dir_revocable, nil),
	} {
		add(c.fill)
	}
	add(func(m rpc.Message) error {
		r, err := m.NewResolve()
		if err != nil {
			return err
		}
		r.SetPromiseId(6)
		d, err := r.NewCap()
		if err != nil {
			return err
		}
		return theirAnswer(12, 0)(d)
	})
	for _, id := range []uint32{0, 1} { // answers to the sink's calls, sent in advance
		add(func(m rpc.Message) error {
			r, err := m.NewReturn()
			if err != nil {
				return err
			}
			r.SetAnswerId(id)
			return empty(r)
		})
	}
	for q := range uint32(13) {
		add(func(m rpc.Message) error {
			f, err := m.NewFinish()
			f.SetQuestionId(q)
			return err
		})
	}
	return b
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// framesOf splits a session into its frames. Each message has one segment.
func framesOf(b []byte) (frames [][]byte) {
	for len(b) > 0 {
		n := 8 + 8*int(binary.LittleEndian.Uint32(b[4:]))
		frames = append(frames, b[:n])
		b = b[n:]
	}
	return frames
}

// wrongPointers sets every parameter of some methods to a pointer of the wrong kind.
func wrongPointers(a *assault) {
	p, top, file := a.holding()
	q := uint32(1)
	for _, m := range []struct {
		id    uint32
		iface uint64
		n     uint16
	}{
		{top, schema.Dir_TypeID, schema.Dir_walk.ID}, {top, schema.Dir_TypeID, schema.Dir_put.ID}, {top, schema.Dir_TypeID, schema.Dir_move.ID},
		{top, schema.Dir_TypeID, schema.Dir_glob.ID}, {top, schema.Dir_TypeID, schema.Dir_list.ID}, {top, schema.Dir_TypeID, schema.Dir_help.ID},
		{file, schema.File_TypeID, schema.File_stream.ID}, {file, schema.File_TypeID, schema.File_append.ID}, {file, schema.File_TypeID, schema.File_stage.ID},
	} {
		for kind := range 7 {
			p.call(call{q: q, to: export(m.id), iface: m.iface, method: m.n, params: func(w rpc.Payload) error {
				s, err := capnp.NewStruct(w.Segment(), capnp.ObjectSize{DataSize: 16, PointerCount: 5})
				if err != nil {
					return err
				}
				for i := range uint16(5) {
					ptr, err := odd(s, kind)
					if err != nil {
						return err
					}
					if err := s.SetPtr(i, ptr); err != nil {
						return err
					}
				}
				return w.SetContent(s.ToPtr())
			}})
			if r := p.ret(q); r.Which() == rpc.Return_Which_exception {
				e, err := r.Exception()
				ok(p, err)
				if why, _ := e.Reason(); coded(why, "internal") {
					p.Errorf("method %d of %x with a pointer of kind %d: %s", m.n, m.iface, kind, why)
				}
			} else {
				p.finish(q, true)
			}
			q++
		}
	}
	p.alive(top)
}

// odd returns a pointer of this kind.
func odd(s capnp.Struct, kind int) (capnp.Ptr, error) {
	seg := s.Segment()
	switch kind {
	case 0:
		in, err := capnp.NewStruct(seg, capnp.ObjectSize{DataSize: 8, PointerCount: 2})
		return in.ToPtr(), err
	case 1:
		l, err := capnp.NewPointerList(seg, 3)
		return l.ToPtr(), err
	case 2:
		l, err := capnp.NewUInt64List(seg, 3)
		return l.ToPtr(), err
	case 3:
		l, err := capnp.NewCompositeList(seg, capnp.ObjectSize{PointerCount: 1}, 3)
		return l.ToPtr(), err
	case 4:
		return capnp.NewInterface(seg, 3).ToPtr(), nil
	case 5:
		l, err := capnp.NewBitList(seg, 100)
		return l.ToPtr(), err
	}
	return s.ToPtr(), nil // it points to itself
}

// echoed sends a message of a type that the host does not know, with content that fill
// makes.
func echoed(a *assault, fill func(capnp.Struct) (capnp.Ptr, error)) {
	p, _, top := a.guest()
	for range 20 {
		p.send(func(m rpc.Message) error {
			j, err := m.NewJoin()
			if err != nil {
				return err
			}
			inner, err := fill(capnp.Struct(j))
			if err != nil {
				return err
			}
			return j.SetKeyPart(inner)
		})
	}
	p.call(statDir(1, export(top)))
	for {
		m, there := p.recv()
		if !there {
			return
		}
		switch m.Which() {
		case rpc.Message_Which_abort:
			return
		case rpc.Message_Which_return:
			return
		}
	}
}

// nest makes ten thousand nested structs.
func nest(s capnp.Struct) (capnp.Ptr, error) {
	top, err := capnp.NewStruct(s.Segment(), capnp.ObjectSize{PointerCount: 1})
	at := top
	for range 10_000 {
		next, nerr := capnp.NewStruct(s.Segment(), capnp.ObjectSize{PointerCount: 1})
		err = firstOf(err, nerr, at.SetPtr(0, next.ToPtr()))
		at = next
	}
	return top.ToPtr(), err
}

// fold makes forty structs, each with two pointers to the next. A reader who follows each
// pointer visits 2^40 structs.
func fold(s capnp.Struct) (capnp.Ptr, error) {
	top, err := capnp.NewStruct(s.Segment(), capnp.ObjectSize{PointerCount: 2})
	at := top
	for range 40 {
		next, nerr := capnp.NewStruct(s.Segment(), capnp.ObjectSize{PointerCount: 2})
		err = firstOf(err, nerr, at.SetPtr(0, next.ToPtr()), at.SetPtr(1, next.ToPtr()))
		at = next
	}
	return top.ToPtr(), err
}

// knot makes a struct that points to itself twice.
func knot(s capnp.Struct) (capnp.Ptr, error) {
	k, err := capnp.NewStruct(s.Segment(), capnp.ObjectSize{PointerCount: 2})
	return k.ToPtr(), firstOf(err, k.SetPtr(0, k.ToPtr()), k.SetPtr(1, k.ToPtr()))
}

// amplify makes the longest possible list of empty structs.
func amplify(s capnp.Struct) (capnp.Ptr, error) {
	l, err := capnp.NewCompositeList(s.Segment(), capnp.ObjectSize{}, 1<<29-1)
	return l.ToPtr(), err
}

// emptyTable sends calls with capability tables whose entries take no room.
func emptyTable(a *assault) {
	p, _, top := a.guest()
	for q := range uint32(8) {
		c := moveTo(q, export(top), promise(q)) // this call waits, and keeps its capabilities
		fill := c.params
		c.params = func(w rpc.Payload) error {
			if err := fill(w); err != nil {
				return err
			}
			l, err := capnp.NewCompositeList(w.Segment(), capnp.ObjectSize{}, 8_000_000)
			return firstOf(err, capnp.Struct(w).SetPtr(1, l.ToPtr()))
		}
		p.call(c)
	}
	p.flush()
	time.Sleep(300 * time.Millisecond)
	a.look()
	p.nc.Close()
}
