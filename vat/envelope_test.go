package vat

import (
	"encoding/binary"
	"testing"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"
	"github.com/stretchr/testify/require"
)

// arrived returns a message that arrived as one segment.
func arrived(t testing.TB, b []byte) *message {
	t.Helper()
	m := newMessage()
	m.buf, m.size = &buffer{b: b, class: -1}, int64(len(b))
	m.ro.ReplaceData(b)
	_, err := m.msg.Reset(&m.ro)
	require.NoError(t, err)
	return m
}

// What is written as words can be read as rpc.capnp defines it.
func TestEnvelopesReadAsTheSchemaHasThem(t *testing.T) {
	size := capnp.ObjectSize{DataSize: 16, PointerCount: 2}
	for _, path := range [][]uint16{nil, {}, {3}, {1, 0, 65535}} {
		m, err := newCall(size)
		require.NoError(t, err)
		m.content.Struct().SetUint64(8, 42)
		data, err := m.data(1, 5)
		require.NoError(t, err)
		copy(data, "hello")
		if path == nil {
			m.setWord(callTarget, 7)
		} else {
			require.NoError(t, m.setPromisedTarget(8, path))
		}
		m.setWord(envelopeHead, 9|10<<32)
		m.setWord(callInterface, 11)

		head, body, tail, whole := m.frame()
		require.Nil(t, whole)
		require.EqualValues(t, len(body)/8+1, binary.LittleEndian.Uint32(head[4:]), "the tail is a word")
		in := arrived(t, append(append([]byte{}, body...), tail...))
		root, err := rpc.ReadRootMessage(&in.msg)
		require.NoError(t, err)
		call, err := root.Call()
		require.NoError(t, err)
		require.Equal(t, []uint64{9, 10, 11}, []uint64{uint64(call.QuestionId()), uint64(call.MethodId()), call.InterfaceId()})
		require.Equal(t, rpc.Call_sendResultsTo_Which_caller, call.SendResultsTo().Which())
		to, err := call.Target()
		require.NoError(t, err)
		if path == nil {
			require.EqualValues(t, 7, to.ImportedCap())
		} else {
			pa, err := to.PromisedAnswer()
			require.NoError(t, err)
			require.EqualValues(t, 8, pa.QuestionId())
			got, err := readTransform(pa)
			require.NoError(t, err)
			require.Equal(t, append([]uint16{}, path...), got)
		}
		p, err := call.Params()
		require.NoError(t, err)
		require.False(t, p.HasCapTable())
		c, err := p.Content()
		require.NoError(t, err)
		require.EqualValues(t, 42, c.Struct().Uint64(8))
		d, err := c.Struct().Ptr(1)
		require.NoError(t, err)
		require.Equal(t, "hello", string(d.Data()))

		require.NoError(t, m.inline())
		d, err = m.content.Struct().Ptr(1)
		require.NoError(t, err)
		require.Equal(t, "hello", string(d.Data()), "a tail that was moved into the segment")
		m.unref()
	}
	empty, err := newCall(size)
	require.NoError(t, err)
	_, err = empty.data(0, 0)
	require.NoError(t, err)
	_, body, tail, _ := empty.frame()
	in := arrived(t, append(append([]byte{}, body...), tail...))
	root, err := rpc.ReadRootMessage(&in.msg)
	require.NoError(t, err)
	call, err := root.Call()
	require.NoError(t, err)
	p, err := call.Params()
	require.NoError(t, err)
	c, err := p.Content()
	require.NoError(t, err)
	d, err := c.Struct().Ptr(0)
	require.NoError(t, err)
	require.True(t, d.IsValid() && len(d.Data()) == 0, "empty data is there, and empty")

	for _, size := range []capnp.ObjectSize{{}, size} {
		m, err := newReturn(0)
		require.NoError(t, err)
		require.NoError(t, m.newContent(size))
		m.orWord(envelopeHead, 9)
		_, body, _, _ := m.frame()
		in := arrived(t, append([]byte{}, body...))
		root, err := rpc.ReadRootMessage(&in.msg)
		require.NoError(t, err)
		ret, err := root.Return()
		require.NoError(t, err)
		require.EqualValues(t, 9, ret.AnswerId())
		require.False(t, ret.ReleaseParamCaps())
		require.Equal(t, rpc.Return_Which_results, ret.Which())
		p, err := ret.Results()
		require.NoError(t, err)
		c, err := p.Content()
		require.NoError(t, err)
		require.Equal(t, size, c.Struct().Size())
		_, _, isReturn := plain(in.single())
		require.True(t, isReturn, "its own envelopes are plain")
	}
	for _, releaseCaps := range []bool{false, true} {
		f := newFinish(9, releaseCaps)
		root, err := rpc.ReadRootMessage(&arrived(t, f[frameHeader:]).msg)
		require.NoError(t, err)
		fin, err := root.Finish()
		require.NoError(t, err)
		require.EqualValues(t, 9, fin.QuestionId())
		require.Equal(t, releaseCaps, fin.ReleaseResultCaps())
		require.False(t, fin.RequireEarlyCancellationWorkaround())
		which, word, ok := readShort(f[:])
		require.True(t, ok)
		require.Equal(t, rpc.Message_Which_finish, which)
		require.EqualValues(t, 9, uint32(word))
		require.Equal(t, releaseCaps, word&finishKeepsCaps == 0)
	}
	f := newRelease(9, 1<<31)
	root, err = rpc.ReadRootMessage(&arrived(t, f[frameHeader:]).msg)
	require.NoError(t, err)
	rel, err := root.Release()
	require.NoError(t, err)
	require.Equal(t, []uint32{9, 1 << 31}, []uint32{rel.Id(), rel.ReferenceCount()})
	which, word, ok := readShort(f[:])
	require.True(t, ok)
	require.Equal(t, rpc.Message_Which_release, which)
	require.Equal(t, []uint64{9, 1 << 31}, []uint64{uint64(uint32(word)), word >> 32})
}

