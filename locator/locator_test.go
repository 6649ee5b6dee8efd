package locator_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"capd/locator"
	"capd/vfs"
)

var sockets = []string{
	"/run/user/1000/capd/guest.sock", "/", "/a", "//a", "/a/", "/a//b", "/with space/s", `/quo"te/s`, "/apo'strophe/s", "/100%/s", "/%41/s", "/a;b/s",
	"/a?b/s", "/a#b/s", "/a@b/s", "/a:b/s", "/naïve/世界/😀", "/$HOME/`id`/s", "/a&b|c>d<e/s", "/(a)*!/s", "/a\\b/s", "/~/s", "/a\nb/s", "/\xff\xfe/s", "/a+b=c,d/s",
	"/[a]{b}^/s", "/..//s",
}

func TestRoundTrip(t *testing.T) {
	for _, socket := range sockets {
		l := locator.Locator{Socket: socket, Secret: locator.NewSecret()}
		text := l.String()
		got, err := locator.Parse(text)
		if err != nil || got != l {
			t.Errorf("%q becomes %q, which is %q: %v", socket, text, got.Socket, err)
		}
		if !strings.HasPrefix(text, "capnp://") || strings.ContainsAny(text, " '\"`;$&|<>()*!\\\n?#[]{}^") || strings.ContainsFunc(text, func(r rune) bool { return r > 126 || r < 33 }) {
			t.Errorf("%q is nothing to put on a command line", text)
		}
		if i := strings.LastIndexByte(text, '/'); len(text)-i-1 != 43 {
			t.Errorf("%q does not end with its secret", text)
		}
	}
}

// hosts are what a locator over TLS can name, as it is written there.
var hosts = map[string]string{
	"example.org": "example.org", "localhost": "localhost", "A_b-c.9": "A_b-c.9", "192.0.2.1": "192.0.2.1", "::1": "[::1]",
	"2001:db8::7": "[2001:db8::7]", "::ffff:192.0.2.1": "[::ffff:192.0.2.1]", strings.Repeat("a", 253): strings.Repeat("a", 253),
}

func TestRoundTripTLS(t *testing.T) {
	for host, written := range hosts {
		for _, port := range []uint16{1, 443, 7000, 65535} {
			l := locator.Locator{Host: host, Port: port, Key: locator.KeyOf([]byte(host)), Secret: locator.NewSecret()}
			text := l.String()
			got, err := locator.Parse(text)
			if err != nil || got != l {
				t.Errorf("%q becomes %q, which is %v: %v", host, text, got, err)
			}
			if want := fmt.Sprintf("capnp://%v@%s:%d/", l.Key, written, port); text[:len(text)-43] != want || l.Address() != fmt.Sprint(written, ":", port) {
				t.Errorf("%q at %q, want %q", text, l.Address(), want)
			}
		}
	}
}

