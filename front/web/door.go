// Package web lets programs of this machine be guests of a capd host over HTTP. A request shows the secret of a locator as its bearer. Requests that
// a web page may have made, under whatever name it reaches this machine, are refused.
package web

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"capd/client"
	"capd/locator"
	"capd/vfs"
)

// Door is an [http.Handler] that serves each guest with a handler of its own. Set the fields before it is used.
type Door struct {
	// Dial connects a guest with the secret of a locator.
	Dial func(ctx context.Context, secret [locator.SecretSize]byte) (*client.Conn, error)
	// Open returns what serves the guest who holds conn. ended is closed when the guest's capability has ended, and close ends what serves it. Its
	// error is why the capability is of no use.
	Open func(ctx context.Context, conn *client.Conn) (h http.Handler, ended <-chan struct{}, close func(), err error)
	// Names are the values of the header Host that are taken: those at which the host listens. See [Names].
	Names []string
	// Idle is how long a guest is kept without a request; 0 is half an hour.
	Idle time.Duration

	mu     sync.Mutex
	guests map[[sha256.Size]byte]*guest
	closed bool
}

// MaxGuests is how many guests are kept at once. When one more comes, the one who has been without a request for the longest is let go.
const MaxGuests = 256

// MaxRequests is how many requests of one guest are under way at once.
const MaxRequests = 32

// guest is one who has shown a secret.
type guest struct {
	ready   chan struct{}
	err     error // why it was not let in
	handler http.Handler
	conn    *client.Conn
	ended   <-chan struct{}
	close   func()

	users int // requests under way; the Door's mu guards this and the next three
	timer *time.Timer
	left  time.Time // when the last request ended
	gone  bool
}

// Names returns what clients write in the header Host for a listener at a loopback address: the address, and localhost.
func Names(at net.Addr) []string {
	_, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return nil
	}
	return []string{at.String(), net.JoinHostPort("localhost", port)}
}

// ServeHTTP implements [http.Handler].
func (d *Door) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	w := pace(to, r)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case !slices.Contains(d.Names, r.Host):
		refuse(w, http.StatusForbidden, "this host is reached at "+strings.Join(d.Names, " or ")+" alone")
		return
	case !d.own(r):
		refuse(w, http.StatusForbidden, "requests of web pages are not answered")
		return
	}
	secret, ok := bearer(r)
	if !ok {
		w.Header().Set("WWW-Authenticate", `Bearer realm="capd"`)
		refuse(w, http.StatusUnauthorized, "send the secret of a locator, which is its last part, as Authorization: Bearer SECRET")
		return
	}
	g, err := d.enter(r.Context(), secret)
	if err != nil {
		if vfs.CodeOf(err) != vfs.Limit {
			w.Header().Set("WWW-Authenticate", `Bearer realm="capd", error="invalid_token"`)
			refuse(w, http.StatusUnauthorized, err.Error())
			return
		}
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	defer d.leave(secret, g)
	g.handler.ServeHTTP(w, r)
}

// refuse answers without reading the body.
func refuse(w *paced, status int, text string) {
	_ = w.control.SetReadDeadline(time.Now())
	w.Header().Set("Connection", "close")
	http.Error(w, text, status)
}

// own reports whether a request was made by no web page but, at most, one of this very host.
func (d *Door) own(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return false
	}
	origin := r.Header.Get("Origin")
	return origin == "" || slices.ContainsFunc(d.Names, func(name string) bool { return origin == "http://"+name })
}

// bearer returns the secret that a request shows.
func bearer(r *http.Request) (secret [locator.SecretSize]byte, ok bool) {
	kind, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") {
		return secret, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(strings.TrimSpace(text))
	if err != nil || len(b) != len(secret) {
		return secret, false
	}
	return [locator.SecretSize]byte(b), true
}

