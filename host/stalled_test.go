package host_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"capd/client"
	"capd/host"
	"capd/vfs"
)

// Guests over TLS that asked for much and read nothing do not delay Close.
func TestCloseBesideStalled(t *testing.T) {
	s, address, loc := startTLS(t, host.Options{})
	c, err := client.Dial(t.Context(), loc.String())
	ok(t, err)
	_, err = c.Dir(t.Context()).Put(t.Context(), "f", bytes.NewReader(make([]byte, 1<<20)), vfs.If{})
	ok(t, err)
	c.Close()
	const n = 6
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		ok(t, err)
		stop := make(chan bool)
		defer close(stop)
		go func() {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", address)
			if err != nil {
				return
			}
			b.(*net.TCPConn).SetReadBuffer(4096)
			go io.Copy(b, a)
			io.CopyN(a, b, 300<<10) // from then on nothing is read
			<-stop
		}()
		lo := loc
		lo.Port = uint16(l.Addr().(*net.TCPAddr).Port)
		g, err := client.Dial(t.Context(), lo.String())
		ok(t, err)
		d := g.Dir(t.Context())
		for range 12 {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
				defer cancel()
				f := d.OpenFile("f")
				f.ReadBytes(ctx)
			}()
		}
	}
	parked := func() (n int) {
		for _, st := range s.Stats() {
			if st.ParkedBytes > 1<<20 {
				n++
			}
		}
		return n
	}
	for end := time.Now().Add(20 * time.Second); parked() < n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d guests are stalled", parked(), n)
		}
	}
	at := time.Now()
	ok(t, s.Close())
	if took := time.Since(at); took > 4*time.Second {
		t.Errorf("it took %v", took)
	}
}
