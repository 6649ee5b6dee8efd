package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"capd/client"
	"capd/meter"
	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// TestTempEnds: whatever ends a temporary directory, its holder is told what it would be told elsewhere, the directory is removed, and what
// was counted is given back.
func TestTempEnds(t *testing.T) {
	ctx := t.Context()
	for name, c := range map[string]struct {
		guest server.Guest
		end   func(t *testing.T, s *server.Server, conn *client.Conn, d, tmp *client.Dir)
		put   vfs.Code // what a put answers then
		read  vfs.Code
		stays bool
	}{
		"its grant is made read-only": {end: func(t *testing.T, s *server.Server, _ *client.Conn, _, tmp *client.Dir) {
			_, err := s.SetWritable("guest", false)
			check.OK(t, err)
		}, put: vfs.ReadOnly, stays: true},
		"its grant is revoked": {end: func(t *testing.T, s *server.Server, _ *client.Conn, _, _ *client.Dir) {
			_, err := s.Revoke("guest")
			check.OK(t, err)
		}, put: vfs.Revoked, read: vfs.Revoked, stays: true},
		"its grant expires": {guest: server.Guest{Expires: 700 * time.Millisecond}, end: func(t *testing.T, _ *server.Server, _ *client.Conn, _, tmp *client.Dir) {
			check.Eventually(t, "it expires", func() bool {
				_, err := tmp.Stat(ctx)
				return vfs.CodeOf(err) == vfs.Expired
			})
		}, put: vfs.Expired, read: vfs.Expired, stays: true},
		"the connection ends": {end: func(t *testing.T, _ *server.Server, conn *client.Conn, _, _ *client.Dir) { check.OK(t, conn.Close()) }},
		"it is released":      {end: func(t *testing.T, _ *server.Server, _ *client.Conn, _, tmp *client.Dir) { check.OK(t, tmp.Close()) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := started(t, &server.Server{Mounts: []server.Mount{{Path: "m", URL: "memory:"}}})
			c.guest.Name = "guest"
			given, err := s.Grant(ctx, c.guest)
			check.OK(t, err)
			conn, err := client.Dial(ctx, given.Locator)
			check.OK(t, err)
			defer conn.Close()
			d := conn.Dir(ctx)
			tmp := d.Temp()
			check.OK(t, puts(t, tmp, "f", "12345"))
			check.OK(t, puts(t, d, "m/f", "123"))
			made, err := tmp.CreateDir(ctx, "d")
			check.OK(t, errors.Join(err, made.Close()))
			if len(temporary(t, s)) != 1 || usedBy(s, meter.StoredBytes) != 8 || usedBy(s, meter.Temps) != 1 {
				t.Fatalf("there are %q, and %d bytes", temporary(t, s), usedBy(s, meter.StoredBytes))
			}
			c.end(t, s, conn, d, tmp)
			if c.stays { // while its holder holds it, which the host cannot take
				check.Is(t, "a put", puts(t, tmp, "g", "x"), c.put)
				f := tmp.OpenFile("f")
				_, _, err = f.ReadText(ctx)
				check.Is(t, "a read", err, c.read)
				check.OK(t, f.Close())
				check.OK(t, conn.Close())
			}
			gone(t, s, 0)
			check.Eventually(t, "what it had is given back", func() bool {
				return usedBy(s, meter.StoredBytes) <= 3 && usedBy(s, meter.StagedBytes) == 0
			})
		})
	}
}

// silent is a log in which every line fails the test.
func silent(t *testing.T) func(string, ...any) {
	return func(format string, args ...any) { t.Errorf("the host logs: "+format, args...) }
}

// slowly is a content that comes when more is called.
type slowly struct {
	left int
	more chan struct{}
}

func (r *slowly) Read(p []byte) (int, error) {
	if r.left--; r.left < 0 {
		return 0, io.EOF
	}
	<-r.more
	return copy(p, bytes.Repeat([]byte("s"), 1<<16)), nil
}

// TestTempReleasedInWrite: the last capability of a temporary directory is dropped while a file is put there. The put ends in one way or the
// other, nothing is left, and nothing of it is counted.
func TestTempReleasedInWrite(t *testing.T) {
	s := &server.Server{State: filepath.Join(t.TempDir(), "state"), Logf: silent(t)}
	check.OK(t, s.Start(t.Context()))
	defer func() { check.OK(t, s.Close()) }()
	for round := range 20 {
		d := named(t, s, server.Guest{Name: fmt.Sprint("guest", round)})
		tmp := d.Temp()
		check.OK(t, puts(t, tmp, "first", "1"))
		r := &slowly{left: 10, more: make(chan struct{}, 10)}
		ended := make(chan error, 1)
		go func() {
			_, err := tmp.Put(t.Context(), "f", r, vfs.If{})
			ended <- err
		}()
		for range round % 10 {
			r.more <- struct{}{}
		}
		time.Sleep(time.Duration(round) * 200 * time.Microsecond)
		check.OK(t, tmp.Close())
		close(r.more)
		<-ended
		gone(t, s, 0)
		check.Eventually(t, "nothing is counted", func() bool {
			return usedBy(s, meter.StoredBytes) == 0 && usedBy(s, meter.StoredNodes) == 0 && usedBy(s, meter.StagedBytes) == 0 && usedBy(s, meter.Writers) == 0
		})
	}
}

// TestTempRestart: what was in temporary directories is not counted after a restart. A host that ends leaves none of them.
func TestTempRestart(t *testing.T) {
	st, at := filepath.Join(t.TempDir(), "state"), t.TempDir()
	loc := ""
	for i, want := range []int64{0, 3} {
		s := &server.Server{State: st, Mounts: []server.Mount{{Path: "p", URL: server.PhysicalURL(at)}}, Logf: silent(t)}
		check.OK(t, s.Start(t.Context()))
		if i == 0 {
			given, err := s.Grant(t.Context(), server.Guest{Name: "guest"})
			check.OK(t, err)
			loc = given.Locator
		}
		conn, err := client.Dial(t.Context(), loc)
		check.OK(t, err)
		d := conn.Dir(t.Context())
		_, err = d.Stat(t.Context())
		check.OK(t, err)
		if got := usedBy(s, meter.StoredBytes); got != want {
			t.Errorf("start %d: %d bytes are counted, want %d", i, got, want)
		}
		var full []*client.Dir
		for range 4 {
			tmp := d.Temp()
			check.OK(t, puts(t, tmp, "f", "12345"))
			full = append(full, tmp)
		}
		for _, name := range temporary(t, s) { // as much as takes a while to remove
			for n := range 2000 {
				write(t, filepath.Join(st, "temps", name, fmt.Sprint("d", n%50), fmt.Sprint(n)), "")
			}
		}
		check.OK(t, puts(t, d, "p/f", "123"))
		for _, tmp := range full[:3] {
			check.OK(t, tmp.Close()) // its removal is under way when the host ends
		}
		check.OK(t, s.Close())
		if left := temporary(t, s); len(left) > 0 {
			t.Errorf("start %d: %q are left", i, left)
		}
		conn.Close()
	}
}
