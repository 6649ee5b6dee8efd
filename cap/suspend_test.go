package cap_test

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"capd/client"
	"capd/database"
	"capd/host"
	"capd/operator"
	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
)

// suspended is a host whose wall clock a test sets. Its timers know nothing of that, as of a suspend.
type suspended struct {
	*scene.Host
	t    *testing.T
	wall atomic.Int64

	short, lasting, late [32]byte // secrets
}

func (s *suspended) sleep(d time.Duration) { s.wall.Add(int64(d)) }

// start starts a host over db, whose clock knows only s's wall clock.
func (s *suspended) start(db *database.DB) {
	clock := membrane.NewClock(func() time.Time { return time.Unix(0, s.wall.Load()) })
	tree := scene.InMemory(s.t, vfstest.Tree{"a/f": {Data: "f"}})
	s.Host = scene.Serve(s.t, tree, scene.Options{Clock: clock, Record: true, DB: db, Options: host.Options{Logf: s.t.Logf}})
}

func (s *suspended) dial(secret [32]byte) *client.Conn {
	at := s.At
	at.Secret = secret
	return scene.Dial(s.t, at)
}

// TestExpiryHoldsAcrossSuspend: a machine sleeps, or its clock is set forward and back, while guests hold what expires, over
// sockets. Nothing works after its end, and nothing works again.
func TestExpiryHoldsAcrossSuspend(t *testing.T) {
	t.Parallel()
	db := database.Memory()
	s := &suspended{t: t}
	s.wall.Store(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	t.Run("runs", func(t *testing.T) { s.t = t; s.start(db); sleeps(t, s) })
	t.Run("runs again", func(t *testing.T) { s.t = t; s.start(db); wakes(t, s) })
	ok(t, db.Close())
}

func sleeps(t *testing.T, s *suspended) {
	ctx := context.Background()
	var err error
	_, s.short, err = s.Authority.GrantOn(ctx, "short", "", operator.Terms{Expires: 2 * time.Hour})
	ok(t, err)
	_, s.lasting, err = s.Authority.GrantOn(ctx, "lasting", "", operator.Terms{})
	ok(t, err)
	held, top := s.dial(s.short), s.dial(s.lasting)
	d := held.Dir(ctx)
	_, err = d.Stat(ctx)
	ok(t, err)
	id, line, r, err := top.ShareOn(ctx, top.Dir(ctx), client.ShareTerms{Expires: time.Hour})
	ok(t, err)
	r.Close()
	shared, err := client.Dial(ctx, line)
	ok(t, err)
	defer shared.Close()
	of := shared.Dir(ctx)
	w := halfPut(ctx, d)

	s.sleep(3 * time.Hour) // the lid was closed
	_, err = d.Stat(ctx)
	is(t, "a call after the sleep", err, vfs.Expired)
	_, err = of.Stat(ctx)
	is(t, "a call through a share", err, vfs.Expired)
	is(t, "a write that had begun", w(), vfs.Expired)
	s.sleep(-24 * time.Hour) // somebody sets the clock back
	_, err = s.dial(s.short).Node(ctx)
	is(t, "a restore with the clock set back", err, vfs.Expired)
	_, err = of.Stat(ctx)
	is(t, "the share with the clock set back", err, vfs.Expired)
	_, err = top.Dir(ctx).Stat(ctx)
	ok(t, err)
	all, err := top.Shares(ctx, top.Dir(ctx))
	if ok(t, err); len(all) != 0 {
		t.Errorf("the share %s is listed: %v", id, all)
	}
	_, s.late, err = s.Authority.GrantOn(ctx, "late", "", operator.Terms{Expires: time.Hour})
	ok(t, err)
	_, err = s.dial(s.late).Node(ctx)
	ok(t, err)
}

// wakes is after a restart, with the clock still set back.
func wakes(t *testing.T, s *suspended) {
	ctx := context.Background()
	_, err := s.dial(s.short).Node(ctx)
	is(t, "after a restart", err, vfs.Expired)
	_, err = s.dial(s.late).Node(ctx)
	ok(t, err)
	_, err = s.dial(s.lasting).Node(ctx)
	ok(t, err)
	s.sleep(27 * time.Hour) // and forward again: more than any of them lives
	_, err = s.dial(s.late).Node(ctx)
	is(t, "what was made while it was set back", err, vfs.Expired)
	_, err = s.dial(s.lasting).Node(ctx)
	ok(t, err)
}

// halfPut begins a whole-file write, which waits for its second half. The function that it returns ends it.
func halfPut(ctx context.Context, d *client.Dir) func() error {
	more := make(chan struct{})
	begun, done := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := d.Put(ctx, "a/f", &halves{begun: begun, more: more}, vfs.If{})
		done <- err
	}()
	<-begun
	return func() error {
		close(more)
		return <-done
	}
}

type halves struct {
	begun, more chan struct{}
	n           int
}

func (h *halves) Read(p []byte) (int, error) {
	switch h.n++; h.n {
	case 1:
		return copy(p, strings.Repeat("x", len(p))), nil
	case 2:
		close(h.begun)
		<-h.more
		return copy(p, "y"), nil
	}
	return 0, io.EOF
}