// withCaps is a Return whose capability table has every kind of capability.
func withCaps(t testing.TB, list []descriptor) *message {
	t.Helper()
	m, err := newReturn(0)
	require.NoError(t, err)
	require.NoError(t, m.newContent(capnp.ObjectSize{PointerCount: 1}))
	first, err := m.list(m.contentAt()+1, len(list), 1, 1)
	require.NoError(t, err)
	for i, d := range list {
		require.NoError(t, m.setDescriptor(first+2*i, d))
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
		require.False(t, isCall)
		require.Equal(t, len(list) == len(numbered), isReturn, "plain, but for what has no number")
		if isReturn {
			require.Equal(t, len(list), ret.table.n)
		}
		root, err := rpc.ReadRootMessage(&in.msg)
		require.NoError(t, err)
		r, err := root.Return()
		require.NoError(t, err)
		p, err := r.Results()
		require.NoError(t, err)
		table, err := p.CapTable()
		require.NoError(t, err)
		require.Equal(t, len(list), table.Len())
		for i, d := range list {
			got := table.At(i)
			require.Equal(t, d.which, got.Which())
			require.EqualValues(t, 0xff, got.AttachedFd())
			if d.way == nil {
				require.Equal(t, d.id, capnp.Struct(got).Uint32(4))
				continue
			}
			pa, err := got.ReceiverAnswer()
			require.NoError(t, err)
			require.EqualValues(t, 8, pa.QuestionId())
			path, err := readTransform(pa)
			require.NoError(t, err)
			require.Equal(t, way.path, path)
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
		require.NoError(f, err)
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
		require.NoError(t, err)
		var p rpc.Payload
		if isCall {
			c, err := root.Call()
			require.NoError(t, err)
			to, err := c.Target()
			require.NoError(t, err)
			want := plainCall{question: c.QuestionId(), iface: c.InterfaceId(), method: c.MethodId(),
				yourself: c.SendResultsTo().Which() == rpc.Call_sendResultsTo_Which_yourself,
				content:  call.content, table: call.table, path: call.path}
			if call.piped {
				pa, err := to.PromisedAnswer()
				require.NoError(t, err)
				path, err := readTransform(pa)
				require.NoError(t, err)
				require.Equal(t, path, append([]uint16{}, call.path.slice()...))
				want.target, want.piped = pa.QuestionId(), true
			} else {
				require.Equal(t, rpc.MessageTarget_Which_importedCap, to.Which())
				want.target = to.ImportedCap()
			}
			require.Equal(t, want, call)
			p, err = c.Params()
			require.NoError(t, err)
		} else {
			r, err := root.Return()
			require.NoError(t, err)
			require.Equal(t, rpc.Return_Which_results, r.Which())
			require.False(t, r.ReleaseParamCaps())
			require.Equal(t, r.AnswerId(), call.question)
			p, err = r.Results()
			require.NoError(t, err)
		}
		table, err := p.CapTable()
		require.NoError(t, err)
		require.Equal(t, table.Len(), call.table.n)
		for i := range call.table.n {
			d := call.table.word(b, i)
			require.Equal(t, table.At(i).Which(), rpc.CapDescriptor_Which(uint16(d)))
			require.Equal(t, capnp.Struct(table.At(i)).Uint32(4), uint32(d>>32))
		}
		want, err := p.Content()
		m := arrived(t, b)
		if moved := m.rootAt(b, call.content); err != nil || moved != nil {
			require.Equal(t, err == nil, moved == nil, "%v, %v", err, moved)
			return
		}
		require.Equal(t, want.Struct().Size(), m.content.Struct().Size())
		for i := range want.Struct().Size().DataSize {
			require.Equal(t, want.Struct().Uint8(capnp.DataOffset(i)), m.content.Struct().Uint8(capnp.DataOffset(i)))
		}
	})
}
