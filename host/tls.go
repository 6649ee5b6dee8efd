package host

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"time"

	"capd/locator"
	"capd/vat"
)

// Bounds on TLS handshakes. A connection becomes a stranger only after its handshake.
const (
	// MaxHandshakes is how many handshakes may be in progress. One more ends the oldest
	// of the origin that has the most.
	MaxHandshakes = 256
	// HandshakeTimeout is how long a handshake may take.
	HandshakeTimeout = 10 * time.Second
)

// Identity is a host's key, by which guests over TLS recognize it.
type Identity struct {
	Key    locator.Key
	config *tls.Config
}

// NewIdentity returns the identity of key, with a new certificate. Guests compare only
// the key.
func NewIdentity(key ed25519.PrivateKey) (*Identity, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "capd"},
		NotBefore:   time.Now().Add(-24 * time.Hour), // for guests whose clock is slow and who look
		NotAfter:    time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Identity{locator.KeyOf(cert.RawSubjectPublicKeyInfo), &tls.Config{
		Certificates:                []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key, Leaf: cert}},
		MinVersion:                  tls.VersionTLS13,
		NextProtos:                  []string{locator.Protocol},
		SessionTicketsDisabled:      true, // no state is kept for closed connections
		DynamicRecordSizingDisabled: true, // a message that fits is sent as one record
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if len(hello.SupportedProtos) == 0 { // other names alone are refused by the TLS package
				return nil, errors.New("the guest did not ask for the protocol capnp")
			}
			return nil, nil
		},
	}}, nil
}

// answer returns the host's end of TLS over nc, before the handshake.
func (id *Identity) answer(nc net.Conn) *tls.Conn { return tls.Server(vat.Gather(nc), id.config) }

// ServeTLS serves guests on l as ServeGuests does, after a TLS 1.3 handshake with the
// host of that identity. A connection that speaks something else, or whose handshake
// takes too long, is closed before any of its messages is read.
func (s *Server) ServeTLS(l net.Listener, id *Identity) error {
	return s.serve(l, func(nc net.Conn) { s.handshake(nc, id) })
}

// handshake takes over nc, and serves a guest on it after the handshake.
func (s *Server) handshake(nc net.Conn, id *Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		nc.Close()
		return
	}
	who := &stranger{from: originOf(nc), leave: func() { nc.Close() }}
	s.handshakes.add(who)
	if s.handshakes.len() > MaxHandshakes {
		goes := s.handshakes.goes()
		s.handshakes.remove(goes)
		goes.leave()
	}
	s.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.o.handshakeTimeout)
		defer cancel()
		c := id.answer(nc)
		err := c.HandshakeContext(ctx)
		s.mu.Lock()
		s.handshakes.remove(who)
		s.mu.Unlock()
		if err != nil {
			nc.Close()
			return
		}
		s.Guest(c)
	})
}
