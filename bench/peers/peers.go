// Package peers holds the contenders of the benchmark: for each, how its server is started and how its client makes
// the benchmark's operations.
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
	TLS     bool   // TCP on the loopback with TLS 1.3, and not a Unix socket
	Address string // of the server: a path, host:port, or what a contender makes of it
	Cert    string // file with the server's certificate
	Key     string // file with its key
	Scratch string // a path of one's own in a temporary directory, with nothing there
	Program string // this program without the peers; empty: this program
	Capd    string // the program capd
	Profile string // file for its CPU profile, if it was built to write one
	Cache   string // directory for what is built or installed
}

// A Contender is one implementation, as a server and a client in processes of their own.
type Contender struct {
	Name    string
	About   string
	Ops     []string                    // what it can do
	OpsTLS  []string                    // of these, over TLS
	Alone   bool                        // its client makes one call at a time
	Ours    bool                        // of capd, or the floor: no peer
	Durable bool                        // a put of its is on the disk when the call returns
	Version func(Place) (string, error) // or why it cannot run here

	// Beneath is put between TLS and the socket.
	Beneath func(net.Conn) net.Conn
	// Serve is the server, run in a process of its own: it listens on l until the process is ended.
	Serve func(p Place, l net.Listener) error
	// Command is the server where it is another program. It prints a line, of which Address makes the address.
	Command func(p Place) *exec.Cmd
	Address func(p Place, line string) (address string, ok bool)

	// Client connects, in a process of its own.
	Client func(p Place) (load.Client, error)
	// ClientCommand is the client where it is another program, which understands the lines that Main does.
	ClientCommand func(p Place) *exec.Cmd
	// Idle makes one more connection, which made a call and then does nothing.
	Idle func(p Place) error
}

// Own is capd's contenders and the floor, which the others are measured against, first.
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

// serverName is what the benchmark's certificate is for.
const serverName = "bench"

// socketBytes is how much a Unix socket is asked to hold, for every contender that lets us: it is what package vat asks
// for. The C++ contender asks for as much by itself.
const socketBytes = 512 << 10

// buffered asks nc, a Unix socket, to hold socketBytes.
func buffered(nc net.Conn) net.Conn {
	_ = nc.(*net.UnixConn).SetWriteBuffer(socketBytes) // as far as the system lets it, as in package vat
	return nc
}

// Listen listens at p.Address. What lies between TLS and the socket is beneath's, unless that is nil.
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

// A listener answers what beneath makes of the connections that it accepts.
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

// Dial connects to p.Address. What lies between TLS and the socket is beneath's, unless that is nil.
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

// accept gives every connection to serve, until l is closed.
func accept(l net.Listener, serve func(net.Conn)) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go serve(conn)
	}
}
