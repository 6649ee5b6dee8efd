package vat

import (
	"encoding/binary"
	"reflect"
	"testing"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"
)

// arrived returns a message that arrived as one segment.
func arrived(t testing.TB, b []byte) *message {
	t.Helper()
	m := newMessage()
	m.buf, m.size = &buffer{b: b, class: -1}, int64(len(b))
	m.ro.ReplaceData(b)
	_, err := m.msg.Reset(&m.ro)
	OK(t, err)
	return m
}

// What is written as words can be read as rpc.capnp defines it.
func TestEnvelopesReadAsTheSchemaHasThem(t *testing.T) {
	size := capnp.ObjectSize{DataSize: 16, PointerCount: 2}
	for _, path := range [][]uint16{nil, {}, {3}, {1, 0, 65535}} {
		m, err := newCall(size)
		OK(t, err)
		m.content.Struct().SetUint64(8, 42)
		data, err := m.data(1, 5)
		OK(t, err)
		copy(data, "hello")
		if path == nil {
			m.setWord(callTarget, 7)
		} else {
			OK(t, m.setPromisedTarget(8, path))
		}
		m.setWord(envelopeHead, 9|10<<32)
		m.setWord(callInterface, 11)

		head, body, tail, whole := m.frame()
		if whole != nil {
			t.Fatalf("whole = %v, want nil", whole)
		}
		if got, want := int(binary.LittleEndian.Uint32(head[4:])), len(body)/8+1; got != want {
			t.Fatalf("the header says %d words, want %d", got, want)
		}
		in := arrived(t, append(append([]byte{}, body...), tail...))
		root, err := rpc.ReadRootMessage(&in.msg)
		OK(t, err)
		call, err := root.Call()
		OK(t, err)
		if got, want := []uint64{uint64(call.QuestionId()), uint64(call.MethodId()), call.InterfaceId()}, []uint64{9, 10, 11}; !reflect.DeepEqual(got, want) {
			t.Fatalf("question, method and interface = %v, want %v", got, want)
		}
		if got := call.SendResultsTo().Which(); got != rpc.Call_sendResultsTo_Which_caller {
			t.Fatalf("call.SendResultsTo().Which() = %v, want %v", got, rpc.Call_sendResultsTo_Which_caller)
		}
		to, err := call.Target()
		OK(t, err)
		if path == nil {
			if got := to.ImportedCap(); got != 7 {
				t.Fatalf("to.ImportedCap() = %d, want 7", got)
			}
		} else {
			pa, err := to.PromisedAnswer()
			OK(t, err)
			if got := pa.QuestionId(); got != 8 {
				t.Fatalf("pa.QuestionId() = %d, want 8", got)
			}
			got, err := readTransform(pa)
			OK(t, err)
			if want := append([]uint16{}, path...); !reflect.DeepEqual(got, want) {
				t.Fatalf("path = %v, want %v", got, want)
			}
		}
		p, err := call.Params()
		OK(t, err)
		if p.HasCapTable() {
			t.Fatal("p.HasCapTable() = true, want false")
		}
		c, err := p.Content()
		OK(t, err)
		if got := c.Struct().Uint64(8); got != 42 {
			t.Fatalf("c.Struct().Uint64(8) = %d, want 42", got)
		}
		d, err := c.Struct().Ptr(1)
		OK(t, err)
		if got, want := string(d.Data()), "hello"; got != want {
			t.Fatalf("d.Data() = %q, want %q", got, want)
		}

		OK(t, m.inline())
		d, err = m.content.Struct().Ptr(1)
		OK(t, err)
		if got, want := string(d.Data()), "hello"; got != want {
			t.Fatalf("d.Data() = %q, want %q: a tail that was moved into the segment", got, want)
		}
		m.unref()
	}
	empty, err := newCall(size)
	OK(t, err)
	_, err = empty.data(0, 0)
	OK(t, err)
	_, body, tail, _ := empty.frame()
	in := arrived(t, append(append([]byte{}, body...), tail...))
	root, err := rpc.ReadRootMessage(&in.msg)
	OK(t, err)
	call, err := root.Call()
	OK(t, err)
	p, err := call.Params()
	OK(t, err)
	c, err := p.Content()
	OK(t, err)
	d, err := c.Struct().Ptr(0)
	OK(t, err)
	if !(d.IsValid() && len(d.Data()) == 0) {
		t.Fatal("empty data is missing or not empty")
	}

	for _, size := range []capnp.ObjectSize{{}, size} {
		m, err := newReturn(0)
		OK(t, err)
		OK(t, m.newContent(size))
		m.orWord(envelopeHead, 9)
		_, body, _, _ := m.frame()
		in := arrived(t, append([]byte{}, body...))
		root, err := rpc.ReadRootMessage(&in.msg)
		OK(t, err)
		ret, err := root.Return()
		OK(t, err)
		if got := ret.AnswerId(); got != 9 {
			t.Fatalf("ret.AnswerId() = %d, want 9", got)
		}
		if ret.ReleaseParamCaps() {
			t.Fatal("ret.ReleaseParamCaps() = true, want false")
		}
		if got := ret.Which(); got != rpc.Return_Which_results {
			t.Fatalf("ret.Which() = %v, want %v", got, rpc.Return_Which_results)
		}
		p, err := ret.Results()
		OK(t, err)
		c, err := p.Content()
		OK(t, err)
		if got := c.Struct().Size(); got != size {
			t.Fatalf("c.Struct().Size() = %v, want %v", got, size)
		}
		_, _, isReturn := plain(in.single())
		if !isReturn {
			t.Fatal("isReturn = false, want true: an envelope of its own is plain")
		}
	}
	for _, releaseCaps := range []bool{false, true} {
		f := newFinish(9, releaseCaps)
		root, err := rpc.ReadRootMessage(&arrived(t, f[frameHeader:]).msg)
		OK(t, err)
		fin, err := root.Finish()
		OK(t, err)
		if got := fin.QuestionId(); got != 9 {
			t.Fatalf("fin.QuestionId() = %d, want 9", got)
		}
		if got := fin.ReleaseResultCaps(); got != releaseCaps {
			t.Fatalf("fin.ReleaseResultCaps() = %v, want %v", got, releaseCaps)
		}
		if fin.RequireEarlyCancellationWorkaround() {
			t.Fatal("fin.RequireEarlyCancellationWorkaround() = true, want false")
		}
		which, word, ok := readShort(f[:])
		if !ok {
			t.Fatal("ok = false, want true")
		}
		if which != rpc.Message_Which_finish {
			t.Fatalf("which = %v, want %v", which, rpc.Message_Which_finish)
		}
		if got := uint32(word); got != 9 {
			t.Fatalf("word = %d, want 9", got)
		}
		if got := word&finishKeepsCaps == 0; got != releaseCaps {
			t.Fatalf("word&finishKeepsCaps == 0 = %v, want %v", got, releaseCaps)
		}
	}
	f := newRelease(9, 1<<31)
	root, err = rpc.ReadRootMessage(&arrived(t, f[frameHeader:]).msg)
	OK(t, err)
	rel, err := root.Release()
	OK(t, err)
	if got, want := []uint32{rel.Id(), rel.ReferenceCount()}, []uint32{9, 1 << 31}; !reflect.DeepEqual(got, want) {
		t.Fatalf("id and count = %v, want %v", got, want)
	}
	which, word, ok := readShort(f[:])
	if !ok {
		t.Fatal("ok = false, want true")
	}
	if which != rpc.Message_Which_release {
		t.Fatalf("which = %v, want %v", which, rpc.Message_Which_release)
	}
	if got, want := []uint64{uint64(uint32(word)), word >> 32}, []uint64{9, 1 << 31}; !reflect.DeepEqual(got, want) {
		t.Fatalf("id and count = %v, want %v", got, want)
	}
}

