package host_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"capd/backend/memory"
	"capd/client"
	"capd/host"
	"capd/locator"
	"capd/meter"
	"capd/tests/scene"
	"capd/vfs"
)

// startTLS serves a tree in memory over TLS.
func startTLS(t *testing.T, o host.Options) (s *host.Server, address string, loc locator.Locator) {
	t.Helper()
	h := scene.ServeTLS(t, memory.New(memory.Limits{}).Root(), scene.Options{Options: o})
	loc, _ = h.Grant(t, "agent", "", false)
	return h.Server, loc.Address(), loc
}

func dialTCP(t *testing.T, address string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	ok(t, err)
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	return nc
}

// works checks that a guest can use the host.
func works(t *testing.T, loc locator.Locator) {
	t.Helper()
	c, err := client.Dial(t.Context(), loc.String())
	ok(t, err)
	defer c.Close()
	_, err = c.Dir(t.Context()).Stat(t.Context())
	ok(t, err)
}

// A key has one identity, whatever certificate is made for it.
func TestIdentity(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	ok(t, err)
	first, err := host.NewIdentity(key)
	ok(t, err)
	again, err := host.NewIdentity(key)
	ok(t, err)
	if first.Key != again.Key {
		t.Errorf("one key is %v and %v", first.Key, again.Key)
	}
	_, key, err = ed25519.GenerateKey(nil)
	ok(t, err)
	other, err := host.NewIdentity(key)
	ok(t, err)
	if first.Key == other.Key {
		t.Error("two keys are one")
	}
}

// A host accepts TLS 1.3 with the right protocol, and nothing else. What it is sent
// without that reaches nobody.
func TestTLSAlone(t *testing.T) {
	s, address, loc := startTLS(t, host.Options{})
	for name, c := range map[string]*tls.Config{
		"TLS 1.2":          {MaxVersion: tls.VersionTLS12, NextProtos: []string{locator.Protocol}},
		"TLS 1.0":          {MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11, NextProtos: []string{locator.Protocol}},
		"another protocol": {NextProtos: []string{"h2", "http/1.1"}},
		"no protocol":      {},
	} {
		c.InsecureSkipVerify = true
		tc := tls.Client(dialTCP(t, address), c)
		_, err := tc.Write(bytes.Repeat([]byte{0}, 64)) // what would be a message
		if err == nil {
			_, err = tc.Read(make([]byte, 1))
		}
		if op, alert := errors.AsType[*net.OpError](err); !alert || op.Op != "remote error" {
			t.Errorf("%s: %v, want an alert", name, err)
		}
		tc.Close()
	}
	for name, hello := range map[string]string{
		"HTTP": "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "a message": string(make([]byte, 64)), "garbage": strings.Repeat("\xff", 64),
	} {
		nc := dialTCP(t, address)
		nc.Write([]byte(hello))
		if b, err := io.ReadAll(nc); err != nil && !strings.Contains(err.Error(), "reset") || len(b) > 7 { // an alert's record is 7 bytes
			t.Errorf("%s: it answers %q, %v", name, b, err)
		}
	}
	works(t, loc)
	eventually(t, "they are gone", func() bool { return s.Conns() == 0 })
}

// A connection over TLS that sends nothing makes room for a later one.
func TestHandshakesMakeRoom(t *testing.T) {
	_, address, loc := startTLS(t, host.Options{})
	first := dialTCP(t, address)
	for range host.MaxHandshakes {
		dialTCP(t, address)
	}
	first.SetReadDeadline(time.Now().Add(host.HandshakeTimeout / 2))
	if _, err := first.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("the one that has waited longest waits on: %v", err)
	}
	works(t, loc)
}

// A handshake that is begun and never finished ends.
func TestHandshakeTimeout(t *testing.T) {
	const timeout = time.Second // TestTLSSilence waits for the real one
	_, address, loc := startTLS(t, host.HandshakesOf(timeout))
	before := runtime.NumGoroutine()
	begun := time.Now()
	silent, slow := dialTCP(t, address), dialTCP(t, address)
	go func() { // sends the header of a hello, and then its bytes one by one
		slow.Write([]byte{22, 3, 1, 2, 0})
		for range time.Tick(50 * time.Millisecond) {
			if _, err := slow.Write([]byte{1}); err != nil {
				return
			}
		}
	}()
	for name, nc := range map[string]net.Conn{"silent": silent, "slow": slow} {
		if _, err := io.Copy(io.Discard, nc); isTimeout(err) {
			t.Errorf("a %s guest is waited for: %v", name, err)
		}
	}
	if took := time.Since(begun); took < timeout*9/10 {
		t.Errorf("they had only %v", took)
	}
	works(t, loc)
	eventually(t, "nothing of them is left", func() bool { return runtime.NumGoroutine() <= before })
}

func isTimeout(err error) bool {
	ne, is := errors.AsType[net.Error](err)
	return is && ne.Timeout()
}

// Close ends handshakes too, and waits for them.
func TestCloseInHandshake(t *testing.T) {
	s, address, loc := startTLS(t, host.Options{})
	nc := dialTCP(t, address)
	works(t, loc) // it was accepted after nc
	begun := time.Now()
	ok(t, s.Close())
	if took := time.Since(begun); took > host.HandshakeTimeout/2 {
		t.Errorf("it took %v", took)
	}
	if _, err := nc.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("the connection goes on: %v", err)
	}
	if _, err := client.Dial(t.Context(), loc.String()); vfs.CodeOf(err) != vfs.Stale {
		t.Errorf("a closed server: %v", err)
	}
}

// Guests over TLS are counted as all others are.
func TestTLSGuestsAreCounted(t *testing.T) {
	s, _, loc := startTLS(t, host.Options{})
	m, err := s.Authority().Meter(t.Context(), "g1")
	ok(t, err)
	m.Set(meter.Limits{meter.Connections: 1})
	c, err := client.Dial(t.Context(), loc.String())
	ok(t, err)
	defer c.Close()
	_, err = c.Node(t.Context())
	ok(t, err)
	more, err := client.Dial(t.Context(), loc.String())
	ok(t, err)
	defer more.Close()
	if _, err = more.Node(t.Context()); vfs.CodeOf(err) != vfs.Limit {
		t.Errorf("one connection too many: %v", err)
	}
	ok(t, c.Close())
	eventually(t, "there is room again", func() bool { return m.Used(meter.Connections) == 0 })
	works(t, loc)
}
