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

// dialTimeout bounds Dial where its context does not.
const dialTimeout = 15 * time.Second

// keepAlive finds within a minute or so that a host is gone without a word.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 4}

// Dial connects to the host that a locator names: to its Unix socket, or by TLS to
// its name and port. It answers denied for a text that is no locator, and for a
// host that does not have the key that the locator names, or whose socket does not
// let this user in; stale when no host
// answers there, or none within 15 s; and unsupported when something else does.
// The secret is not sent before the host has shown its key. Nothing is restored
// yet, so that a locator that was revoked shows when it is used.
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

// NewConn is Dial over a connection that is there already, which it takes over.
// Where the locator names a key, the connection has to have seen it.
func NewConn(nc net.Conn, loc locator.Locator) *Conn {
	c := vat.NewConn(nc, vat.Options{Encode: wire.Encode})
	return &Conn{vat: c, session: c.Bootstrap(context.Background()), loc: loc}
}

func dialSocket(ctx context.Context, loc locator.Locator) (net.Conn, error) {
	nc, err := (&net.Dialer{}).DialContext(ctx, "unix", loc.Socket)
	// Where as many wait to be accepted as may be, one more is refused at once.
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

// maxPause is how long is waited at most between two tries.
const maxPause = 20 * time.Millisecond

// wait waits, and reports whether ctx has not ended.
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

// dialTLS connects to the host that has the locator's key.
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

// pinned is the guest's end of TLS over nc; the handshake, which is still to come,
// fails unless the host has the locator's key. There is no authority that could
// say more of it: its certificate may have any name, and be of any age.
func pinned(nc net.Conn, loc locator.Locator) *tls.Conn {
	return tls.Client(vat.Gather(nc), &tls.Config{
		ServerName:                  loc.Host, // for what may stand between and choose by name
		MinVersion:                  tls.VersionTLS13,
		NextProtos:                  []string{locator.Protocol},
		DynamicRecordSizingDisabled: true, // a message is one record where it fits
		InsecureSkipVerify:          true, // VerifyConnection does it
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
	case failed && op.Op == "remote error": // an alert: it speaks TLS
		return unsupported(err, loc)
	case failed, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &vfs.Error{Code: vfs.Stale, Msg: "the host at " + loc.Address() + " ended the connection, or did not answer in time; try again", Cause: err}
	}
	return unsupported(err, loc)
}

func unsupported(cause error, loc locator.Locator) error {
	return &vfs.Error{Code: vfs.Unsupported, Msg: "what answers at " + loc.Address() + " does not speak Cap'n Proto over TLS 1.3; is the port right?", Cause: cause}
}