// withCaps is a Return whose capability table has every kind of capability.
func withCaps(t testing.TB, list []descriptor) *message {
	t.Helper()
	m, err := newReturn(0)
	OK(t, err)
	OK(t, m.newContent(capnp.ObjectSize{PointerCount: 1}))
	first, err := m.list(m.contentAt()+1, len(list), 1, 1)
	OK(t, err)
	for i, d := range list {
		OK(t, m.setDescriptor(first+2*i, d))
	}
	return m
}

func TestCapabilityTableReadsAsTheSchemaHasIt(t *testing.T) {
	numbered := []descriptor{
		{which: rpc.CapDescriptor_Which_none},
		{which: rpc.CapDescriptor_Which_senderHosted, id: 5},
		{which: rpc.CapDescriptor_Which_senderPromise, id: 1<<32 - 1},
		{which: rpc.CapDescriptor_Which_receiverHosted, id: 7},
	}
	way := &pipe{&question{id: 8}, []uint16{3, 65535}}
	for _, list := range [][]descriptor{numbered, append(numbered, descriptor{which: rpc.CapDescriptor_Which_receiverAnswer, way: way})} {
		m := withCaps(t, list)
		_, body, _, _ := m.frame()
		in := arrived(t, append([]byte{}, body...))
		ret, isCall, isReturn := plain(in.single())
		if isCall {
			t.Fatal("isCall = true, want false")
		}
		if want := len(list) == len(numbered); isReturn != want {
			t.Fatalf("isReturn = %v, want %v: plain, but for what has no number", isReturn, want)
		}
		if isReturn {
			if want := len(list); ret.table.n != want {
				t.Fatalf("ret.table.n = %d, want %d", ret.table.n, want)
			}
		}
		root, err := rpc.ReadRootMessage(&in.msg)
		OK(t, err)
		r, err := root.Return()
		OK(t, err)
		p, err := r.Results()
		OK(t, err)
		table, err := p.CapTable()
		OK(t, err)
		if got, want := table.Len(), len(list); got != want {
			t.Fatalf("table.Len() = %d, want %d", got, want)
		}
		for i, d := range list {
			got := table.At(i)
			if got := got.Which(); got != d.which {
				t.Fatalf("got.Which() = %v, want %v", got, d.which)
			}
			if got := got.AttachedFd(); got != 0xff {
				t.Fatalf("got.AttachedFd() = %d, want 0xff", got)
			}
			if d.way == nil {
				if got := capnp.Struct(got).Uint32(4); got != d.id {
					t.Fatalf("capnp.Struct(got).Uint32(4) = %d, want %d", got, d.id)
				}
				continue
			}
			pa, err := got.ReceiverAnswer()
			OK(t, err)
			if got := pa.QuestionId(); got != 8 {
				t.Fatalf("pa.QuestionId() = %d, want 8", got)
			}
			path, err := readTransform(pa)
			OK(t, err)
			if !reflect.DeepEqual(path, way.path) {
				t.Fatalf("path = %v, want %v", path, way.path)
			}
		}
	}
}

