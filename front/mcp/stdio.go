package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxCalls is how many calls of one client are under way at once.
const maxCalls = 256

// maxLine is the size, in bytes, of the longest message of a client.
const maxLine = 32 << 20

// Serve serves a client over r and w, a message a line, until r ends or ctx does.
//
// Calls of tools are answered here, without the protocol's library, which would encode and decode every content several times. Everything else
// passes on to the library, and so do calls in its newest revisions, whose results have more in them.
//
// logf is told of what is wrong with the client's messages.
func (s *Service) Serve(ctx context.Context, r io.Reader, w io.Writer, logf func(format string, args ...any)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	toLibrary, passed := io.Pipe()
	p := &pipe{service: s.service, seats: make(chan struct{}, maxCalls), out: w, logf: logf, calls: map[string]context.CancelFunc{}, asked: map[string]bool{}, answers: make(chan struct{}, 1)}
	session, err := s.server.Connect(ctx, &sdk.IOTransport{Reader: toLibrary, Writer: lineWriter{p}, MaxLineLength: maxLine}, nil)
	if err != nil {
		return err
	}
	read := make(chan error, 1)
	go func() {
		err := p.read(ctx, r, passed)
		p.answered(ctx)
		passed.CloseWithError(io.EOF)
		read <- err
	}()
	select {
	case err = <-read: // what was asked is answered
		p.running.Wait()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = session.Wait()
		}()
		select {
		case <-ended:
		case <-ctx.Done():
		case <-time.After(ending):
		}
	case err = <-s.failed(ctx):
	case <-ctx.Done():
	}
	cancel()
	session.Close()
	p.running.Wait()
	return err
}

// failed tells why there is nothing to serve, once that is known.
func (s *service) failed(ctx context.Context) <-chan error {
	why := make(chan error, 1)
	go func() {
		if err := s.wait(ctx); err != nil && ctx.Err() == nil {
			why <- err
		}
	}()
	return why
}

// ending is how long the library has to answer what it was asked when the client has gone.
const ending = 2 * time.Second

// pipe is between a client and the library.
type pipe struct {
	*service
	running sync.WaitGroup
	seats   chan struct{} // one for each call under way; when all are taken nothing is read

	logf    func(format string, args ...any)
	writing sync.Mutex
	out     io.Writer

	mu    sync.Mutex
	begun bool // the client has said that it is initialized
	calls map[string]context.CancelFunc
	asked map[string]bool // the requests that the library has not answered

	answers chan struct{} // tells that the library answered
}

// answered waits until the library has answered what it was asked, for at most a while. The library drops what it has not answered when its
// input ends.
func (p *pipe) answered(ctx context.Context) {
	late := time.After(ending)
	for {
		p.mu.Lock()
		done := len(p.asked) == 0
		p.mu.Unlock()
		if done {
			return
		}
		select {
		case <-p.answers:
		case <-late:
			return
		case <-ctx.Done():
			return
		}
	}
}

// lineWriter writes messages of the library.
type lineWriter struct{ p *pipe }

func (l lineWriter) Write(b []byte) (int, error) {
	l.p.writing.Lock()
	n, err := l.p.out.Write(b)
	l.p.writing.Unlock()
	var m message
	if jsonv2.Unmarshal(b, &m) == nil && m.Method == "" {
		l.p.mu.Lock()
		delete(l.p.asked, string(m.ID))
		l.p.mu.Unlock()
		select {
		case l.p.answers <- struct{}{}:
		default:
		}
	}
	return n, err
}

func (lineWriter) Close() error { return nil }

// message is what a line is looked at for.
type message struct {
	Version string         `json:"jsonrpc"`
	Method  string         `json:"method"`
	ID      jsontext.Value `json:"id"`
	Params  jsontext.Value `json:"params"`
	Result  jsontext.Value `json:"result"`
	Error   jsontext.Value `json:"error"`
}

// parse returns the message that a line is, or the code of JSON-RPC and the text for what it is instead. The library would end the session for
// such a line.
func parse(line []byte) (m message, code int, wrong string) {
	switch {
	case !jsontext.Value(line).IsValid():
		if jsonv2.Unmarshal(line, &m, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)) == nil {
			return m, -32700, "this has a name twice, or text that is not UTF-8"
		}
		return message{}, -32700, "this is not JSON"
	case jsontext.Value(line).Kind() == '[':
		return m, -32600, "batches are not taken; send one message a line"
	case jsonv2.Unmarshal(line, &m) != nil || m.Version != "2.0" || m.Method == "" && m.Result == nil && m.Error == nil:
		return m, -32600, "this is no message of JSON-RPC 2.0"
	case !m.named() && (m.ID != nil || m.Method == ""):
		return m, -32600, "an id is a text or a whole number"
	case m.Params != nil && m.Params.Kind() != '{' && m.Params.Kind() != 'n':
		return m, -32600, "params are an object"
	}
	return m, 0, ""
}

