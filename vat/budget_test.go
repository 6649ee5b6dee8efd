package vat_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// header is the frame header of a message of one segment.
func header(bytes int) []byte {
	b := make([]byte, 8)
	binary.LittleEndian.PutUint32(b[4:], uint32(bytes/8))
	return b
}

// Connections that share a budget wait for one another's large messages, and what does not wait goes on.
func TestBudget(t *testing.T) {
	b := vat.NewBudget(1 << 20)
	limits := vat.Limits{FrameTimeout: 2 * time.Second}
	first, second := newRaw(t, limits), connect(t, limits)
	first.conn.SetBudget(b)
	second.server.SetBudget(b)

	hold := make([]byte, 900<<10)
	_, err := first.nc.Write(append(header(1<<20), hold...))
	require.NoError(t, err)
	soon(t, func() bool { return b.Used() >= 900<<10 }, "the budget is not taken")

	e := second.echoCap(t)
	defer e.Release()
	echo := func(n int) error {
		return vat.Do(t.Context(), e, tp.Echo_echo, func(p tp.Echo_echo_Params, _ *vat.Caps) error {
			return p.SetText(string(make([]byte, n)))
		}, nil)
	}
	require.NoError(t, echo(1000), "a small message needs none")
	done := make(chan error, 1)
	go func() { done <- echo(500 << 10) }()
	select {
	case err := <-done:
		t.Fatalf("a large message did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	second.server.SetBudget(vat.NewBudget(1 << 20))
	require.NoError(t, <-done, "what waits takes of the new budget")
	first.nc.Close()
	soon(t, func() bool { return b.Used() == 0 }, "the budget is not given back")
}

func TestIdleTimeout(t *testing.T) {
	p := connect(t, vat.Limits{IdleTimeout: 50 * time.Millisecond})
	e := p.echoCap(t)
	defer e.Release()
	for range 10 {
		require.NoError(t, vat.Do(t.Context(), e, tp.Echo_sleep, func(q tp.Echo_sleep_Params, _ *vat.Caps) error {
			q.SetMs(30)
			return nil
		}, nil), "a connection with calls is not idle")
	}
	select {
	case <-p.server.Done():
		require.ErrorContains(t, p.server.Err(), "idle")
	case <-time.After(10 * time.Second):
		t.Fatal("an idle connection goes on")
	}
}
