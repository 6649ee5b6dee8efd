// Package locator reads and writes locators: URLs that say where a host is and
// carry the secret that is the authority. docs/locators.md has the form.
package locator

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"

	"capd/vfs"
)

// SecretSize is the length of a secret in bytes.
const SecretSize = 32

// Locator is where a host is, and a secret. Whoever has it has the capability.
type Locator struct {
	Socket string // absolute path of a Unix socket
	Secret [SecretSize]byte
}

// NewSecret returns a secret that nobody can guess.
func NewSecret() (s [SecretSize]byte) {
	rand.Read(s[:]) // never fails: see crypto/rand
	return s
}

// String writes the locator: capnp://insecure@/path/of/socket/SECRET. The
// transport is marked insecure as other implementations do it, since a Unix
// socket is not encrypted; the kernel keeps it.
func (l Locator) String() string {
	u := url.URL{Scheme: "capnp", User: url.User("insecure"), Path: l.Socket + "/" + base64.RawURLEncoding.EncodeToString(l.Secret[:])}
	s := u.String()
	for _, c := range []string{"'", "(", ")", "*", "!", "$", "&", ";"} { // legal in a URL, special to a shell
		s = strings.ReplaceAll(s, c, fmt.Sprintf("%%%02X", c[0]))
	}
	return s
}

// Parse reads a locator. Whatever is wrong with it, the answer is denied, and
// nothing of the text is in the error.
func Parse(text string) (Locator, error) {
	denied := vfs.Errorf(vfs.Denied, "this is not a locator that this host gave out; ask for another")
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Scheme != "capnp" || u.User == nil || u.User.String() != "insecure" || u.Host != "" || u.Opaque != "" || u.RawQuery != "" || u.Fragment != "" {
		return Locator{}, denied
	}
	i := strings.LastIndexByte(u.Path, '/')
	if i < 1 || u.ForceQuery || strings.Contains(u.Path, "\x00") {
		return Locator{}, denied
	}
	l := Locator{Socket: u.Path[:i]}
	secret, err := base64.RawURLEncoding.Strict().DecodeString(u.Path[i+1:])
	if err != nil || len(secret) != SecretSize {
		return Locator{}, denied
	}
	copy(l.Secret[:], secret)
	return l, nil
}
