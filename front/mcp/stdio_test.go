package mcp

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"capd/front/roots"
	"capd/operator"
	"capd/tests/scene"
	"capd/vfs/vfstest/check"
)

// TestProtocol: what is no call passes on to the library, and a notification has no answer.
func TestProtocol(t *testing.T) {
	a := newAgent(t, sample, operator.Terms{}, Options{})
	for _, line := range []string{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`, `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"read_file"}}`} {
		_, err := io.WriteString(a.in, line+"\n")
		check.OK(t, err)
	}
	if r := a.request("ping", obj{}); r.Error != nil {
		t.Errorf("ping: %+v", r.Error)
	}
	if r := a.request("tools/call", obj{"name": "no_such_tool", "arguments": obj{}}); r.Error == nil {
		t.Errorf("a tool that is not there: %s", r.Result)
	}
	a.says("list_directory", obj{"path": "sub"}, "[FILE] b.go\n[DIR] deep")

	begun := a.call("changes", obj{})
	a.n++
	a.send(obj{"jsonrpc": "2.0", "id": a.n, "method": "tools/call", "params": obj{"name": "changes", "arguments": obj{"cursor": begun.Structured["cursor"], "waitSeconds": 50}}})
	a.send(obj{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": obj{"requestId": a.n}})
	a.says("list_directory", obj{"path": "empty"}, "") // the call that was cancelled has no answer

	a.n++ // an id may be a text, and a call of a newer revision goes to the library
	a.send(obj{"jsonrpc": "2.0", "id": a.n, "method": "tools/call", "params": obj{"name": "read_file", "arguments": obj{"path": "a.txt"}}})
	if r := a.read(a.next(a.n)); r.text() != "one\ntwo\nthree\n" {
		t.Errorf("read %q", r.text())
	}
}

// TestLibraryClient: the library's own client works through the same pipes, and sees what is declared.
func TestLibraryClient(t *testing.T) {
	h := scene.Serve(t, scene.InMemory(t, sample), scene.Options{Record: true})
	loc, _ := h.Grant(t, "agent", "", false)
	s, err := New(t.Context(), scene.Dial(t, loc), Options{Roots: roots.Roots{{Shown: "/shown"}}})
	check.OK(t, err)
	defer s.Close()
	fromAgent, in := io.Pipe()
	out, toAgent := io.Pipe()
	go s.Serve(t.Context(), fromAgent, toAgent, t.Logf)
	c, err := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), &sdk.IOTransport{Reader: out, Writer: in}, nil)
	check.OK(t, err)
	defer c.Close()
	r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "read_text_file", Arguments: obj{"path": "/shown/a.txt"}})
	check.OK(t, err)
	if text := r.Content[0].(*sdk.TextContent).Text; text != "one\ntwo\nthree\n" || r.IsError {
		t.Errorf("read %q", text)
	}
	t.Logf("the library's client speaks %s", c.InitializeResult().ProtocolVersion)
}

// TestProgress: a client that wants it is told that a call is under way, also one that the library answers, and is told nothing after the answer.
func TestProgress(t *testing.T) {
	a := newAgent(t, sample, operator.Terms{}, Options{progress: 20 * time.Millisecond})
	cursor := a.call("changes", obj{}).Structured["cursor"]
	for _, meta := range []obj{{"progressToken": "p"}, {"progressToken": 7}, {"progressToken": "new", "io.modelcontextprotocol/protocolVersion": "2025-11-25"}} {
		a.notes = nil
		a.read(a.request("tools/call", obj{"name": "changes", "arguments": obj{"cursor": cursor, "waitSeconds": 0.3}, "_meta": meta}))
		token, err := json.Marshal(meta["progressToken"])
		check.OK(t, err)
		said := 0
		for _, n := range a.notes {
			if strings.Contains(n, "notifications/progress") && strings.Contains(n, `"progressToken":`+string(token)) && strings.Contains(n, fmt.Sprintf(`"progress":%d`, said+1)) {
				said++
			}
		}
		if said < 3 {
			t.Errorf("with %s the client was told %d times: %q", token, said, a.notes)
		}
		a.notes = nil
		a.call("read_text_file", obj{"path": "a.txt"})
		if len(a.notes) > 0 {
			t.Errorf("after the answer the client was told %q", a.notes)
		}
	}
}

// TestBadLines: a line that is no message is answered with an error, and the session goes on.
func TestBadLines(t *testing.T) {
	a := newAgent(t, sample, operator.Terms{}, Options{})
	call := `"method":"tools/call","params":{"name":"read_text_file","arguments":{"path":"a.txt"}}`
	for line, code := range map[string]int{
		"{": -32700, `{"a":1,"a":2}`: -32700, "\"\xff\"": -32700, strings.Repeat("[", 100_000): -32700,
		"{}": -32600, "[]": -32600, "null": -32600, "5": -32600, `"x"`: -32600, `{"jsonrpc":"2.0"}`: -32600, `{"jsonrpc":"1.0","id":1,"method":"ping"}`: -32600,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`: -32600, `{"jsonrpc":"2.0","id":1,"method":5}`: -32600, `{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`: -32600,
		`{"jsonrpc":"2.0","id":null,` + call + `}`: -32600, `{"jsonrpc":"2.0","id":{},` + call + `}`: -32600, `{"jsonrpc":"2.0","id":[1],"method":"tools/list"}`: -32600,
		`{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}`: -32600, `{"jsonrpc":"2.0","id":1e3,` + call + `}`: -32600, `{"jsonrpc":"2.0","id":99999999999999999999,"method":"ping"}`: -32600,
		`{"jsonrpc":"2.0","result":{}}`: -32600, `{"jsonrpc":"2.0","id":true,"result":{}}`: -32600,
	} {
		_, err := a.in.Write([]byte(line + "\n"))
		check.OK(t, err)
		var r reply
		if a.lines.Scan() {
			check.OK(t, json.Unmarshal(a.lines.Bytes(), &r))
		}
		if r.Error == nil || r.Error.Code != code || r.ID != nil && !strings.Contains(line, `"id":`+fmt.Sprint(r.ID)+",") {
			t.Fatalf("%.60s is answered with %.200s", line, a.lines.Text())
		}
	}
	a.n = 9
	a.send(obj{})
	a.lines.Scan()
	_, err := a.in.Write([]byte(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"write_file","arguments":{"path":"s","content":"\ud800"}}}` + "\n"))
	check.OK(t, err)
	if r := a.next(9); r.Error == nil {
		t.Errorf("a text that is not UTF-8 is answered with %s", r.Result)
	}
	_, err = a.in.Write([]byte("\n \r\n" + `{"jsonrpc":"2.0","id":12345,"result":{}}` + "\n")) // these are left out
	check.OK(t, err)
	if r := a.request("tools/list", obj{}); r.Error != nil {
		t.Errorf("after that the tools are not listed: %+v", r.Error)
	}
	a.says("read_text_file", obj{"path": "a.txt"}, "one\ntwo\nthree\n")
}

// TestInputEnds writes requests that the library answers and ends the input at once: each has its answer.
func TestInputEnds(t *testing.T) {
	h := scene.Serve(t, scene.InMemory(t, sample), scene.Options{})
	loc, _ := h.GrantOn(t, "agent", "", operator.Terms{})
	conn := scene.Dial(t, loc)
	s, err := New(t.Context(), conn, Options{})
	check.OK(t, err)
	for range 20 {
		in := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`
		for id := 1; id <= 8; id++ {
			in += fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`+"\n", id)
		}
		var out strings.Builder
		check.OK(t, s.Serve(t.Context(), strings.NewReader(in), &out, t.Logf))
		for id := range 9 {
			if n := strings.Count(out.String(), fmt.Sprintf(`"id":%d,`, id)); n != 1 {
				t.Fatalf("request %d has %d answers", id, n)
			}
		}
	}
}
