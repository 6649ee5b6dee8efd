package locator

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
)

// Protocol is the name of the protocol inside TLS (ALPN, RFC 7301). An end that sees
// another name, or none, closes the connection.
const Protocol = "capnp"

// Key identifies a host's public key: the SHA-256 of its SubjectPublicKeyInfo (RFC
// 5280, section 4.1). It stays the same when the host makes a new certificate for the
// key.
type Key [sha256.Size]byte

// KeyOf returns the Key of a SubjectPublicKeyInfo in DER.
func KeyOf(spki []byte) Key { return sha256.Sum256(spki) }

const keyPrefix = "sha-256:"

// String returns sha-256:DIGEST, as in a locator.
func (k Key) String() string { return keyPrefix + base64.RawURLEncoding.EncodeToString(k[:]) }

// MarshalText is [Key.String].
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText parses what String returns.
func (k *Key) UnmarshalText(text []byte) error {
	digest, found := strings.CutPrefix(string(text), keyPrefix)
	var read Key
	if !found || !decode((*[sha256.Size]byte)(&read), digest) {
		return errors.New("not " + keyPrefix + " and 43 characters of base64url")
	}
	*k = read
	return nil
}
