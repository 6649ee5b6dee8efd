package mcp

import (
	"context"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"capd/client"
)

// stateless is the first revision of the protocol without sessions.
const stateless = "2026-07-28"

// lookAgain is how often the rights of a guest over HTTP are looked at.
const lookAgain = 2 * time.Second

// idle is how long a session over HTTP lasts without a request.
const idle = 30 * time.Minute

// maxSessions is how many sessions a guest has over HTTP, and maxBeginning the size, in bytes, of the longest request that begins one. It is kept.
const (
	maxSessions  = 256
	maxBeginning = 64 << 10
)

// Open serves the guest who holds conn over streamable HTTP, in the revisions with sessions and in those without. It is for [capd/front/web.Door].
// ended is closed when the capability has ended; then so have the sessions.
func (o Options) Open(ctx context.Context, conn *client.Conn) (h http.Handler, ended <-chan struct{}, end func(), err error) {
	s, err := New(ctx, conn, o)
	if err != nil {
		return nil, nil, nil, err
	}
	server := func(*http.Request) *sdk.Server { return s.server }
	// The Door has looked at Host and Origin.
	with := sdk.NewStreamableHTTPHandler(server, &sdk.StreamableHTTPOptions{SessionTimeout: idle, MaxRequestBodyBytes: maxLine, DisableLocalhostProtection: true})
	without := sdk.NewStreamableHTTPHandler(server, &sdk.StreamableHTTPOptions{Stateless: true, MaxRequestBodyBytes: maxLine, DisableLocalhostProtection: true})
	watching, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.Watch(watching, lookAgain, nil)
		for ss := range s.server.Sessions() {
			_ = ss.Close()
		}
	}()
	end = func() {
		cancel()
		<-over
		s.Close()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") >= stateless {
			without.ServeHTTP(w, r)
			return
		}
		if r.Method == http.MethodPost && r.Header.Get("Mcp-Session-Id") == "" {
			n := 0
			for range s.server.Sessions() {
				n++
			}
			if n >= maxSessions {
				http.Error(w, "this guest has too many sessions; end some, or try again later", http.StatusServiceUnavailable)
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, maxBeginning)
		}
		with.ServeHTTP(w, r)
	}), over, end, nil
}