// named reports whether m has an id that the library keeps as it is.
func (m *message) named() bool {
	switch m.ID.Kind() {
	case '"':
		return true
	case '0':
		_, err := strconv.ParseInt(string(m.ID), 10, 53)
		return err == nil
	}
	return false
}

type callParams struct {
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
	Meta      struct {
		Version  jsontext.Value `json:"io.modelcontextprotocol/protocolVersion"`
		Progress jsontext.Value `json:"progressToken"`
	} `json:"_meta"`
}

// read reads messages until r ends.
func (p *pipe) read(ctx context.Context, r io.Reader, library io.Writer) error {
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := readLine(lines)
		if len(bytes.TrimSpace(line)) > 0 {
			switch m, code, wrong := parse(line); {
			case wrong != "":
				p.logf("MCP filesystem transport error: %s; the line is left out", wrong)
				p.seats <- struct{}{}
				p.running.Go(func() { // the client may write more before it reads
					defer func() { <-p.seats }()
					id := "null"
					if m.named() && m.ID.IsValid() {
						id = string(m.ID)
					}
					p.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`+"\n", id, code, quoted(wrong)))
				})
			case !p.takes(ctx, m):
				if _, err := library.Write(append(line, '\n')); err != nil {
					return err
				}
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// readLine returns the next line without its end, in memory of its own.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == bufio.ErrBufferFull && len(line) <= maxLine:
			continue
		case err == bufio.ErrBufferFull:
			return nil, errors.New("a message is longer than 32 MiB")
		}
		return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), err
	}
}

// takes reports whether a message is answered here. If it is, it has begun to be.
func (p *pipe) takes(ctx context.Context, m message) bool {
	switch m.Method {
	case "notifications/initialized":
		p.mu.Lock()
		p.begun = true
		p.mu.Unlock()
	case "notifications/cancelled":
		var which struct {
			RequestID jsontext.Value `json:"requestId"`
		}
		if jsonv2.Unmarshal(m.Params, &which) == nil {
			return p.cancel(which.RequestID)
		}
	case "tools/call":
		if p.begins(ctx, m) {
			return true
		}
	}
	if m.Method != "" && len(m.ID) > 0 {
		p.mu.Lock()
		p.asked[string(m.ID)] = true
		p.mu.Unlock()
	}
	return false
}

// begins begins a call that is answered here.
func (p *pipe) begins(ctx context.Context, m message) bool {
	var c callParams
	if m.ID == nil || jsonv2.Unmarshal(m.Params, &c) != nil {
		return false
	}
	t := toolNamed[c.Name]
	if t == nil || len(c.Meta.Version) > 0 {
		return false
	}
	id := string(m.ID)
	ctx, cancel := context.WithCancel(ctx)
	p.mu.Lock()
	_, again := p.calls[id]
	ok := p.begun && !again
	if ok {
		p.calls[id] = cancel
	}
	p.mu.Unlock()
	if !ok {
		cancel()
		return false
	}
	p.seats <- struct{}{}
	p.running.Go(func() {
		defer func() { <-p.seats }()
		quiet := func() {}
		if k := c.Meta.Progress.Kind(); k == '"' || k == '0' {
			quiet = p.telling(ctx, func(_ context.Context, n int) { p.progressed(c.Meta.Progress, n) })
		}
		a := p.call(ctx, t, c.Arguments)
		quiet()
		p.mu.Lock()
		delete(p.calls, id)
		p.mu.Unlock()
		given := ctx.Err() != nil // a call that was cancelled has no answer
		cancel()
		if !given {
			p.answer(id, a)
		}
	})
	return true
}

// cancel ends the call with an id, and reports whether it was one of those that are answered here.
func (p *pipe) cancel(id jsontext.Value) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	cancel := p.calls[string(id)]
	if cancel != nil {
		cancel()
	}
	return cancel != nil
}

// progressed tells the client that a call is still under way.
func (p *pipe) progressed(token jsontext.Value, n int) {
	p.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"message":%s}}`+"\n", token, n, quoted(waiting)))
}

// write writes a message. If the client is gone the next read says so.
func (p *pipe) write(line []byte) {
	p.writing.Lock()
	defer p.writing.Unlock()
	_, _ = p.out.Write(line)
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// answer writes the answer of a call.
func (p *pipe) answer(id string, a answer) {
	buf := buffers.Get().(*[]byte)
	line := append((*buf)[:0], `{"jsonrpc":"2.0","id":`...)
	line = append(append(line, id...), `,"result":`...)
	line = append(a.appendResult(line), "}\n"...)
	p.write(line)
	if cap(line) <= 1<<20 {
		*buf = line
		buffers.Put(buf)
	}
}
