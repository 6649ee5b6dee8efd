// Package mcp is a client of servers that speak the Model Context Protocol over their standard input and output. It does little, so that it measures
// the server.
package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
)

// Client is a server and its client. Its methods may be used concurrently.
type Client struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	writing sync.Mutex
	mu      sync.Mutex
	last    int64
	waiting map[int64]chan []byte // nil when the server says nothing more
	read    chan struct{}         // closed then
}

// Start starts a server and initializes it. The server ends with Close, or with this process.
func Start(command ...string) (*Client, error) {
	c := &Client{cmd: exec.Command(command[0], command[1:]...), waiting: map[int64]chan []byte{}, read: make(chan struct{})}
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go c.reads(out)
	if _, err = c.Ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`); err == nil {
		_, err = io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Pid returns the number of the server's process.
func (c *Client) Pid() int { return c.cmd.Process.Pid }

// Close ends the server.
func (c *Client) Close() {
	_ = c.in.Close()
	<-c.read
	_ = c.cmd.Wait()
}

// reads gives each answer to whoever waits for it.
func (c *Client) reads(out io.Reader) {
	defer close(c.read)
	lines := bufio.NewScanner(out)
	lines.Buffer(make([]byte, 1<<20), 256<<20)
	for lines.Scan() {
		id := answers(lines.Bytes())
		c.mu.Lock()
		ch := c.waiting[id]
		delete(c.waiting, id)
		c.mu.Unlock()
		if ch != nil {
			ch <- bytes.Clone(lines.Bytes())
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range c.waiting {
		close(ch)
	}
	c.waiting = nil
}

// ends returns the ends of a message. What is beside its content is there, in the order of each server.
func ends(line []byte) (head, tail []byte) {
	return line[:min(64, len(line))], line[max(0, len(line)-64):]
}

// answers returns which request a message answers. It does not decode the content, since that would take longer than the server does.
func answers(line []byte) (id int64) {
	head, tail := ends(line)
	for _, part := range [][]byte{head, tail} {
		if at := bytes.Index(part, []byte(`"id":`)); at >= 0 {
			_, _ = fmt.Sscanf(string(part[at+5:]), "%d", &id)
		}
	}
	return id
}

var errEnded = errors.New("the MCP server has ended")

// Ask makes a request with params in JSON, and returns the message that answers it. A refusal is an error.
func (c *Client) Ask(method, params string) ([]byte, error) {
	ch := make(chan []byte, 1)
	c.mu.Lock()
	if c.waiting == nil {
		c.mu.Unlock()
		return nil, errEnded
	}
	c.last++
	id := c.last
	c.waiting[id] = ch
	c.mu.Unlock()
	c.writing.Lock()
	_, err := fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params)
	c.writing.Unlock()
	if err != nil {
		return nil, err
	}
	line, ok := <-ch
	if !ok {
		return nil, errEnded
	}
	if head, tail := ends(line); bytes.Contains(head, []byte(`"error":`)) || bytes.Contains(tail, []byte(`"isError":true`)) {
		return nil, fmt.Errorf("the MCP server answers %.500s", line)
	}
	return line, nil
}

// Tool calls a tool with arguments in JSON, and returns the message that answers it. A refusal is an error.
func (c *Client) Tool(name, args string) ([]byte, error) {
	return c.Ask("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args))
}

// Text returns the first text of an answer of a tool.
func Text(line []byte) (string, error) {
	var a struct {
		Result struct {
			Content []struct{ Text string }
		}
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return "", err
	}
	if len(a.Result.Content) == 0 {
		return "", errors.New("the answer of a tool has no content")
	}
	return a.Result.Content[0].Text, nil
}
