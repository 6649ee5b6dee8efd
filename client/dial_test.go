package client_test

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"capd/client"
	"capd/locator"
	"capd/tests/scene"
	"capd/vfs"
)

// What came over TLS is shared over TLS.
func TestShareGoesTheSameWay(t *testing.T) {
	ctx := t.Context()
	for name, s := range map[string]*scene.Host{"socket": serve(t, scene.InMemory(t, fsTree)), "TLS": scene.ServeTLS(t, scene.InMemory(t, fsTree), scene.Options{})} {
		loc, _ := grant(t, s, "", false)
		c := dial(t, loc)
		shared, r, err := c.Share(ctx, c.Dir(ctx).ReadOnly())
		ok(t, err)
		defer r.Close()
		if loc[:len(loc)-43] != shared[:len(shared)-43] || loc == shared {
			t.Errorf("%s: %s shares %s", name, loc, shared)
		}
		_, err = dial(t, shared).Dir(ctx).Stat(ctx)
		ok(t, err)
		ok(t, r.Revoke(ctx))
		_, err = dial(t, shared).Dir(ctx).Stat(ctx)
		is(t, name+": a share that was taken back", err, vfs.Revoked)
	}
}

// standIn listens at the address of a locator, and remembers what it was sent.
type standIn struct {
	at   locator.Locator
	sent chan []byte // all that one connection sent, as far as the stand-in could read it
}

// standInFor answers each connection with answer, which returns what it read.
func standInFor(t *testing.T, at locator.Locator, answer func(net.Conn) []byte) standIn {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	ok(t, err)
	s := standIn{at, make(chan []byte, 1)}
	s.at.Host, s.at.Port = "localhost", uint16(l.Addr().(*net.TCPAddr).Port)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			nc.SetDeadline(time.Now().Add(20 * time.Second))
			s.sent <- answer(nc)
			nc.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return s
}

// tlsWith answers with TLS, and reads on whatever the result of the handshake. config
// gets a certificate of a new key, unless it has one.
func tlsWith(t *testing.T, config *tls.Config) func(net.Conn) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	ok(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	ok(t, err)
	config.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	return func(nc net.Conn) []byte {
		c := tls.Server(nc, config)
		b, _ := io.ReadAll(c) // what was said once TLS was there
		return b
	}
}

func keyOf(t *testing.T, config *tls.Config) locator.Key {
	t.Helper()
	cert, err := x509.ParseCertificate(config.Certificates[0].Certificate[0])
	ok(t, err)
	return locator.KeyOf(cert.RawSubjectPublicKeyInfo)
}

// TestWrongHost connects to something that is not the locator's host. The error says what
// is wrong, and nothing is sent to it after that is known.
func TestWrongHost(t *testing.T) {
	right := func(c *tls.Config) *tls.Config { c.NextProtos = []string{locator.Protocol}; return c }
	for name, c := range map[string]struct {
		config  *tls.Config // of the stand-in; nil: none
		plain   string      // what it says without TLS
		mute    bool        // it says nothing and reads
		wrong   bool        // it has another key
		want    vfs.Code
		says    string
		timeout time.Duration
	}{
		"another key":      {config: right(&tls.Config{}), wrong: true, want: vfs.Denied, says: "does not have the key"},
		"another protocol": {config: &tls.Config{NextProtos: []string{"h2"}}, want: vfs.Unsupported, says: "TLS 1.3"},
		"no protocol":      {config: &tls.Config{}, want: vfs.Unsupported, says: "TLS 1.3"},
		"TLS 1.2":          {config: right(&tls.Config{MaxVersion: tls.VersionTLS12}), want: vfs.Unsupported, says: "TLS 1.3"},
		"both are wrong":   {config: &tls.Config{}, wrong: true, want: vfs.Denied, says: "does not have the key"},
		"HTTP":             {plain: "HTTP/1.1 400 Bad Request\r\n\r\n", want: vfs.Unsupported, says: "TLS 1.3"},
		"a message":        {plain: string(make([]byte, 64)), want: vfs.Unsupported, says: "TLS 1.3"},
		"it hangs up":      {plain: " ", want: vfs.Stale, says: "try again"},
		"it is mute":       {mute: true, want: vfs.Stale, says: "in time", timeout: 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			at := locator.Locator{Secret: locator.NewSecret()}
			answer := func(nc net.Conn) []byte {
				if !c.mute {
					nc.Read(make([]byte, 1024))
					nc.Write([]byte(strings.TrimSpace(c.plain)))
					return nil
				}
				b, _ := io.ReadAll(nc)
				return b
			}
			if c.config != nil {
				answer = tlsWith(t, c.config)
				at.Key = keyOf(t, c.config)
			}
			if c.wrong {
				at.Key[0]++
			}
			s := standInFor(t, at, answer)
			ctx := t.Context()
			if c.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.timeout)
				defer cancel()
			}
			text := s.at.String()
			conn, err := client.Dial(ctx, text)
			if err == nil {
				conn.Close()
			}
			is(t, "Dial", err, c.want)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), s.at.Address()) {
				t.Errorf("%v does not say %q of %s", err, c.says, s.at.Address())
			}
			if err != nil && (strings.Contains(err.Error(), text[len(text)-43:]) || strings.Contains(err.Error(), s.at.Key.String())) {
				t.Errorf("the error shows the locator: %v", err)
			}
			sent := <-s.sent
			if !c.mute && len(sent) > 0 || strings.Contains(string(sent), string(s.at.Secret[:])) {
				t.Errorf("it was sent %q", sent)
			}
			if c.timeout > 0 && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v does not come of the deadline", err)
			}
		})
	}
}

// The right key is enough, whatever the certificate says.
func TestKeyAlone(t *testing.T) {
	config := &tls.Config{NextProtos: []string{locator.Protocol}}
	answer := tlsWith(t, config) // no names, and a validity that ended in the year 1
	s := standInFor(t, locator.Locator{Key: keyOf(t, config), Secret: locator.NewSecret()}, answer)
	c, err := client.Dial(t.Context(), s.at.String())
	ok(t, err)
	ok(t, c.Close())
	<-s.sent
}

func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	for _, at := range []locator.Locator{{Host: "127.0.0.1", Port: port}, {Socket: filepath.Join(t.TempDir(), "s")}} {
		_, err := client.Dial(t.Context(), at.String())
		is(t, "Dial", err, vfs.Stale)
		if strings.Contains(err.Error(), "AAAA") || at.Socket != "" && strings.Contains(err.Error(), at.Socket) {
			t.Errorf("the error shows the locator: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = client.Dial(ctx, locator.Locator{Host: "127.0.0.1", Port: port}.String())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled Dial: %v", err)
	}
}

// A connection that was ended because everything on it was revoked says so. One that was
// closed is gone.
func TestWhyAConnectionEnded(t *testing.T) {
	s := serve(t, scene.InMemory(t, nil))
	loc, _ := grant(t, s, "", false)
	revoked, closed := dial(t, loc), dial(t, loc)
	for _, c := range []*client.Conn{revoked, closed} {
		_, err := c.Node(t.Context())
		ok(t, err)
		is(t, "in progress", c.Err(), "")
	}
	ok(t, closed.Close())
	is(t, "closed", closed.Err(), vfs.Stale)
	_, err := s.Authority.Revoke("agent")
	ok(t, err)
	<-revoked.Done()
	is(t, "revoked", revoked.Err(), vfs.Revoked)
	_, err = revoked.Node(t.Context())
	is(t, "a call after it", err, vfs.Revoked)
}
