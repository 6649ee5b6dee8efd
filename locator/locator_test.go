package locator_test

import (
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
	f.Add("capnp:///x")
	f.Add("capnp://@/x")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := locator.Parse(text)
		if err != nil {
			if vfs.CodeOf(err) != vfs.Denied {
				t.Errorf("Parse(%q): %v", text, err)
			}
			return
		}
		again, err := locator.Parse(l.String())
		if err != nil || again != l {
			t.Errorf("%q is %q, which is %q: %v", text, l, again, err)
		}
	})
}