// The digest is the one that others print: of the DER of a SubjectPublicKeyInfo.
// This is RFC 8410's example (section 10.1), its digest from
// openssl pkey -pubin -outform DER | openssl dgst -sha256 -binary | basenc --base64url.
func TestKeyOf(t *testing.T) {
	spki, err := base64.StdEncoding.DecodeString("MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=")
	if err != nil {
		t.Fatal(err)
	}
	key := locator.KeyOf(spki)
	if want := "sha-256:oekVYFTgT6yJmunydRMs3Ael28TqLCrTof_G4NJTaB8"; key.String() != want {
		t.Errorf("%v, want %s", key, want)
	}
	text, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	var got locator.Key
	if err := json.Unmarshal(text, &got); err != nil || got != key {
		t.Errorf("%s is read as %v: %v", text, got, err)
	}
	for _, bad := range []string{"", "sha-256:", "sha-512:" + key.String()[8:], key.String()[8:], key.String() + "A", key.String()[:50], strings.ToUpper(key.String())} {
		if err := got.UnmarshalText([]byte(bad)); err == nil || got != key {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}

func TestParse(t *testing.T) {
	l := locator.Locator{Socket: "/run/s", Secret: locator.NewSecret()}
	text := l.String()
	secret := text[len(text)-43:]
	for _, same := range []string{text, " " + text + "\n", "CAPNP" + text[5:]} {
		if got, err := locator.Parse(same); err != nil || got != l {
			t.Errorf("%q: %v", same, err)
		}
	}
	for _, bad := range []string{
		"", "capnp:", "capnp://", "capnp:///", "capnp:///run/s/" + secret, "capnp://insecure@/" + secret, "capnp://insecure@/run/s/",
		"http://insecure@/run/s/" + secret, "capnp://insecure@host/run/s/" + secret, "capnp://sha-256:x@host/run/s/" + secret,
		"capnp://insecure:pw@/run/s/" + secret, text + "=", text[:len(text)-1], text + "A", text + "?x", text + "#x", text + "?",
		"capnp:insecure@/run/s/" + secret, text[:len(text)-43] + strings.Repeat("!", 43), text[:len(text)-1] + "_", "capnp://insecure@/run/%00/" + secret,
		"capnp://insecure@/%zz/" + secret, "/run/s/" + secret, secret,
	} {
		got, err := locator.Parse(bad)
		if vfs.CodeOf(err) != vfs.Denied || got != (locator.Locator{}) {
			t.Errorf("Parse(%q) = %q, %v, want denied", bad, got.Socket, err)
		}
		if err != nil && (strings.Contains(err.Error(), "run") || strings.Contains(err.Error(), secret[:8])) {
			t.Errorf("the error shows the locator: %v", err)
		}
	}
}

// The error says which part is wrong, and nothing of what the parts are.
func TestParseSaysWhat(t *testing.T) {
	secret := strings.Repeat("S", 42) + "A"
	key := locator.KeyOf(nil).String()
	tls := "capnp://" + key + "@example.org:7000/" + secret
	if _, err := locator.Parse(tls); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, text string }{
		{"scheme", ""},
		{"scheme", secret},
		{"scheme", "http" + tls[5:]},
		{"scheme", "capnps" + tls[5:]},
		{"query or a fragment", tls + "?"},
		{"query or a fragment", tls + "#x"},
		{"neither insecure nor", "capnp://example.org:7000/" + secret},
		{"neither insecure nor", "capnp://sha-512:x@example.org:7000/" + secret},
		{"neither insecure nor", "capnp://insecure:x@/run/s/" + secret},
		{"names a host", "capnp://insecure@example.org:7000/" + secret},
		{"path of a socket", "capnp://insecure@/" + secret},
		{"not a URL", "capnp://insecure@/%zz/" + secret},
		{"not a URL", "capnp://insecure@/a\x00/" + secret},
		{"not a secret", "capnp://insecure@/run/s/" + secret[:42]},
		{"not a secret", "capnp://insecure@/run/s/" + secret[:42] + "%0A" + secret[42:]},
		{"digest", strings.Replace(tls, key, key+"A", 1)},
		{"digest", strings.Replace(tls, key, key[:len(key)-1], 1)},
		{"digest", strings.Replace(tls, key, key[:20]+"/"+key[21:], 1)},
		{"digest", strings.Replace(tls, key, key[:20]+"\n"+key[21:], 1)},
		{"digest", strings.Replace(tls, key, "sha-256:", 1)},
		{"no host", strings.Replace(tls, "@example.org:7000", "", 1)},
		{"no host", strings.Replace(tls, "example.org", "", 1)},
		{"no host", strings.Replace(tls, "example.org", "exa mple.org", 1)},
		{"no host", strings.Replace(tls, "example.org", "naïve.org", 1)},
		{"no host", strings.Replace(tls, "example.org", "example%2eorg", 1)},
		{"no host", strings.Replace(tls, "example.org", "::1", 1)},
		{"no host", strings.Replace(tls, "example.org", "user@example.org", 1)},
		{"no host", strings.Replace(tls, "example.org", strings.Repeat("a", 254), 1)},
		{"IPv6", strings.Replace(tls, "example.org", "[example.org]", 1)},
		{"IPv6", strings.Replace(tls, "example.org", "[192.0.2.1]", 1)},
		{"IPv6", strings.Replace(tls, "example.org", "[::1", 1)},
		{"IPv6", strings.Replace(tls, "example.org", "[fe80::1%eth0]", 1)},
		{"IPv6", strings.Replace(tls, "example.org", "[]", 1)},
		{"port", strings.Replace(tls, ":7000", "", 1)},
		{"port", strings.Replace(tls, ":7000", ":", 1)},
		{"port", strings.Replace(tls, ":7000", ":0", 1)},
		{"port", strings.Replace(tls, ":7000", ":07000", 1)},
		{"port", strings.Replace(tls, ":7000", ":+7000", 1)},
		{"port", strings.Replace(tls, ":7000", ":65536", 1)},
		{"port", strings.Replace(tls, ":7000", ":http", 1)},
		{"not a secret", tls[:len(tls)-43]},
		{"not a secret", tls[:len(tls)-44]},
		{"not a secret", tls[:len(tls)-1]},
		{"not a secret", tls + "A"},
		{"not a secret", tls + "/"},
		{"not a secret", tls[:len(tls)-1] + "B"}, // bits beyond the last byte
		{"not a secret", tls[:len(tls)-43] + "sub/" + secret},
	} {
		got, err := locator.Parse(c.text)
		if vfs.CodeOf(err) != vfs.Denied || got != (locator.Locator{}) || !strings.Contains(err.Error(), c.what) {
			t.Errorf("Parse(%q) = %v, %v, want denied and %q", c.text, got, err, c.what)
		}
		for _, hidden := range []string{"SSSS", "example", "7000", key[8:16], "/"} {
			if err != nil && strings.Contains(err.Error(), hidden) {
				t.Errorf("the error shows %q: %v", hidden, err)
			}
		}
	}
}

func TestSecretsDiffer(t *testing.T) {
	seen := map[[locator.SecretSize]byte]bool{}
	for range 1000 {
		seen[locator.NewSecret()] = true
	}
	if len(seen) != 1000 {
		t.Errorf("%d different secrets of 1000", len(seen))
	}
}

func FuzzLocator(f *testing.F) {
	for _, socket := range sockets {
		f.Add(locator.Locator{Socket: socket}.String())
	}
	for host := range hosts {
		f.Add(locator.Locator{Host: host, Port: 7000}.String())
	}
	for _, text := range []string{
		"", "capnp:///x", "capnp://@/x", "capnp://sha-256:", "capnp://sha-256:@:/", "capnp://sha-256:@[:1/", "capnp://sha-256:x@[::1%25eth0]:1/",
		"capnp://insecure@/run/s", "capnp://sha-256:" + strings.Repeat("A", 43) + "@h:1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		const secret = "qZ7xW2kP9vL4mT8rB3nY6cJ1hF5gD0sKaQeUiOyXwzA"
		for _, text := range []string{text, text + "/" + secret, text + secret, strings.ReplaceAll(text, "A", secret)} {
			l, err := locator.Parse(text)
			if err != nil {
				if vfs.CodeOf(err) != vfs.Denied || l != (locator.Locator{}) {
					t.Errorf("Parse(%q): %v, %v", text, l, err)
				}
				for i := range len(secret) - 4 {
					if strings.Contains(err.Error(), secret[i:i+4]) {
						t.Errorf("Parse(%q) shows the secret: %v", text, err)
					}
				}
				continue
			}
			again, err := locator.Parse(l.String())
			if err != nil || again != l {
				t.Errorf("%q is %q, which is %q: %v", text, l, again, err)
			}
			if (l.Host == "") == (l.Socket == "") || (l.Host == "") != (l.Port == 0) {
				t.Errorf("%q is %+v", text, l)
			}
		}
	})
}
