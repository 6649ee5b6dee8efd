package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"

	"capd/client"
	"capd/front/mcp"
	"capd/front/openwop"
	"capd/front/web"
	"capd/locator"
	"capd/state"
	"capd/vfs"
)

// frontFlags say where a host serves guests that speak another protocol.
type frontFlags struct {
	MCP     string `name:"mcp" placeholder:"ADDR:PORT" help:"Serve guests that speak MCP at http://ADDR:PORT/mcp. ADDR is this machine's own, such as 127.0.0.1; PORT 0 is any free port. A client sends the secret of its locator as bearer."`
	OpenWOP string `name:"openwop" placeholder:"ADDR:PORT" help:"Serve workflow engines with the capability host.fs of OpenWOP at http://ADDR:PORT, likewise."`
}

// front is a listener of a host for such guests.
type front struct {
	path     string // below which it serves; it may have patterns of [http.ServeMux]
	says     string // what to tell the host, before the address
	at       string // and after it
	open     func(context.Context, *client.Conn) (http.Handler, <-chan struct{}, func(), error)
	listener net.Listener
	server   *http.Server
	door     *web.Door
}

type fronts []*front

// listen opens the listeners that the flags ask for.
func (c *frontFlags) listen() (all fronts, err error) {
	for _, f := range []struct {
		flag, address string
		front
	}{
		{"--mcp", c.MCP, front{path: "/mcp", says: "guests that speak MCP connect to", at: "/mcp", open: mcp.Options{}.Open}},
		{"--openwop", c.OpenWOP, front{path: "/", says: "engines that speak OpenWOP connect to", open: openwop.Open}},
	} {
		if f.address == "" {
			continue
		}
		host, _, err := net.SplitHostPort(f.address)
		ip := net.ParseIP(host)
		if err != nil || ip == nil || !ip.IsLoopback() {
			all.close()
			return nil, usageError{fmt.Sprintf("%s is %q; write an address of this machine's own and a port, such as 127.0.0.1:3183", f.flag, f.address)}
		}
		one := f.front
		if one.listener, err = net.Listen("tcp", f.address); err != nil {
			all.close()
			return nil, vfs.Errorf(vfs.Invalid, "%s: %v", f.flag, state.Reason(err))
		}
		all = append(all, &one)
	}
	return all, nil
}

// maxFrontConns is how many connections a front has at once. Anybody on this machine may open some.
const maxFrontConns = 1024

// serve begins to serve guests of the host whose guests' socket is at socket. It returns what to tell the host.
func (all fronts) serve(socket string) (notes []string) {
	dial := func(ctx context.Context, secret [locator.SecretSize]byte) (*client.Conn, error) {
		return client.Dial(ctx, locator.Locator{Socket: socket, Secret: secret}.String())
	}
	for _, f := range all {
		f.door = &web.Door{Names: web.Names(f.listener.Addr()), Open: f.open, Dial: dial}
		mux := http.NewServeMux()
		mux.Handle(f.path, f.door)
		f.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
		go func() { _ = f.server.Serve(netutil.LimitListener(f.listener, maxFrontConns)) }() // it ends when it is closed
		notes = append(notes, f.says+" http://"+f.listener.Addr().String()+f.at)
	}
	return notes
}

// close ends all requests.
func (all fronts) close() {
	for _, f := range all {
		if f.server == nil {
			_ = f.listener.Close()
			continue
		}
		_ = f.server.Close() // first, since a guest may take no answers
		f.door.Close()
	}
}
