package server

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"capd/locator"
	"capd/state"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

func TestListenArguments(t *testing.T) {
	for text, want := range map[string]hostPort{
		"tls:localhost:7000": {"localhost", 7000}, "tls::0": {"", 0}, "tls:[::1]:443": {"::1", 443}, "tls:0.0.0.0:65535": {"0.0.0.0", 65535},
	} {
		a, err := Address(text).parse()
		if err != nil {
			t.Fatalf("%v: %v", text, err)
		}
		if got, want := a, want; !reflect.DeepEqual(got, want) {
			t.Fatalf("%v: %v, want %v", text, got, want)
		}
	}
	for _, bad := range []string{"", "tls", "tls:", "tls:x", "tls:x:", "tls:x:http", "tls:x:65536", "tls:x:-1", "tls:::1:7", "x:7", "tcp:x:7", "unix:x"} {
		if err := new(Address).UnmarshalText([]byte(bad)); err == nil || !strings.Contains(err.Error(), "tls:HOST:PORT") {
			t.Fatalf("%v: %v, want %q", bad, err, "tls:HOST:PORT")
		}
	}
	for text, want := range map[string]hostPort{
		"example.org": {"example.org", 0}, "example.org:7": {"example.org", 7}, "192.0.2.1": {"192.0.2.1", 0}, "192.0.2.1:7": {"192.0.2.1", 7},
		"2001:db8::1": {"2001:db8::1", 0}, "[2001:db8::1]": {"2001:db8::1", 0}, "[2001:db8::1]:7": {"2001:db8::1", 7},
	} {
		a, err := Advertised(text).parse()
		if err != nil {
			t.Fatalf("%v: %v", text, err)
		}
		if got, want := a, want; !reflect.DeepEqual(got, want) {
			t.Fatalf("%v: %v, want %v", text, got, want)
		}
	}
	for _, bad := range []string{"", ":7", "x:", "x:0", "x:y", "0.0.0.0", "::", "[::]:7", "a:b:c"} {
		if err := new(Advertised).UnmarshalText([]byte(bad)); err == nil {
			t.Fatalf("%v: no error", bad)
		}
	}
}

// Locators name where the host listens, or the address that it advertises.
func TestListenTLS(t *testing.T) {
	name, err := os.Hostname()
	check.OK(t, err)
	for _, c := range []struct {
		listen    hostPort
		advertise *hostPort
		host      string
		port      uint16 // 0: the one that was opened
	}{
		{hostPort{"127.0.0.1", 0}, nil, "127.0.0.1", 0},
		{hostPort{"localhost", 0}, nil, "localhost", 0},
		{hostPort{"localhost", 0}, &hostPort{"example.org", 7}, "localhost", 0},
		{hostPort{"", 0}, nil, name, 0},
		{hostPort{"0.0.0.0", 0}, nil, name, 0},
		{hostPort{"0.0.0.0", 0}, &hostPort{"example.org", 0}, "example.org", 0},
		{hostPort{"", 0}, &hostPort{"2001:db8::1", 7}, "2001:db8::1", 7},
	} {
		l, w, err := listenTLS(t.Context(), c.listen, c.advertise)
		if err != nil {
			t.Fatalf("%v: %v", c.listen, err)
		}
		at := l.Addr().(*net.TCPAddr)
		if c.port == 0 {
			c.port = uint16(at.Port)
		}
		if got, want := w, (state.Way{Host: c.host, Port: c.port}); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v: %v, want %v", c.listen, got, want)
		}
		if got, want := at.IP.IsUnspecified(), c.listen.everywhere(); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v: %v, want %v", c.listen, got, want)
		}
		if c.listen.host == "0.0.0.0" {
			if got := at.IP.To4(); got == nil {
				t.Fatal("IPv4 alone: it is nil")
			}
		}
		_, _, err = listenTLS(t.Context(), hostPort{c.listen.host, uint16(at.Port)}, nil)
		if !errors.Is(err, vfs.Invalid) {
			t.Fatalf("it is taken: %v, want %v", err, vfs.Invalid)
		}
		if err == nil || !strings.Contains(err.Error(), "in use") {
			t.Fatalf("%v, want %q", err, "in use")
		}
		l.Close()
	}
	_, _, err = listenTLS(t.Context(), hostPort{"", 0}, &hostPort{"no name", 0})
	if !errors.Is(err, vfs.Invalid) {
		t.Fatalf("%v, want %v", err, vfs.Invalid)
	}
	if err == nil || !strings.Contains(err.Error(), "Advertise") {
		t.Fatalf("%v, want %q", err, "Advertise")
	}
	_, _, err = listenTLS(t.Context(), hostPort{"203.0.113.1", 0}, nil)
	if !errors.Is(err, vfs.Invalid) {
		t.Fatalf("%v, want %v", err, vfs.Invalid)
	}
}

// A host that listens at any free port has the same port again after a restart, unless somebody else has it by then.
func TestPortIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	once := func() string {
		s := &Server{State: dir, Logf: t.Logf, Listen: []Address{"tls:127.0.0.1:0"}, Mounts: []Mount{{Path: "m", URL: "memory:"}}}
		check.OK(t, s.Start(t.Context()))
		g, err := s.Grant(t.Context(), Guest{Name: "guest"})
		check.OK(t, err)
		check.OK(t, s.Close())
		loc, err := locator.Parse(g.TLS[0])
		check.OK(t, err)
		return loc.Address()
	}
	first := once()
	if again := once(); again != first {
		t.Errorf("%s becomes %s", first, again)
	}
	l, err := net.Listen("tcp", first)
	check.OK(t, err)
	defer l.Close()
	if other := once(); other == first {
		t.Errorf("two listen at %s", first)
	}
}
