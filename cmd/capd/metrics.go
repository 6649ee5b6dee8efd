package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"capd/metrics"
	"capd/server"
	"capd/state"
	"capd/vfs"
)

// metricsFlags say where a host serves what it measures.
type metricsFlags struct {
	Metrics      string `placeholder:"HOST:PORT" help:"Serve Prometheus at http://HOST:PORT/metrics. HOST is an IP address; without a token it is one of this machine's own, such as 127.0.0.1. PORT 0 is any free port."`
	MetricsToken string `placeholder:"FILE" help:"Tell only who sends the first line of this file as its bearer. Only your own user may read the file."`
}

// maxToken is the size, in bytes, of the largest file with a token.
const maxToken = 4096

// measuring is a listener for those who ask for what a host measures.
type measuring struct {
	net.Listener
	token string
	http  *http.Server // nil until it serves
}

// listen opens the listener that the flags ask for. It returns nil if they ask for none.
func (c *metricsFlags) listen() (*measuring, error) {
	if c.Metrics == "" {
		if c.MetricsToken != "" {
			return nil, usageError{"--metrics-token is for --metrics"}
		}
		return nil, nil
	}
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(c.Metrics)
	ip := net.ParseIP(host)
	switch {
	case err != nil || ip == nil:
		return nil, usageError{fmt.Sprintf("--metrics is %q; write an IP address and a port, such as 127.0.0.1:9100", c.Metrics)}
	case token == "" && !ip.IsLoopback():
		return nil, usageError{"--metrics at an address that others can reach needs --metrics-token"}
	}
	l, err := net.Listen("tcp", c.Metrics)
	if err != nil {
		return nil, vfs.Errorf(vfs.Invalid, "--metrics: %v", state.Reason(err))
	}
	return &measuring{Listener: l, token: token}, nil
}

// serve begins to answer with what s measures. It returns what to tell the host.
func (m *measuring) serve(s *server.Server) (notes []string) {
	if m == nil {
		return nil
	}
	m.http = &http.Server{Handler: metrics.Handler(m.token, s.Metrics), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	go func() { _ = m.http.Serve(m) }() // it ends when it is closed
	return []string{"metrics are at http://" + m.Addr().String() + "/metrics"}
}

// close ends what is asked now, after a second at most.
func (m *measuring) close() {
	switch {
	case m == nil:
	case m.http == nil:
		_ = m.Close()
	default:
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if m.http.Shutdown(ctx) != nil {
			_ = m.http.Close()
		}
	}
}

// token returns the token, or "" if none is needed.
func (c *metricsFlags) token() (string, error) {
	if c.MetricsToken == "" {
		return "", nil
	}
	f, err := os.Open(c.MetricsToken)
	if err != nil {
		return "", vfs.Errorf(vfs.Invalid, "the file of --metrics-token cannot be read: %v", state.Reason(err))
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !fi.Mode().IsRegular() || !state.Secret(fi) {
		return "", vfs.Errorf(vfs.Denied, "the file of --metrics-token is not only yours to read; chmod 600 it")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line = strings.TrimSpace(line); line == "" || len(text) > maxToken {
		return "", vfs.Errorf(vfs.Invalid, "the file of --metrics-token has no token in its first line")
	}
	return line, nil
}
