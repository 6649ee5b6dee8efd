package tests

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	"capd/client"
	"capd/host"
	"capd/locator"
	"capd/vfs"
)

// serveTLS starts capd where guests come over TLS too, and returns a locator of
// that form.
func serveTLS(t testing.TB) (*hostProcess, locator.Locator) {
	t.Helper()
	h := serve(t, "--listen", "tls:127.0.0.1:0")
	ok(t, os.WriteFile(filepath.Join(h.served, "file"), []byte("content"), 0o644))
	return h, h.grantTLS("far")
}

// grantTLS has the operator's command grant everything over TLS.
func (h *hostProcess) grantTLS(guest string) locator.Locator {
	h.Helper()
	out, err := execCapd(h, "grant", guest, "--via", "tls", "--state", h.state).Output()
	ok(h, err)
	loc, err := locator.Parse(string(out))
	ok(h, err)
	return loc
}

// asGuest runs one of the guest's commands.
func asGuest(t testing.TB, loc locator.Locator, args ...string) (out, errs string) {
	t.Helper()
	cmd := execCapd(t, args...)
	cmd.Env = append(os.Environ(), "CAPD_CAP="+loc.String())
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	cmd.Run()
	return o.String(), e.String()
}

func connect(t testing.TB, address string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	ok(t, err)
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(3 * patience))
	return nc
}

// bootstrap is the first message of every guest.
func bootstrap(t testing.TB) []byte {
	t.Helper()
	m, seg, err := capnp.NewMessage(capnp.SingleSegment(nil))
	ok(t, err)
	root, err := rpc.NewRootMessage(seg)
	ok(t, err)
	_, err = root.NewBootstrap()
	ok(t, err)
	b, err := m.Marshal()
	ok(t, err)
	return b
}

// TestTLSRefuses sends a host what is not TLS 1.3 with the protocol's name: it gets
// no answer that is a message, and the host is none the worse.
func TestTLSRefuses(t *testing.T) {
	h, loc := serveTLS(t)
	files := openFiles(h.pid())
	message := bootstrap(t)
	for name, config := range map[string]*tls.Config{
		"TLS 1.2":          {MaxVersion: tls.VersionTLS12, NextProtos: []string{locator.Protocol}},
		"TLS 1.0":          {MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10, NextProtos: []string{locator.Protocol}},
		"another protocol": {NextProtos: []string{"http/1.1"}},
		"no protocol":      {},
	} {
		config.InsecureSkipVerify = true
		c := tls.Client(connect(t, loc.Address()), config)
		_, err := c.Write(message)
		if err == nil {
			_, err = c.Read(make([]byte, 1))
		}
		if op, alert := errors.AsType[*net.OpError](err); !alert || op.Op != "remote error" {
			t.Errorf("%s: %v, want an alert", name, err)
		}
	}
	for name, text := range map[string]string{
		"a plain guest": string(message), "HTTP": "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "SSH": "SSH-2.0-x\r\n",
	} {
		nc := connect(t, loc.Address())
		nc.Write([]byte(text))
		answer, err := io.ReadAll(nc)
		if isNetTimeout(err) || len(answer) > 0 && (answer[0] != 21 || len(answer) != 7) { // RFC 8446: a record that is an alert
			t.Errorf("%s: the host answers %q, %v", name, answer, err)
		}
	}
	if out, errs := asGuest(t, loc, "cat", "project/file"); out != "content" {
		t.Errorf("after them a guest gets %q, %q", out, errs)
	}
	if !waitFor(patience, func() bool { return openFiles(h.pid()) <= files }) {
		t.Errorf("the host has %d descriptors, of %d before", openFiles(h.pid()), files)
	}
}

func isNetTimeout(err error) bool {
	ne, is := errors.AsType[net.Error](err)
	return is && ne.Timeout()
}

// TestTLSSilence opens more connections than may be in a handshake, says nothing or
// next to nothing on them, and has an honest guest work meanwhile, on a connection
// it has and on new ones.
func TestTLSSilence(t *testing.T) {
	t.Parallel()
	h, loc := serveTLS(t)
	ctx := t.Context()
	work := func() { // by a guest that comes, and goes
		c, err := client.Dial(ctx, loc.String())
		ok(t, err)
		defer c.Close()
		d := c.Dir(ctx)
		_, err = d.Put(ctx, "project/own", strings.NewReader("mine"), vfs.If{})
		is(t, "put", err, "ok")
		text, _, err := d.OpenFile("project/own").ReadText(ctx)
		if err != nil || text != "mine" {
			t.Fatalf("an honest guest reads %q: %v", text, err)
		}
	}
	work() // so that what the host keeps open is open
	files := openFiles(h.pid())
	honest, err := client.Dial(ctx, loc.String())
	ok(t, err)
	defer honest.Close()
	dir := honest.Dir(ctx)

	const strangers = host.MaxHandshakes + 64
	var gone sync.WaitGroup
	begun := time.Now()
	for i := range strangers {
		nc := connect(t, loc.Address())
		if i%4 == 0 {
			nc.Write([]byte{22, 3, 1, 2, 0, 1}) // a hello's beginning
		}
		gone.Go(func() {
			if _, err := io.Copy(io.Discard, nc); isNetTimeout(err) {
				t.Error("the host waits for a stranger")
			}
		})
	}
	ended := make(chan struct{})
	go func() { gone.Wait(); close(ended) }()
	rounds, worst := 0, time.Duration(0)
	for waiting := true; waiting; rounds++ {
		select {
		case <-ended:
			waiting = false
		case <-time.After(25 * time.Millisecond):
		}
		start := time.Now()
		work()
		_, err := dir.Stat(ctx)
		ok(t, err)
		worst = max(worst, time.Since(start))
	}
	t.Logf("%d strangers were gone after %v; %d rounds of an honest guest, the slowest in %v", strangers, time.Since(begun).Round(time.Millisecond), rounds, worst.Round(time.Millisecond))
	if took := time.Since(begun); took > host.HandshakeTimeout+2*prompt {
		t.Errorf("the strangers were there for %v", took)
	}
	if rounds < 20 || worst > prompt {
		t.Errorf("an honest guest had %d rounds, the slowest in %v", rounds, worst)
	}
	honest.Close()
	if !waitFor(patience, func() bool { return openFiles(h.pid()) <= files }) {
		t.Errorf("the host has %d descriptors, of %d before", openFiles(h.pid()), files)
	}
}

