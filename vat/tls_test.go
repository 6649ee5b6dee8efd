package vat_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// secured returns the two ends of a TLS connection, and the number of data records that
// the server has sent.
func secured(t *testing.T, beneath func(net.Conn) net.Conn) (client, server net.Conn, records *atomic.Int64) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	vat.OK(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	vat.OK(t, err)
	a, relayed := sockets(t)
	relay, b := sockets(t)
	records = new(atomic.Int64)
	go func() {
		_, _ = io.Copy(relay, relayed)
		relay.Close()
	}()
	go func() {
		defer relayed.Close()
		for head := make([]byte, 5); ; {
			if _, err := io.ReadFull(relay, head); err != nil {
				return
			}
			body := make([]byte, binary.BigEndian.Uint16(head[3:]))
			if _, err := io.ReadFull(relay, body); err != nil {
				return
			}
			if head[0] == 23 { // application data
				records.Add(1)
			}
			if _, err := relayed.Write(append(append([]byte{}, head...), body...)); err != nil {
				return
			}
		}
	}()
	s := tls.Server(beneath(b), &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS13,
		SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true,
	})
	c := tls.Client(beneath(a), &tls.Config{InsecureSkipVerify: true, DynamicRecordSizingDisabled: true})
	return c, s, records // the handshake is theirs
}

// Everything works over TLS, and a message smaller than a record is one record.
func TestTLS(t *testing.T) {
	for name, beneath := range map[string]func(net.Conn) net.Conn{"gathered": vat.Gather, "plain": func(c net.Conn) net.Conn { return c }} {
		t.Run(name, func(t *testing.T) {
			a, b, records := secured(t, beneath)
			p := connectOver(t, a, b, vat.Limits{})
			e := p.echoCap(t)
			defer e.Release()
			text := strings.Repeat("x", 12<<10)
			echo := func() error {
				return vat.Do(t.Context(), e, tp.Echo_echo, func(q tp.Echo_echo_Params, _ *vat.Caps) error { return q.SetText(text) },
					func(r tp.Echo_echo_Results, _ *vat.Caps) error {
						got, err := r.Text()
						if err == nil && got != text {
							err = fmt.Errorf("another text of %d bytes", len(got))
						}
						return err
					})
			}
			vat.OK(t, echo())
			before := records.Load()
			const calls = 50
			for range calls {
				vat.OK(t, echo())
			}
			if got := records.Load() - before; got != calls {
				t.Errorf("%d records, want %d for as many answers", got, calls)
			}

			var wg sync.WaitGroup
			for range 16 {
				wg.Go(func() {
					for range 20 {
						if err := echo(); err != nil {
							t.Errorf("echo(): %v", err)
						}
						err := vat.Do(t.Context(), e, tp.Echo_data, func(q tp.Echo_data_Params, _ *vat.Caps) error { q.SetSize(1<<20 + 3); return nil },
							func(r tp.Echo_data_Results, _ *vat.Caps) error {
								d, err := r.Data()
								if err == nil && (len(d) != 1<<20+3 || d[1<<20] != 0 || d[1<<20+1] != 1) {
									err = fmt.Errorf("other data of %d bytes", len(d))
								}
								return err
							})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// A peer that does not read over TLS holds nobody up, and costs no more than its limit.
func TestTLSStuck(t *testing.T) {
	a, b, _ := secured(t, vat.Gather)
	w := newWorld()
	server := vat.NewConn(b, vat.Options{Bootstrap: vat.Serve(w.table, w), Limits: vat.Limits{ParkedBytes: 1 << 20}, Logf: func(string, ...any) {}})
	defer server.Close()
	stop := make(chan struct{})
	client := vat.NewConn(stuck{a, stop}, vat.Options{Logf: func(string, ...any) {}})
	defer client.Close()
	defer close(stop)
	boot := client.Bootstrap(t.Context())
	echo := vat.Send(t.Context(), boot, tp.Server_echo, nil)
	e := echo.Cap(tp.Server_echo_Results_echo)
	// The sockets hold a part of it; how much depends on the system. The rest reaches the
	// limit, up to one answer.
	for range 64 {
		vat.Send(t.Context(), e, tp.Echo_data, func(q tp.Echo_data_Params, _ *vat.Caps) error { q.SetSize(128 << 10); return nil })
	}
	soon(t, func() bool { return server.Stats().ParkedBytes > 3<<18 }, "nothing is parked")
	time.Sleep(50 * time.Millisecond)
	if got := server.Stats().ParkedBytes; got >= int64(3<<19) {
		t.Errorf("server.Stats().ParkedBytes = %d, want less than %d", got, int64(3<<19))
	}
}

// stuck is a connection from which nothing is read until stop is closed.
type stuck struct {
	net.Conn
	stop chan struct{}
}

func (s stuck) Read(p []byte) (int, error) {
	<-s.stop
	return s.Conn.Read(p)
}
