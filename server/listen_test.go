package server

import (
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"capd/state"
	"capd/vfs"
)

func TestListenArguments(t *testing.T) {
	for text, want := range map[string]hostPort{
		"tls:localhost:7000": {"localhost", 7000}, "tls::0": {"", 0}, "tls:[::1]:443": {"::1", 443}, "tls:0.0.0.0:65535": {"0.0.0.0", 65535},
	} {
		a, err := Address(text).parse()
		require.NoError(t, err, text)
		require.Equal(t, want, a, text)
	}
	for _, bad := range []string{"", "tls", "tls:", "tls:x", "tls:x:", "tls:x:http", "tls:x:65536", "tls:x:-1", "tls:::1:7", "x:7", "tcp:x:7", "unix:x"} {
		require.ErrorContains(t, new(Address).UnmarshalText([]byte(bad)), "tls:HOST:PORT", bad)
	}
	for text, want := range map[string]hostPort{
		"example.org": {"example.org", 0}, "example.org:7": {"example.org", 7}, "192.0.2.1": {"192.0.2.1", 0}, "192.0.2.1:7": {"192.0.2.1", 7},
		"2001:db8::1": {"2001:db8::1", 0}, "[2001:db8::1]": {"2001:db8::1", 0}, "[2001:db8::1]:7": {"2001:db8::1", 7},
	} {
		a, err := Advertised(text).parse()
		require.NoError(t, err, text)
		require.Equal(t, want, a, text)
	}
	for _, bad := range []string{"", ":7", "x:", "x:0", "x:y", "0.0.0.0", "::", "[::]:7", "a:b:c"} {
		require.Error(t, new(Advertised).UnmarshalText([]byte(bad)), bad)
	}
}

// Locators name where the host listens, or the address that it advertises.
func TestListenTLS(t *testing.T) {
	name, err := os.Hostname()
	require.NoError(t, err)
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
		require.NoError(t, err, c.listen)
		at := l.Addr().(*net.TCPAddr)
		if c.port == 0 {
			c.port = uint16(at.Port)
		}
		require.Equal(t, state.Way{Host: c.host, Port: c.port}, w, c.listen)
		require.Equal(t, c.listen.everywhere(), at.IP.IsUnspecified(), c.listen)
		if c.listen.host == "0.0.0.0" {
			require.NotNil(t, at.IP.To4(), "IPv4 alone")
		}
		_, _, err = listenTLS(t.Context(), hostPort{c.listen.host, uint16(at.Port)}, nil)
		require.ErrorIs(t, err, vfs.Invalid, "it is taken")
		require.ErrorContains(t, err, "in use")
		l.Close()
	}
	_, _, err = listenTLS(t.Context(), hostPort{"", 0}, &hostPort{"no name", 0})
	require.ErrorIs(t, err, vfs.Invalid)
	require.ErrorContains(t, err, "Advertise")
	_, _, err = listenTLS(t.Context(), hostPort{"203.0.113.1", 0}, nil)
	require.ErrorIs(t, err, vfs.Invalid)
}
