package client

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"net"
	"syscall"
	"time"

	"capd/cap/wire"
	"capd/locator"
	"capd/vat"
	"capd/vfs"
)

// dialTimeout bounds Dial unless its context ends earlier.
const dialTimeout = 15 * time.Second

// keepAlive detects within about a minute that a host is gone without closing the
// connection.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 4}

// Dial connects to the host that a locator names: to its Unix socket, or over TLS to
// its name and port. It answers
//
//   - denied, if text is not a locator, if the host does not have the key in the locator, or
//     if the socket does not let this user in;
//   - stale, if no host answers within 15 s;
//   - unsupported, if something else answers there.
//
// The secret is sent only after the host has proved its key. Dial restores nothing yet,
// so a revoked locator shows at its first use.
func Dial(ctx context.Context, text string) (*Conn, error) {
	loc, err := locator.Parse(text)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	dial := dialSocket
	if loc.Host != "" {
		dial = dialTLS
	}
	nc, err := dial(ctx, loc)
	if err != nil {
		return nil, err
	}
	return NewConn(nc, loc), nil
}

// NewConn is like Dial, but uses the connection nc, which it takes over. If the locator
// has a key, the caller has checked that the host has it.
func NewConn(nc net.Conn, loc locator.Locator) *Conn {
	c := vat.NewConn(nc, vat.Options{Encode: wire.Encode})
	return &Conn{vat: c, session: c.Bootstrap(context.Background()), loc: loc}
}

func dialSocket(ctx context.Context, loc locator.Locator) (net.Conn, error) {
	nc, err := (&net.Dialer{}).DialContext(ctx, "unix", loc.Socket)
	// A socket refuses a connection at once while its queue of connections is full.
	for pause := time.Millisecond; errors.Is(err, syscall.EAGAIN) && wait(ctx, pause); pause = min(2*pause, maxPause) {
		nc, err = (&net.Dialer{}).DialContext(ctx, "unix", loc.Socket)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, &vfs.Error{Code: vfs.Denied, Msg: refused(loc.Socket), Cause: err}
	}
	if err != nil {
		return nil, &vfs.Error{Code: vfs.Stale, Msg: "no host answers at this locator; is it running?", Cause: err}
	}
	return nc, nil
}

// maxPause is the longest pause between two tries.
const maxPause = 20 * time.Millisecond

// wait waits for d. It reports false if ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// refused says why a socket does not let this user in, and what to do.
func refused(socket string) string {
	msg := "the host's socket does not let this user in"
	if owner := ownerOf(socket); owner != "" {
		msg = "the host's socket belongs to the user " + owner + " and does not let the user " + thisUser() + " in"
	}
	return msg + ": a locator of a Unix socket is for the host's own user; ask for one over TLS, or that the host lets other users in"
}

// dialTLS connects over TLS to the host that has the locator's key.
func dialTLS(ctx context.Context, loc locator.Locator) (net.Conn, error) {
	nc, err := (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext(ctx, "tcp", loc.Address())
	if err != nil {
		return nil, &vfs.Error{Code: vfs.Stale, Msg: "no host answers at " + loc.Address() + "; is it running, and can it be reached from here?", Cause: err}
	}
	c := pinned(nc, loc)
	if err := c.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, refusal(err, loc)
	}
	return c, nil
}

// pinned returns the client's end of TLS over nc. The handshake, which is still to be
// done, fails unless the host has the locator's key. The certificate's name and dates
// are not checked: only the key identifies the host.
func pinned(nc net.Conn, loc locator.Locator) *tls.Conn {
	return tls.Client(vat.Gather(nc), &tls.Config{
		ServerName:                  loc.Host, // for proxies that choose the host by name
		MinVersion:                  tls.VersionTLS13,
		NextProtos:                  []string{locator.Protocol},
		DynamicRecordSizingDisabled: true, // a small message is one record
		InsecureSkipVerify:          true, // VerifyConnection checks the key
		VerifyConnection: func(s tls.ConnectionState) error {
			switch {
			case locator.KeyOf(s.PeerCertificates[0].RawSubjectPublicKeyInfo) != loc.Key:
				return vfs.Errorf(vfs.Denied, "the host at %s does not have the key that this locator names: it is another host, or its key is new; nothing was sent to it; ask for a new locator", loc.Address())
			case s.NegotiatedProtocol != locator.Protocol:
				return unsupported(nil, loc)
			}
			return nil
		},
	})
}

// refusal says why a handshake failed.
func refusal(err error, loc locator.Locator) error {
	if e, ok := errors.AsType[*vfs.Error](err); ok {
		return e
	}
	op, failed := errors.AsType[*net.OpError](err)
	switch {
	case failed && op.Op == "remote error": // a TLS alert: it speaks TLS
		return unsupported(err, loc)
	case failed, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &vfs.Error{Code: vfs.Stale, Msg: "the host at " + loc.Address() + " ended the connection, or did not answer in time; try again", Cause: err}
	}
	return unsupported(err, loc)
}

func unsupported(cause error, loc locator.Locator) error {
	return &vfs.Error{Code: vfs.Unsupported, Msg: "what answers at " + loc.Address() + " does not speak Cap'n Proto over TLS 1.3; is the port right?", Cause: cause}
}