// TestTLSManInTheMiddle stands between a guest and its host, with a key of its own
// and without, and looks at all that the guest sends.
func TestTLSManInTheMiddle(t *testing.T) {
	_, loc := serveTLS(t)
	_, key, err := ed25519.GenerateKey(nil)
	ok(t, err)
	template := &x509.Certificate{}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	ok(t, err)
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{locator.Protocol}}

	for name, c := range map[string]struct {
		listen  func(net.Conn) // what it does with a guest's connection
		refused bool           // by the guest
	}{
		"relays": {listen: func(nc net.Conn) {
			up := connect(t, loc.Address())
			go func() { io.Copy(up, nc); up.Close() }()
			io.Copy(nc, up)
		}},
		"poses as the host": {refused: true, listen: func(nc net.Conn) {
			tc := tls.Server(nc, config)
			if b, _ := io.ReadAll(tc); len(b) > 0 {
				t.Errorf("it can read %q", b)
			}
			io.Copy(io.Discard, nc)
		}},
		"asks for plain text": {refused: true, listen: func(nc net.Conn) {
			nc.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
			io.Copy(io.Discard, nc)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			ok(t, err)
			heard := make(chan []byte, 1)
			go func() {
				nc, err := l.Accept()
				if err != nil {
					return
				}
				tap := &tapped{Conn: nc}
				tap.SetDeadline(time.Now().Add(3 * patience))
				c.listen(tap)
				tap.Close()
				heard <- tap.all()
			}()
			there := loc
			there.Port = uint16(l.Addr().(*net.TCPAddr).Port)
			out, errs := asGuest(t, there, "cat", "project/file")
			l.Close()
			sent := <-heard
			for _, hidden := range [][]byte{loc.Secret[:], []byte(loc.String()[len(loc.String())-43:]), []byte("project"), []byte("content")} {
				if bytes.Contains(sent, hidden) {
					t.Errorf("the guest sends %q in the open", hidden)
				}
			}
			if !c.refused {
				if out != "content" {
					t.Errorf("a relay is in the way: %q, %q", out, errs)
				}
				return
			}
			if out != "" || !strings.HasPrefix(errs, "capd: ") || strings.Count(errs, "\n") != 1 {
				t.Errorf("the guest prints %q and says %q", out, errs)
			}
			if name == "poses as the host" && (!strings.HasPrefix(errs, "capd: denied: ") || !strings.Contains(errs, "does not have the key") || !strings.Contains(errs, there.Address())) {
				t.Errorf("it says %q", errs)
			}
			onlyHandshake(t, sent)
		})
	}
}

// onlyHandshake says that what a guest sent is a hello and at most an alert: in
// records (RFC 8446, section 5.1) of the handshake, of the compatible change of
// cipher, and one that holds, encrypted, no more than an alert.
func onlyHandshake(t *testing.T, sent []byte) {
	t.Helper()
	r := bufio.NewReader(bytes.NewReader(sent))
	hellos := 0
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(r, head); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("half a record: %v", err)
		}
		size := int(head[3])<<8 | int(head[4])
		if _, err := r.Discard(size); err != nil {
			t.Fatalf("half a record: %v", err)
		}
		const changeCipher, alert, handshake, encrypted = 20, 21, 22, 23
		switch {
		case head[0] == handshake:
			hellos++
		case head[0] == changeCipher && size == 1, head[0] == alert && size == 2, head[0] == encrypted && size == 2+1+16:
		default:
			t.Errorf("the guest sends a record of type %d with %d bytes", head[0], size)
		}
	}
	if hellos != 1 {
		t.Errorf("the guest sends %d hellos", hellos)
	}
}

// tapped remembers what comes.
type tapped struct {
	net.Conn
	mu   sync.Mutex
	seen bytes.Buffer
}

func (t *tapped) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen.Write(p[:n])
	return n, err
}

func (t *tapped) all() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.seen.Bytes())
}

// TestTLSKeyLasts ends a host and starts it again: it is known by the same key, and
// by another once the file is gone.
func TestTLSKeyLasts(t *testing.T) {
	p := newPlace(t)
	once := func() (loc locator.Locator) {
		t.Run("host", func(t *testing.T) {
			here := *p
			here.TB = t
			loc = serveAt(&here, execCapd(t, "--listen", "tls:127.0.0.1:0")).grantTLS("far")
			if out, errs := asGuest(t, loc, "ls"); out == "" {
				t.Error(errs)
			}
		})
		return loc
	}
	first, again := once(), once()
	if first.Key != again.Key || first.Secret == again.Secret {
		t.Errorf("%v becomes %v", first.Key, again.Key)
	}
	ok(t, os.Remove(filepath.Join(p.state, "host.key")))
	if other := once(); other.Key == first.Key {
		t.Error("another host has the same key")
	}
}
