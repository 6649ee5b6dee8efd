package locator

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
)

// Protocol is what both ends of a TLS connection call what they speak (ALPN,
// RFC 7301). An end that hears another name, or none, goes no further.
const Protocol = "capnp"

// Key stands for a host's public key: the sha-256 of its SubjectPublicKeyInfo
// (RFC 5280, section 4.1), so that it outlives the certificates that the host
// makes for the key.
type Key [sha256.Size]byte

// KeyOf returns the Key of a SubjectPublicKeyInfo in DER.
func KeyOf(spki []byte) Key { return sha256.Sum256(spki) }

const keyPrefix = "sha-256:"

// String is sha-256:DIGEST, as in a locator.
func (k Key) String() string { return keyPrefix + base64.RawURLEncoding.EncodeToString(k[:]) }

// MarshalText is String.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what String writes.
func (k *Key) UnmarshalText(text []byte) error {
	digest, found := strings.CutPrefix(string(text), keyPrefix)
	var read Key
	if !found || !decode((*[sha256.Size]byte)(&read), digest) {
		return errors.New("not " + keyPrefix + " and 43 characters of base64url")
	}
	*k = read
	return nil
}
