package tests

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"capd/tests/interop/npm"
	"capd/tests/scratch"
)

// npmDir has what interop/npm names, in a directory of its own that lasts as long as the tests.
var npmDir = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp(scratch.Memory(), "capd-npm"); err != nil {
		return "", err
	}
	atEnd = append(atEnd, func() { os.RemoveAll(dir) })
	return dir, npm.Install(context.Background(), dir)
})

// fromNPM returns the directory with the packages of interop/npm. Without CAPD_CI the test is skipped, since it downloads them.
func fromNPM(t testing.TB) string {
	t.Helper()
	if !thorough {
		t.Skip("it downloads packages of npm; with CAPD_CI=1 it is run")
	}
	dir, err := npmDir()
	ok(t, err)
	return dir
}

// mcpPeer is an MCP server over its standard input and output.
type mcpPeer struct {
	testing.TB
	in   io.WriteCloser
	out  *bufio.Scanner
	last int
}

func startMCP(t testing.TB, name string, args ...string) *mcpPeer {
	t.Helper()
	cmd := exec.Command(name, args...)
	in, err := cmd.StdinPipe()
	ok(t, err)
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	p := &mcpPeer{TB: t, in: in, out: bufio.NewScanner(out)}
	p.out.Buffer(nil, 64<<20)
	t.Cleanup(func() {
		in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	p.ask("initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "t", "version": "1"}})
	_, err = io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	ok(t, err)
	return p
}

// ask returns the answer to a request: its result, or the error in JSON.
func (p *mcpPeer) ask(method string, params any) (result json.RawMessage, failed bool) {
	p.Helper()
	p.last++
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": p.last, "method": method, "params": params})
	ok(p, err)
	_, err = p.in.Write(append(b, '\n'))
	ok(p, err)
	for p.out.Scan() {
		var m struct {
			ID            any
			Result, Error json.RawMessage
		}
		ok(p, json.Unmarshal(p.out.Bytes(), &m))
		if fmt.Sprint(m.ID) != fmt.Sprint(p.last) {
			continue
		}
		if len(m.Error) > 0 {
			return m.Error, true
		}
		return m.Result, false
	}
	p.Fatalf("no answer to %s: %v", method, p.out.Err())
	return nil, false
}

// call returns the text of a tool's answer, and whether it is a refusal.
func (p *mcpPeer) call(name string, args map[string]any) (text string, refused bool) {
	p.Helper()
	raw, failed := p.ask("tools/call", map[string]any{"name": name, "arguments": args})
	if failed {
		return string(raw), true
	}
	var r struct {
		Content    []json.RawMessage
		Structured map[string]any `json:"structuredContent"`
		IsError    bool
	}
	ok(p, json.Unmarshal(raw, &r))
	for _, c := range r.Content {
		var block struct{ Type, Text string }
		ok(p, json.Unmarshal(c, &block))
		if block.Type != "text" {
			block.Text = string(c)
		}
		text += block.Text
	}
	if inStructured, isText := r.Structured["content"].(string); isText && inStructured != text {
		p.Errorf("%s: the structured content differs from the text", name)
	}
	return text, r.IsError
}

// TestMCPReference compares the 14 tools with those of the reference server, call by call. Where they differ on purpose the case names the line
// of docs/mcp.md that says so.
func TestMCPReference(t *testing.T) {
	packages := fromNPM(t)
	docs, err := os.ReadFile("../docs/mcp.md")
	ok(t, err)
	base := t.TempDir()
	fill := func(name string) string {
		dir := filepath.Join(base, name, "root")
		for path, data := range map[string]string{
			"a.txt": "one\ntwo\nthree\n", "noend": "x\ny", "empty.txt": "", "crlf.txt": "a\r\nb\r\n", "uni/é.txt": "caf\u00e9\n", "bad": "caf\xe9\n", "pic.png": "\x89PNG", "s.mp3": "ID3", "data.bin": "\x00\xff",
			"sub/b.md": "# b\n", "sub/deep/c.md": "c\n", "sub/x.go": "package x\n", "run.sh": "#!/bin/sh\n", "twice": "same same\n", "tick": "```\n",
		} {
			ok(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755))
			ok(t, os.WriteFile(filepath.Join(dir, path), []byte(data), 0o644))
		}
		ok(t, os.Mkdir(filepath.Join(dir, "hollow"), 0o755))
		ok(t, os.Symlink("a.txt", filepath.Join(dir, "in")))
		ok(t, os.Symlink("/etc/passwd", filepath.Join(dir, "out")))
		return dir
	}
	theirs, ours := fill("theirs"), fill("ours")
	ref := startMCP(t, "node", filepath.Join(packages, "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"), theirs)
	own := startMCP(t, capd(t), "mcp", ours)

	// What both may say in words of their own: a refusal, of which only the fact counts.
	const refusal = "refusal"
	type args = map[string]any
	same, differ := 0, 0
	for _, c := range []struct {
		tool string
		args args
		why  string // "": the same; refusal: both refuse; else a part of the line of docs/mcp.md
	}{
		{"list_allowed_directories", args{}, ""},
		{"read_text_file", args{"path": "ROOT/a.txt"}, ""},
		{"read_text_file", args{"path": "a.txt"}, ""},
		{"read_text_file", args{"path": "./sub/../a.txt"}, ""},
		{"read_text_file", args{"path": "ROOT//a.txt"}, ""},
		{"read_text_file", args{"path": "empty.txt"}, ""},
		{"read_text_file", args{"path": "in"}, ""},
		{"read_text_file", args{"path": "uni/é.txt"}, ""},
		{"read_text_file", args{"path": "bad"}, ""},
		{"read_text_file", args{"path": "crlf.txt"}, ""},
		{"read_text_file", args{"path": "a.txt", "head": 2}, ""},
		{"read_text_file", args{"path": "a.txt", "head": 1.5}, ""},
		{"read_text_file", args{"path": "a.txt", "head": 10}, ""},
		{"read_text_file", args{"path": "noend", "tail": 1}, ""},
		{"read_text_file", args{"path": "a.txt", "tail": 2}, "`tail` counts lines"},
		{"read_text_file", args{"path": "a.txt", "extra": true}, ""},
		{"read_text_file", args{"path": "a.txt", "head": 1, "tail": 1}, refusal},
		{"read_text_file", args{"path": "none"}, refusal},
		{"read_text_file", args{"path": "sub"}, refusal},
		{"read_text_file", args{"path": "/etc/passwd"}, ""},
		{"read_text_file", args{"path": "../outside"}, refusal},
		{"read_text_file", args{"path": "out"}, refusal},
		{"read_text_file", args{}, refusal},
		{"read_text_file", args{"path": 1}, refusal},
		{"read_file", args{"path": "ROOT/a.txt"}, ""},
		{"read_media_file", args{"path": "pic.png"}, ""},
		{"read_media_file", args{"path": "s.mp3"}, ""},
		{"read_media_file", args{"path": "data.bin"}, ""},
		{"read_media_file", args{"path": "none"}, refusal},
		{"read_multiple_files", args{"paths": []string{"a.txt", "sub/b.md"}}, ""},
		{"read_multiple_files", args{"paths": []string{}}, refusal},
		{"write_file", args{"path": "ROOT/new.txt", "content": "new\n"}, ""},
		{"write_file", args{"path": "new.txt", "content": ""}, ""},
		{"write_file", args{"path": "new.txt", "content": "caf\u00e9 \U0001f600\n"}, ""},
		{"write_file", args{"path": "no/dir/f", "content": "x"}, refusal},
		{"write_file", args{"path": "sub", "content": "x"}, refusal},
		{"write_file", args{"path": "/etc/capd-test", "content": "x"}, ""},
		{"write_file", args{"path": "x"}, refusal},
		{"edit_file", args{"path": "a.txt", "edits": []args{{"oldText": "two", "newText": "2"}}}, "as `git diff` writes it"},
		{"edit_file", args{"path": "a.txt", "dryRun": true, "edits": []args{{"oldText": "one", "newText": "1"}}}, "as `git diff` writes it"},
		{"edit_file", args{"path": "a.txt", "edits": []args{{"oldText": "nothing", "newText": "x"}}}, refusal},
		{"edit_file", args{"path": "twice", "edits": []args{{"oldText": "same", "newText": "other"}}}, "several matches are refused"},
		{"edit_file", args{"path": "crlf.txt", "edits": []args{{"oldText": "a\nb", "newText": "a\nc"}}}, "Line endings and bytes stay"},
		{"edit_file", args{"path": "none", "edits": []args{{"oldText": "a", "newText": "b"}}}, refusal},
		{"read_text_file", args{"path": "a.txt"}, ""},
		{"read_text_file", args{"path": "crlf.txt"}, "Line endings and bytes stay"},
		{"create_directory", args{"path": "d1/d2/d3"}, ""},
		{"create_directory", args{"path": "ROOT/d1"}, ""},
		{"create_directory", args{"path": "a.txt"}, refusal},
		{"create_directory", args{"path": "a.txt/x"}, refusal},
		{"list_directory", args{"path": "sub"}, ""},
		{"list_directory", args{"path": "hollow"}, ""},
		{"list_directory", args{"path": "a.txt"}, refusal},
		{"list_directory", args{"path": "none"}, refusal},
		{"list_directory_with_sizes", args{"path": "sub"}, ""},
		{"list_directory_with_sizes", args{"path": "sub", "sortBy": "size"}, "by size, directories come last"},
		{"list_directory_with_sizes", args{"path": "sub", "sortBy": "date"}, refusal},
		{"directory_tree", args{"path": "ROOT/sub"}, ""},
		{"directory_tree", args{"path": "ROOT/hollow"}, ""},
		{"directory_tree", args{"path": "ROOT/sub", "excludePatterns": []string{"deep"}}, ""},
		{"directory_tree", args{"path": "ROOT/sub", "excludePatterns": []string{"*.md"}}, ""},
		{"directory_tree", args{"path": "none"}, refusal},
		{"search_files", args{"path": "ROOT", "pattern": "*.txt"}, ""},
		{"search_files", args{"path": "ROOT/sub", "pattern": "**/*.md"}, ""},
		{"search_files", args{"path": "ROOT", "pattern": "**/*.md", "excludePatterns": []string{"**/deep/**"}}, ""},
		{"search_files", args{"path": "ROOT", "pattern": "*.nothing"}, ""},
		{"search_files", args{"path": "/etc", "pattern": "*"}, ""},
		{"move_file", args{"source": "noend", "destination": "ROOT/d1/noend"}, ""},
		{"move_file", args{"source": "d1/d2", "destination": "d2"}, ""},
		{"move_file", args{"source": "a.txt", "destination": "d1/noend"}, refusal},
		{"move_file", args{"source": "none", "destination": "x"}, refusal},
		{"move_file", args{"source": "a.txt", "destination": "/tmp/capd-moved"}, ""},
		{"get_file_info", args{"path": "run.sh"}, "no times of creation and access"},
		{"get_file_info", args{"path": "none"}, refusal},
	} {
		ask := func(p *mcpPeer, root string) (string, bool) {
			b, err := json.Marshal(c.args)
			ok(t, err)
			var with args
			ok(t, json.Unmarshal([]byte(strings.ReplaceAll(string(b), "ROOT", root)), &with))
			text, refused := p.call(c.tool, with)
			if p == own && (strings.Contains(strings.ReplaceAll(text, ours, ""), base) || strings.Contains(text, "root:x:0")) {
				t.Errorf("%s %v names the host: %s", c.tool, c.args, text)
			}
			return strings.ReplaceAll(text, root, "ROOT"), refused
		}
		wantText, wantRefused := ask(ref, theirs)
		text, refused := ask(own, ours)
		switch c.why {
		case "":
			same++
			if text != wantText || refused != wantRefused {
				t.Errorf("%s %v:\n%q (refused %v)\nthe reference:\n%q (refused %v)", c.tool, c.args, text, refused, wantText, wantRefused)
			}
		case refusal:
			same++
			if !refused || !wantRefused {
				t.Errorf("%s %v: refused %v, by the reference %v: %q, %q", c.tool, c.args, refused, wantRefused, text, wantText)
			}
		default:
			differ++
			if !strings.Contains(string(docs), c.why) {
				t.Errorf("%s %v: docs/mcp.md does not say %q", c.tool, c.args, c.why)
			}
			if text == wantText && refused == wantRefused {
				t.Errorf("%s %v does not differ: %q", c.tool, c.args, text)
			}
		}
	}
	fmt.Printf("mcp: %d calls of the reference's 14 tools: %d the same, %d differ on purpose\n", same+differ, same, differ)

	named := func(p *mcpPeer) map[string]map[string]any {
		raw, _ := p.ask("tools/list", args{})
		var l struct{ Tools []map[string]any }
		ok(t, json.Unmarshal(raw, &l))
		all := map[string]map[string]any{}
		for _, tool := range l.Tools {
			all[tool["name"].(string)] = tool
		}
		return all
	}
	mine := named(own)
	for name, tool := range named(ref) {
		got := mine[name]
		if got == nil {
			t.Errorf("%s is missing", name)
			continue
		}
		hints, wantHints := got["annotations"].(args), tool["annotations"].(args)
		for hint, is := range wantHints {
			if hints[hint] != is {
				t.Errorf("%s: %s is %v, the reference's %v", name, hint, hints[hint], is)
			}
		}
		if got["title"] != tool["title"] {
			t.Errorf("%s has the title %v, the reference's %v", name, got["title"], tool["title"])
		}
		in, want := got["inputSchema"].(args), tool["inputSchema"].(args)
		if fmt.Sprint(in["required"]) != fmt.Sprint(want["required"]) {
			t.Errorf("%s requires %v, the reference %v", name, in["required"], want["required"])
		}
		wantProperties, _ := want["properties"].(args)
		for p := range wantProperties {
			if in["properties"].(args)[p] == nil {
				t.Errorf("%s has no argument %s", name, p)
			}
		}
	}
}