// FuzzPlain: if a message counts as plain, the generated code reads the same in it.
func FuzzPlain(f *testing.F) {
	for _, k := range []func() (*message, error){
		func() (*message, error) { return newCall(capnp.ObjectSize{DataSize: 8, PointerCount: 1}) },
		func() (*message, error) {
			m, err := newReturn(0)
			if err == nil {
				err = m.newContent(capnp.ObjectSize{DataSize: 8, PointerCount: 1})
			}
			return m, err
		},
		func() (*message, error) {
			m, err := newCall(capnp.ObjectSize{PointerCount: 1})
			if err == nil {
				err = m.setPromisedTarget(8, []uint16{3, 0})
			}
			return m, err
		},
		func() (*message, error) {
			return withCaps(f, []descriptor{{which: rpc.CapDescriptor_Which_senderHosted, id: 5}, {}}), nil
		},
	} {
		m, err := k()
		OK(f, err)
		_, body, _, _ := m.frame()
		f.Add(append([]byte{}, body...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if b = b[:len(b)&^7]; len(b) < 8 {
			return
		}
		call, isCall, isReturn := plain(b)
		if !isCall && !isReturn {
			return
		}
		generated := arrived(t, append([]byte{}, b...))
		root, err := rpc.ReadRootMessage(&generated.msg)
		OK(t, err)
		var p rpc.Payload
		if isCall {
			c, err := root.Call()
			OK(t, err)
			to, err := c.Target()
			OK(t, err)
			want := plainCall{question: c.QuestionId(), iface: c.InterfaceId(), method: c.MethodId(),
				yourself: c.SendResultsTo().Which() == rpc.Call_sendResultsTo_Which_yourself,
				content:  call.content, table: call.table, path: call.path}
			if call.piped {
				pa, err := to.PromisedAnswer()
				OK(t, err)
				path, err := readTransform(pa)
				OK(t, err)
				if got := append([]uint16{}, call.path.slice()...); !reflect.DeepEqual(got, path) {
					t.Fatalf("call.path = %v, want %v", got, path)
				}
				want.target, want.piped = pa.QuestionId(), true
			} else {
				if got := to.Which(); got != rpc.MessageTarget_Which_importedCap {
					t.Fatalf("to.Which() = %v, want %v", got, rpc.MessageTarget_Which_importedCap)
				}
				want.target = to.ImportedCap()
			}
			if call != want {
				t.Fatalf("call = %v, want %v", call, want)
			}
			p, err = c.Params()
			OK(t, err)
		} else {
			r, err := root.Return()
			OK(t, err)
			if got := r.Which(); got != rpc.Return_Which_results {
				t.Fatalf("r.Which() = %v, want %v", got, rpc.Return_Which_results)
			}
			if r.ReleaseParamCaps() {
				t.Fatal("r.ReleaseParamCaps() = true, want false")
			}
			if want := r.AnswerId(); call.question != want {
				t.Fatalf("call.question = %d, want %d", call.question, want)
			}
			p, err = r.Results()
			OK(t, err)
		}
		table, err := p.CapTable()
		OK(t, err)
		if want := table.Len(); call.table.n != want {
			t.Fatalf("call.table.n = %d, want %d", call.table.n, want)
		}
		for i := range call.table.n {
			d := call.table.word(b, i)
			if got, want := rpc.CapDescriptor_Which(uint16(d)), table.At(i).Which(); got != want {
				t.Fatalf("the kind of descriptor %d = %v, want %v", i, got, want)
			}
			if got, want := uint32(d>>32), capnp.Struct(table.At(i)).Uint32(4); got != want {
				t.Fatalf("the id of descriptor %d = %d, want %d", i, got, want)
			}
		}
		want, err := p.Content()
		m := arrived(t, b)
		if moved := m.rootAt(b, call.content); err != nil || moved != nil {
			if got, want := moved == nil, err == nil; got != want {
				t.Fatalf("moved within the message: %v (%v), by the generated code: %v (%v), want both or none", got, moved, want, err)
			}
			return
		}
		if got, want := m.content.Struct().Size(), want.Struct().Size(); got != want {
			t.Fatalf("m.content.Struct().Size() = %v, want %v", got, want)
		}
		for i := range want.Struct().Size().DataSize {
			if got, want := m.content.Struct().Uint8(capnp.DataOffset(i)), want.Struct().Uint8(capnp.DataOffset(i)); got != want {
				t.Fatalf("byte %d of the content = %d, want %d", i, got, want)
			}
		}
	})
}
