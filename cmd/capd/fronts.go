package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"capd/client"
	"capd/front/mcp"
	"capd/front/web"
	"capd/locator"
	"capd/state"
	"capd/vfs"
)

// frontFlags say where a host serves guests that speak another protocol.
type frontFlags struct {
	MCP string `name:"mcp" placeholder:"ADDR:PORT" help:"Serve guests that speak MCP at http://ADDR:PORT/mcp. ADDR is this machine's own, such as 127.0.0.1; PORT 0 is any free port. A client sends the secret of its locator as bearer."`
}

// fronts are the listeners of a host for such guests.
type fronts struct {
	listener net.Listener
	server   *http.Server
	door     *web.Door
}

// listen opens the listener that the flags ask for. It returns nil if they ask for none.
func (c *frontFlags) listen() (*fronts, error) {
	if c.MCP == "" {
		return nil, nil
	}
	host, _, err := net.SplitHostPort(c.MCP)
	ip := net.ParseIP(host)
	if err != nil || ip == nil || !ip.IsLoopback() {
		return nil, usageError{fmt.Sprintf("--mcp is %q; write an address of this machine's own and a port, such as 127.0.0.1:3183", c.MCP)}
	}
	l, err := net.Listen("tcp", c.MCP)
	if err != nil {
		return nil, vfs.Errorf(vfs.Invalid, "--mcp: %v", state.Reason(err))
	}
	return &fronts{listener: l}, nil
}

// serve begins to serve guests of the host whose guests' socket is at socket. It returns what to tell the host.
func (f *fronts) serve(socket string) (notes []string) {
	if f == nil {
		return nil
	}
	f.door = &web.Door{Names: web.Names(f.listener.Addr()), Open: mcp.Options{}.Open, Dial: func(ctx context.Context, secret [locator.SecretSize]byte) (*client.Conn, error) {
		return client.Dial(ctx, locator.Locator{Socket: socket, Secret: secret}.String())
	}}
	mux := http.NewServeMux()
	mux.Handle("/mcp", f.door)
	f.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	go func() { _ = f.server.Serve(f.listener) }() // it ends when it is closed
	return []string{"guests that speak MCP connect to http://" + f.listener.Addr().String() + "/mcp"}
}

// close ends all requests.
func (f *fronts) close() {
	switch {
	case f == nil:
	case f.server == nil:
		_ = f.listener.Close()
	default:
		f.door.Close()
		_ = f.server.Close()
	}
}