// enter returns the guest with a secret, whom it lets in if that is new. leave gives it back.
func (d *Door) enter(ctx context.Context, secret [locator.SecretSize]byte) (*guest, error) {
	key := sha256.Sum256(secret[:])
	d.mu.Lock()
	g := d.guests[key]
	mine := g == nil
	switch {
	case d.closed:
		d.mu.Unlock()
		return nil, vfs.Errorf(vfs.Stale, "the host ends")
	case mine && len(d.guests) >= MaxGuests && !d.evict():
		d.mu.Unlock()
		return nil, vfs.Errorf(vfs.Limit, "too many guests are here; try again later")
	case mine:
		g = &guest{ready: make(chan struct{})}
		if d.guests == nil {
			d.guests = map[[sha256.Size]byte]*guest{}
		}
		d.guests[key] = g
	}
	if g.users >= MaxRequests {
		d.mu.Unlock()
		return nil, vfs.Errorf(vfs.Limit, "%d requests with this secret are under way; try again when one has ended", g.users)
	}
	g.users++
	if g.timer != nil {
		g.timer.Stop()
	}
	d.mu.Unlock()
	if mine {
		d.open(context.WithoutCancel(ctx), g, secret)
	}
	select {
	case <-g.ready:
	case <-ctx.Done():
		d.leave(secret, g)
		return nil, ctx.Err()
	}
	if g.err != nil {
		d.leave(secret, g)
		return nil, g.err
	}
	return g, nil
}

// evict ends the guest who has been without a request for the longest, and reports whether there was one. d.mu is held.
func (d *Door) evict() bool {
	var key [sha256.Size]byte
	var idle *guest
	for k, g := range d.guests {
		if g.users == 0 && g.timer != nil && (idle == nil || g.left.Before(idle.left)) {
			key, idle = k, g
		}
	}
	if idle == nil {
		return false
	}
	delete(d.guests, key)
	idle.timer.Stop()
	idle.gone = true
	go func() {
		idle.close()
		idle.conn.Close()
	}()
	return true
}

// open lets g in.
func (d *Door) open(ctx context.Context, g *guest, secret [locator.SecretSize]byte) {
	defer close(g.ready)
	if g.conn, g.err = d.Dial(ctx, secret); g.err != nil {
		d.forget(secret, g)
		return
	}
	if g.handler, g.ended, g.close, g.err = d.Open(ctx, g.conn); g.err != nil {
		g.conn.Close()
		d.forget(secret, g)
		return
	}
	go func() {
		<-g.ended
		d.forget(secret, g)
	}()
}

// forget has the secret let in anew next time, and ends g when it is of no use to anybody.
func (d *Door) forget(secret [locator.SecretSize]byte, g *guest) {
	d.mu.Lock()
	key := sha256.Sum256(secret[:])
	if d.guests[key] == g {
		delete(d.guests, key)
	}
	over := !g.gone && g.close != nil
	g.gone = true
	d.mu.Unlock()
	if over {
		g.close()
		g.conn.Close()
	}
}

func (d *Door) leave(secret [locator.SecretSize]byte, g *guest) {
	idle := d.Idle
	if idle == 0 {
		idle = 30 * time.Minute
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if g.users--; g.users == 0 && !g.gone && g.close != nil {
		g.left = time.Now()
		g.timer = time.AfterFunc(idle, func() {
			d.mu.Lock()
			used := g.users > 0
			d.mu.Unlock()
			if !used {
				d.forget(secret, g)
			}
		})
	}
}

// Close ends all guests. Requests that come later are refused.
func (d *Door) Close() {
	d.mu.Lock()
	d.closed = true
	all := d.guests
	d.guests = nil
	d.mu.Unlock()
	for _, g := range all {
		<-g.ready
		d.mu.Lock()
		over := !g.gone && g.close != nil
		g.gone = true
		if g.timer != nil {
			g.timer.Stop()
		}
		d.mu.Unlock()
		if over {
			g.close()
			g.conn.Close()
		}
	}
}
