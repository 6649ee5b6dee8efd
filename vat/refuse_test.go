package vat_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// A refused peer is told why, also when it can no longer send its request.
func TestRefuse(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	vat.OK(t, err)
	defer l.Close()
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			vat.Refuse(nc, "the house is full")
		}
	}()
	for range 200 {
		nc, err := net.Dial("unix", l.Addr().String())
		vat.OK(t, err)
		c := vat.NewConn(nc, vat.Options{})
		e := c.Bootstrap(t.Context())
		for range 3 {
			err := vat.Do(t.Context(), e, tp.Echo_echo, nil, nil)
			if err == nil || !strings.Contains(err.Error(), vat.PeerAborted+"the house is full") {
				t.Fatalf("vat.Do: %v, want it to contain %q", err, vat.PeerAborted+"the house is full")
			}
		}
		e.Release()
		vat.OK(t, c.Close())
	}
}

// Nobody waits for a peer that does not read.
func TestRefuseTheDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		begun := time.Now()
		vat.Refuse(far, "the house is full")
		if got := time.Since(begun); got > 100*time.Millisecond {
			t.Fatalf("it took %v, want at most %v", got, 100*time.Millisecond)
		}
		_, err := near.Read(make([]byte, 1))
		if err == nil {
			t.Fatal("near.Read: no error, want the connection to be closed")
		}
	})
}
