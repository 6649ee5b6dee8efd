// Package locator parses and formats locators: URLs that say where a host is and
// contain a secret. docs/locators.md describes the format.
package locator

import (
	"crypto/rand"
	"encoding/base64"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"capd/vfs"
)

// SecretSize is the length of a secret in bytes.
const SecretSize = 32

// Locator is the address of a host, and a secret. Whoever has it has the capability.
// The address is a Unix socket, or a name and port where the host proves its identity
// with its key.
type Locator struct {
	Socket string // absolute path of a Unix socket; "" over TLS
	Host   string // over TLS: a name, or an IP address without brackets or zone
	Port   uint16
	Key    Key // of that host
	Secret [SecretSize]byte
}

// NewSecret returns a new random secret.
func NewSecret() (s [SecretSize]byte) {
	rand.Read(s[:]) // never fails: see crypto/rand
	return s
}

// Address returns HOST:PORT in the form of package net, with an IPv6 address in
// brackets.
func (l Locator) Address() string {
	host := l.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(l.Port))
}

// String returns the locator: capnp://insecure@/path/of/socket/SECRET, or
// capnp://sha-256:DIGEST@HOST:PORT/SECRET. The first form says insecure, as in other
// implementations, because a Unix socket is not encrypted. The kernel protects it
// instead.
func (l Locator) String() string {
	secret := base64.RawURLEncoding.EncodeToString(l.Secret[:])
	if l.Host != "" {
		return "capnp://" + l.Key.String() + "@" + l.Address() + "/" + secret
	}
	u := url.URL{Scheme: "capnp", User: url.User("insecure"), Path: l.Socket + "/" + secret}
	return strings.NewReplacer("$", "%24", "&", "%26", ";", "%3B").Replace(u.String()) // these are special in a shell
}

// Parse parses a locator. It answers denied for an invalid one and says which part is
// wrong. The error contains nothing of the text.
func Parse(text string) (Locator, error) {
	text = strings.TrimSpace(text)
	scheme, rest, found := strings.Cut(text, "://")
	switch {
	case !found || !strings.EqualFold(scheme, "capnp"):
		return wrong("its scheme is not capnp")
	case strings.ContainsAny(text, "?#"):
		return wrong("it has a query or a fragment")
	}
	if rest, found := strings.CutPrefix(rest, keyPrefix); found {
		return parseTLS(rest)
	}
	return parseSocket(text)
}

func wrong(part string) (Locator, error) {
	return Locator{}, vfs.Errorf(vfs.Denied, "this is not a locator: %s; copy all of it, or ask for another", part)
}

const wrongSecret = "its last part is not a secret, which is 43 characters of base64url"

// parseSocket parses a locator with a Unix socket.
func parseSocket(text string) (Locator, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return wrong("it is not a URL")
	case u.User.String() != "insecure":
		return wrong("before the @ is neither insecure nor a host's key, " + keyPrefix + "DIGEST")
	case u.Host != "":
		return wrong("it is marked insecure and names a host, and only a Unix socket goes without a key")
	}
	i := strings.LastIndexByte(u.Path, '/')
	if i < 1 || strings.Contains(u.Path, "\x00") {
		return wrong("it has no path of a socket")
	}
	l := Locator{Socket: u.Path[:i]}
	if !decode(&l.Secret, u.Path[i+1:]) {
		return wrong(wrongSecret)
	}
	return l, nil
}

// hostName matches names and IPv4 addresses.
var hostName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,253}$`)

// parseTLS parses DIGEST@HOST:PORT/SECRET.
func parseTLS(text string) (Locator, error) {
	digest, rest, _ := strings.Cut(text, "@")
	address, secret, _ := strings.Cut(rest, "/")
	host, port := address, ""
	if i := strings.LastIndexByte(address, ':'); i >= 0 {
		host, port = address[:i], address[i+1:]
	}
	l := Locator{Host: host}
	if inner, bracketed := strings.CutPrefix(host, "["); bracketed {
		l.Host = strings.TrimSuffix(inner, "]")
		if a, err := netip.ParseAddr(l.Host); err != nil || !a.Is6() || a.Zone() != "" || len(inner) == len(l.Host) {
			return wrong("in the brackets is no IPv6 address")
		}
	} else if !hostName.MatchString(host) {
		return wrong("after the @ is no host, which is a name, an IPv4 address, or an IPv6 address in brackets")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	switch {
	case !decode((*[SecretSize]byte)(&l.Key), digest):
		return wrong("the digest of the host's key is not 43 characters of base64url")
	case err != nil || n == 0 || port[0] == '0':
		return wrong("its port is not a number from 1 to 65535")
	case !decode(&l.Secret, secret):
		return wrong(wrongSecret)
	}
	l.Port = uint16(n)
	return l, nil
}

// decode decodes 32 bytes of base64url without padding. It accepts only the canonical
// encoding.
func decode(to *[32]byte, text string) bool {
	if len(text) != base64.RawURLEncoding.EncodedLen(len(to)) {
		return false
	}
	n, err := base64.RawURLEncoding.Strict().Decode(to[:], []byte(text))
	return err == nil && n == len(to)
}
