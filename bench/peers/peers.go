// Package peers holds the contenders of the benchmark. Each says how its server is started, and how its
// client does the benchmark's operations.
package peers

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"os/exec"

	"capd/bench/load"
)

// A Place is what the processes of one run share.
type Place struct {
	Table   string // file that holds the table
	Tree    string // directory that files are served from
	TLS     bool   // TCP on the loopback with TLS 1.3, instead of a Unix socket
	Address string // of the server: a path, host:port, or what a contender makes of it
	Cert    string // file with the server's certificate
	Key     string // file with its key
	Scratch string // an unused path in a temporary directory
	Program string // this program without the peers; empty: this program
	Capd    string // the program capd
	Profile string // file for its CPU profile, if it was built to write one
	Cache   string // directory for what is built or installed
}

// A Contender is one implementation, as a server and a client in processes of their own.
type Contender struct {
	Name    string
	About   string
	Ops     []string                    // its operations
	OpsTLS  []string                    // those of Ops that it has over TLS
	Alone   bool                        // its client makes one call at a time
	Ours    bool                        // capd's or the floor, not a peer
	Durable bool                        // its puts are on disk when the call returns
	Version func(Place) (string, error) // or an error that says why it cannot run here

	// Beneath wraps the socket beneath TLS.
	Beneath func(net.Conn) net.Conn
	// Serve runs the server in a process of its own. It serves l until the process is ended.
	Serve func(p Place, l net.Listener) error
	// Command returns the server if it is another program. The program prints a line, from which Address
	// makes the address.
	Command func(p Place) *exec.Cmd
	Address func(p Place, line string) (address string, ok bool)

	// Client connects, in a process of its own.
	Client func(p Place) (load.Client, error)
	// ClientCommand returns the client if it is another program. The program understands the same lines as
	// Main.
	ClientCommand func(p Place) *exec.Cmd
	// Idle opens one more connection, makes one call on it, and leaves it idle.
	Idle func(p Place) error
}

// Own is capd's contenders and the floor. The floor is first: others are compared with it.
var Own = []*Contender{Floor, PingPong, Vat, Capd}

// Find returns a contender.
func Find(name string) (*Contender, error) {
	for _, c := range All {
		if c.Name == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("no contender %q", name)
}

// serverName is the host name in the benchmark's certificate.
const serverName = "bench"

// socketBytes is the requested buffer size of a Unix socket, for every contender that allows us to set it. It
// is the size that package vat requests. The C++ contender requests the same by itself.
const socketBytes = 512 << 10

// buffered sets nc's buffers, if it is a Unix socket, to socketBytes.
func buffered(nc net.Conn) net.Conn {
	_ = nc.(*net.UnixConn).SetWriteBuffer(socketBytes) // as far as the system allows it, as in package vat
	return nc
}

// Listen listens at p.Address. beneath, if not nil, wraps the socket beneath TLS.
func (p Place) Listen(beneath func(net.Conn) net.Conn) (net.Listener, error) {
	if !p.TLS {
		l, err := net.Listen("unix", p.Address)
		return listener{l, buffered}, err
	}
	c, err := tls.LoadX509KeyPair(p.Cert, p.Key)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", p.Address)
	if err != nil {
		return nil, err
	}
	if beneath != nil {
		l = listener{l, beneath}
	}
	return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}}), nil // gRPC insists on it
}

// A listener wraps the connections that it accepts with beneath.
type listener struct {
	net.Listener
	beneath func(net.Conn) net.Conn
}

func (l listener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.beneath(nc), nil
}

// Dial connects to p.Address. beneath, if not nil, wraps the socket beneath TLS.
func (p Place) Dial(beneath func(net.Conn) net.Conn) (net.Conn, error) {
	if !p.TLS {
		nc, err := net.Dial("unix", p.Address)
		if err != nil {
			return nil, err
		}
		return buffered(nc), nil
	}
	c, err := p.clientConfig()
	if err != nil {
		return nil, err
	}
	nc, err := net.Dial("tcp", p.Address)
	if err != nil {
		return nil, err
	}
	if beneath != nil {
		nc = beneath(nc)
	}
	conn := tls.Client(nc, c)
	return conn, conn.Handshake()
}

func (p Place) clientConfig() (*tls.Config, error) {
	pem, err := os.ReadFile(p.Cert)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", p.Cert)
	}
	return &tls.Config{RootCAs: pool, ServerName: serverName, MinVersion: tls.VersionTLS13}, nil
}

// accept calls serve for every connection, until l is closed.
func accept(l net.Listener, serve func(net.Conn)) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go serve(conn)
	}
}
