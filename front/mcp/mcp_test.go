package mcp

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"capd/client"
	"capd/front/roots"
	"capd/operator"
	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// agent is a client of a Service over pipes, and its host.
type agent struct {
	*testing.T
	h     *scene.Host
	grant operator.Grant
	in    io.WriteCloser
	lines *bufio.Scanner
	n     int
	notes []string // notifications that came
}

var sample = vfstest.Tree{
	"a.txt": {Data: "one\ntwo\nthree\n"}, "crlf.txt": {Data: "x\r\ny\r\n"}, "latin1": {Data: "caf\xe9\n"}, "pic.png": {Data: "\x89PNG"}, "blob": {Data: "\x00\x01"},
	"sub/b.go": {Data: "package b\n"}, "sub/deep/c.md": {Data: "# c\n"}, "empty": {Dir: true}, "out": {Link: "../../etc/passwd"}, "in": {Link: "sub"}, "bin/run": {Data: "#!", Exec: true},
}

func newAgent(t *testing.T, tree vfstest.Tree, terms operator.Terms, o Options) *agent {
	t.Helper()
	h := scene.Serve(t, scene.InMemory(t, tree), scene.Options{Record: true})
	loc, g := h.GrantOn(t, "agent", "", terms)
	conn := scene.Dial(t, loc)
	s, err := New(t.Context(), conn, o)
	check.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	fromAgent, in := io.Pipe()
	out, toAgent := io.Pipe()
	served, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(ctx, fromAgent, toAgent, t.Logf)
	}()
	go func() {
		defer close(watched)
		s.Watch(ctx, 20*time.Millisecond, nil)
	}()
	a := &agent{T: t, h: h, grant: g, in: in, lines: bufio.NewScanner(out)}
	a.lines.Buffer(nil, 64<<20)
	t.Cleanup(func() {
		cancel()
		in.Close()
		out.Close()
		<-served
		<-watched
		s.Close()
	})
	a.request("initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "t", "version": "1"}})
	a.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	return a
}

func (a *agent) send(m map[string]any) {
	a.Helper()
	b, err := json.Marshal(m)
	check.OK(a, err)
	_, err = a.in.Write(append(b, '\n'))
	check.OK(a, err)
}

// reply is what a message of the server is looked at for.
type reply struct {
	ID     any             `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func (a *agent) request(method string, params any) reply {
	a.Helper()
	a.n++
	a.send(map[string]any{"jsonrpc": "2.0", "id": a.n, "method": method, "params": params})
	return a.next(a.n)
}

// next reads until the answer with that id.
func (a *agent) next(id int) reply {
	a.Helper()
	for a.lines.Scan() {
		var r reply
		if err := json.Unmarshal(a.lines.Bytes(), &r); err != nil {
			a.Fatalf("%v: %s", err, a.lines.Bytes())
		}
		if r.Method != "" {
			a.notes = append(a.notes, a.lines.Text())
			continue
		}
		if fmt.Sprint(r.ID) == fmt.Sprint(id) {
			return r
		}
		a.Fatalf("an answer to %v came in place of that to %d", r.ID, id)
	}
	a.Fatal("no answer: ", a.lines.Err())
	return reply{}
}

// result is that of a tool.
type result struct {
	Content []struct {
		Type, Text, Data, MimeType string
		Resource                   *struct{ URI, Blob, MimeType string }
	} `json:"content"`
	Structured map[string]any `json:"structuredContent"`
	IsError    bool           `json:"isError"`
}

func (r result) text() string {
	if len(r.Content) != 1 {
		return fmt.Sprintf("%d blocks", len(r.Content))
	}
	return r.Content[0].Text
}

func (a *agent) call(name string, args any) result {
	a.Helper()
	return a.read(a.request("tools/call", map[string]any{"name": name, "arguments": args}))
}

func (a *agent) read(r reply) (out result) {
	a.Helper()
	if r.Error != nil {
		a.Fatalf("a call failed in the protocol: %+v", r.Error)
	}
	check.OK(a, json.Unmarshal(r.Result, &out))
	if !out.IsError && len(out.Content) == 1 && out.Content[0].Type == "text" && out.Structured["content"] != out.text() {
		a.Errorf("the structured content %q is not the text %q", out.Structured["content"], out.text())
	}
	return out
}

// obj is arguments.
type obj = map[string]any

// says checks the text of an answer: all of it, or with … at its end how it begins.
func (a *agent) says(name string, args obj, want string) result {
	a.Helper()
	return a.is(name, args, want, false)
}

// refuses is says for a refusal.
func (a *agent) refuses(name string, args obj, want string) result {
	a.Helper()
	return a.is(name, args, want, true)
}

func (a *agent) is(name string, args obj, want string, refused bool) result {
	a.Helper()
	r := a.call(name, args)
	begins, some := strings.CutSuffix(want, "…")
	if r.IsError != refused || r.text() != want && !(some && strings.HasPrefix(r.text(), begins)) {
		a.Errorf("%s %v: %q (error %v), want %q", name, args, r.text(), r.IsError, want)
	}
	return r
}

func TestReferenceTools(t *testing.T) {
	a := newAgent(t, sample, operator.Terms{}, Options{})
	const w = "/workspace"
	a.says("list_allowed_directories", obj{}, "Allowed directories:\n/workspace")
	a.says("read_text_file", obj{"path": w + "/a.txt"}, "one\ntwo\nthree\n")
	a.says("read_file", obj{"path": "a.txt"}, "one\ntwo\nthree\n")
	a.says("read_text_file", obj{"path": "a.txt", "head": 1.5}, "one\ntwo")
	a.says("read_text_file", obj{"path": "a.txt", "tail": 1, "anything": []int{1}}, "three")
	a.says("read_text_file", obj{"path": "a.txt", "head": 99}, "one\ntwo\nthree")
	a.says("read_text_file", obj{"path": "latin1"}, "caf\uFFFD\n")
	a.says("read_text_file", obj{"path": "crlf.txt", "head": 1}, "x\r")
	a.refuses("read_text_file", obj{"path": "a.txt", "head": 1, "tail": 1}, "invalid: Cannot specify both head and tail parameters simultaneously")
	a.refuses("read_text_file", obj{"path": "none"}, "notFound: /workspace/none: …")
	a.refuses("read_text_file", obj{"path": "sub"}, "isDir: /workspace/sub: …")
	a.refuses("read_text_file", obj{}, "invalid: read_text_file needs the argument path")
	a.refuses("read_text_file", obj{"path": 7}, "invalid: the arguments do not fit the tool's schema: …")
	a.says("read_multiple_files", obj{"paths": []string{"a.txt", "none"}}, "a.txt:\none\ntwo\nthree\n\n\n---\nnone: Error - notFound: /workspace/none: …")

	pic := a.call("read_media_file", obj{"path": "pic.png"})
	if c := pic.Content[0]; c.Type != "image" || c.MimeType != "image/png" || c.Data != base64.StdEncoding.EncodeToString([]byte("\x89PNG")) {
		t.Errorf("the picture is %+v", c)
	}
	blob := a.call("read_media_file", obj{"path": "blob"})
	if c := blob.Content[0]; c.Type != "resource" || c.Resource.URI != "file:///workspace/blob" || c.Resource.Blob != "AAE=" {
		t.Errorf("the blob is %+v", c)
	}

	first := a.says("write_file", obj{"path": w + "/new.txt", "content": "a\nb\n"}, "Successfully wrote to /workspace/new.txt")
	version, _ := first.Structured["version"].(string)
	a.refuses("write_file", obj{"path": "none/new.txt", "content": ""}, "notFound: /workspace/none/new.txt: …")
	edited := a.says("edit_file", obj{"path": "new.txt", "ifVersion": version, "edits": []obj{{"oldText": "b", "newText": "c"}}}, "```diff\n--- a/new.txt\n+++ b/new.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n```\n\n")
	a.refuses("write_file", obj{"path": "new.txt", "content": "late", "ifVersion": version}, "conflict: /workspace/new.txt: …")
	a.says("write_file", obj{"path": "new.txt", "content": "x x\n", "ifVersion": edited.Structured["version"]}, "Successfully wrote to new.txt")
	a.refuses("edit_file", obj{"path": "new.txt", "edits": []obj{{"oldText": "x", "newText": "y"}}}, "conflict: /workspace/new.txt: oldText matches 2 times…")
	a.says("edit_file", obj{"path": "new.txt", "dryRun": true, "edits": []obj{{"old_text": "x", "new_text": "y", "replaceAll": true}}}, "```diff\n…")
	a.says("read_text_file", obj{"path": "new.txt"}, "x x\n")
	a.says("edit_file", obj{"path": "crlf.txt", "edits": []obj{{"oldText": "x\ny", "newText": "x\nz"}}}, "```diff\n…")
	a.says("read_text_file", obj{"path": "crlf.txt"}, "x\r\nz\r\n")

	a.says("create_directory", obj{"path": "made/of/many"}, "Successfully created directory made/of/many")
	a.says("create_directory", obj{"path": "made/of"}, "Successfully created directory made/of")
	a.refuses("create_directory", obj{"path": "a.txt"}, "exists: /workspace/a.txt: …")
	a.says("list_directory", obj{"path": "made"}, "[DIR] of")
	a.says("list_directory", obj{"path": "empty"}, "")
	a.says("list_directory", obj{"path": "in"}, "[FILE] b.go\n[DIR] deep")
	a.refuses("list_directory", obj{"path": "a.txt"}, "notDir: /workspace/a.txt: …")
	a.says("list_directory_with_sizes", obj{"path": "sub"}, "[FILE] b.go                                 10 B\n[DIR] deep                           \n\nTotal: 1 files, 1 directories\nCombined size: 10 B")
	a.says("directory_tree", obj{"path": "sub"}, "[\n  {\n    \"name\": \"b.go\",\n    \"type\": \"file\"\n  },\n  {\n    \"name\": \"deep\",\n    \"type\": \"directory\",\n    \"children\": [\n      {\n        \"name\": \"c.md\",\n        \"type\": \"file\"\n      }\n    ]\n  }\n]")
	a.says("directory_tree", obj{"path": "sub", "excludePatterns": []string{"deep"}}, "[\n  {\n    \"name\": \"b.go\",\n    \"type\": \"file\"\n  }\n]")
	a.says("directory_tree", obj{"path": "empty"}, "[]")
	a.says("search_files", obj{"path": w, "pattern": "**/*.md"}, "/workspace/sub/deep/c.md")
	a.says("search_files", obj{"path": "sub", "pattern": "**", "excludePatterns": []string{"**/*.md"}}, "/workspace/sub/b.go\n/workspace/sub/deep")
	a.says("search_files", obj{"path": w, "pattern": "*.nothing"}, "No matches found")
	a.refuses("search_files", obj{"path": w, "pattern": "[a"}, "invalid: …")
	a.says("move_file", obj{"source": "new.txt", "destination": w + "/made/moved.txt"}, "Successfully moved new.txt to /workspace/made/moved.txt")
	a.refuses("move_file", obj{"source": "a.txt", "destination": "made/moved.txt"}, "exists: /workspace/made/moved.txt: Destination already exists…")
	a.refuses("move_file", obj{"source": w, "destination": "x"}, "invalid: …")
	info := a.says("get_file_info", obj{"path": "bin/run"}, "size: 2\nmodified: …")
	if !strings.Contains(info.text(), "isDirectory: false\nisFile: true\npermissions: 755\nversion: ") {
		t.Errorf("the info is %s", info.text())
	}
	a.refuses("get_file_info", obj{"path": "none"}, "notFound: /workspace/none: …")
	a.refuses("read_text_file", obj{"path": "out"}, "outside: /workspace/out: …")
}

func TestFurtherTools(t *testing.T) {
	a := newAgent(t, sample, operator.Terms{}, Options{})
	a.says("grep", obj{"pattern": "^t"}, "/workspace/a.txt:2:two\n/workspace/a.txt:3:three")
	a.says("grep", obj{"pattern": "T", "path": "a.txt", "ignoreCase": true, "show": "counts"}, "/workspace/a.txt:2")
	a.says("grep", obj{"pattern": "two", "context": 1}, "/workspace/a.txt-1-one\n/workspace/a.txt:2:two\n/workspace/a.txt-3-three")
	a.says("grep", obj{"pattern": "e", "limit": 1, "path": "a.txt"}, "/workspace/a.txt:1:one\nThere are more…")
	a.says("grep", obj{"pattern": "package", "glob": []string{"*.md"}}, "No matches found")
	a.refuses("grep", obj{"pattern": "("}, "invalid: …")
	a.says("read_lines", obj{"path": "a.txt", "from": 2, "count": 1}, "two\n\n(the next lines begin at 3)")
	a.says("apply_patch", obj{"patch": "*** Begin Patch\n*** Update File: /workspace/a.txt\n@@\n-one\n+1\n*** Add File: added\n+new\n*** End Patch\n"}, "changed /workspace/a.txt\nmade /workspace/added\n")
	a.says("read_text_file", obj{"path": "a.txt", "head": 1}, "1")
	a.refuses("apply_patch", obj{"patch": "*** Begin Patch\n*** Update File: /etc/passwd\n@@\n-root\n+x\n*** End Patch\n"}, "Access denied - path outside allowed directories: /etc/passwd not in /workspace")
	a.refuses("apply_patch", obj{"patch": "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-nothing\n+x\n"}, "conflict: …")

	begun := a.says("changes", obj{"path": "sub"}, "No changes\ncursor …")
	a.n++
	waits := a.n
	a.send(obj{"jsonrpc": "2.0", "id": waits, "method": "tools/call", "params": obj{"name": "changes", "arguments": obj{"path": "sub", "cursor": begun.Structured["cursor"], "waitSeconds": 20}}})
	other := a.h.Guest(t)
	_, err := other.Put(t.Context(), "sub/others", strings.NewReader("x"), noCondition)
	check.OK(t, err)
	if r := a.read(a.next(waits)); !strings.HasPrefix(r.text(), "created /workspace/sub/others\n") {
		t.Errorf("who waited was told %q", r.text())
	}

	a.says("copy", obj{"source": "sub", "destination": "sub2"}, "Successfully copied sub to sub2 (…")
	a.refuses("remove", obj{"path": "sub2"}, "notEmpty: /workspace/sub2: …")
	removed := a.says("remove", obj{"path": "sub2", "recursive": true}, "Successfully removed sub2 (5 entries); undo with turn …")
	a.refuses("read_text_file", obj{"path": "sub2/b.go"}, "notFound: …")
	a.says("undo", obj{"turn": removed.Structured["turn"]}, "…")
	a.says("read_text_file", obj{"path": "sub2/b.go"}, "package b\n")
	a.refuses("remove", obj{"path": "."}, "invalid: …")
	if h := a.call("history", obj{"limit": 3}); h.IsError || !strings.Contains(h.text(), "(undo)") {
		t.Errorf("history says %q", h.text())
	}

	given := a.call("attenuate", obj{"path": "sub", "readOnly": true})
	conn, err := dialText(t, given.text())
	check.OK(t, err)
	text, err := readOf(t, conn, "b.go")
	if err != nil || text != "package b\n" {
		t.Errorf("the locator reads %q, %v", text, err)
	}
	_, err = conn.Dir(t.Context()).Put(t.Context(), "b.go", strings.NewReader("x"), noCondition)
	check.Is(t, "a put with it", err, "readOnly")
}

func TestReadOnlyAndLocks(t *testing.T) {
	writes := []string{"write_file", "edit_file", "create_directory", "move_file", "apply_patch", "undo", "copy", "remove"}
	named := func(a *agent) (all []string) {
		var list struct{ Tools []struct{ Name string } }
		check.OK(t, json.Unmarshal(a.request("tools/list", obj{}).Result, &list))
		for _, tool := range list.Tools {
			all = append(all, tool.Name)
		}
		return all
	}
	a := newAgent(t, sample, operator.Terms{ReadOnly: true}, Options{})
	for _, name := range named(a) {
		if slices.Contains(writes, name) {
			t.Errorf("a read-only grant has %s", name)
		}
	}
	a.refuses("write_file", obj{"path": "a.txt", "content": "x"}, "readOnly: /workspace/a.txt: …")

	a = newAgent(t, sample, operator.Terms{}, Options{})
	if got := named(a); len(got) != len(tools) {
		t.Errorf("%d of %d tools are listed", len(got), len(tools))
	}
	_, err := a.h.Authority.SetWritable(a.grant.ID, false)
	check.OK(t, err)
	check.Eventually(t, "a lock takes the tools away", func() bool { return !slices.Contains(named(a), "write_file") })
	check.Eventually(t, "the client is told", func() bool {
		named(a)
		return slices.ContainsFunc(a.notes, func(n string) bool { return strings.Contains(n, "tools/list_changed") })
	})
	_, err = a.h.Authority.SetWritable(a.grant.ID, true)
	check.OK(t, err)
	check.Eventually(t, "and brings them back", func() bool { return slices.Contains(named(a), "write_file") })

	begun := a.call("changes", obj{})
	a.n++
	waits := a.n
	a.send(obj{"jsonrpc": "2.0", "id": waits, "method": "tools/call", "params": obj{"name": "changes", "arguments": obj{"cursor": begun.Structured["cursor"], "waitSeconds": 50}}})
	time.Sleep(50 * time.Millisecond)
	_, err = a.h.Authority.Revoke(a.grant.ID)
	check.OK(t, err)
	if r := a.read(a.next(waits)); !r.IsError || !strings.HasPrefix(r.text(), "revoked: ") {
		t.Errorf("who waited was told %q", r.text())
	}
	a.refuses("list_directory", obj{"path": "."}, "revoked: …")
}

// TestSchemas: both schemas of each tool are JSON, the names are few and stable, and the list is short.
func TestSchemas(t *testing.T) {
	size := 0
	for _, tl := range tools {
		for what, s := range map[string]json.RawMessage{"input": tl.inputSchema(), "output": tl.outputSchema()} {
			var v map[string]any
			if err := json.Unmarshal(s, &v); err != nil || v["type"] != "object" {
				t.Errorf("%s: its %s schema: %v", tl.name, what, err)
			}
		}
		tl.annotations()
		b, err := json.Marshal(tl.listing())
		check.OK(t, err)
		size += len(b)
	}
	const reference = 13017 // bytes of the list of @modelcontextprotocol/server-filesystem 2026.8.31
	t.Logf("the list of %d tools has %d bytes, %.2f of the reference's", len(tools), size, float64(size)/reference)
	if size > reference*3/2 {
		t.Errorf("the list of tools has %d bytes", size)
	}
}

// TestNoHostPath: a directory of the host is shown as it was typed, and never as the host knows it otherwise.
func TestNoHostPath(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "secret-place")
	check.OK(t, os.MkdirAll(filepath.Join(real, "sub"), 0o755))
	check.OK(t, os.WriteFile(filepath.Join(real, "a"), []byte("a"), 0o600))
	check.OK(t, os.Symlink("/etc/passwd", filepath.Join(real, "l")))
	h := scene.Serve(t, onDisk(t, real), scene.Options{Record: true})
	loc, _ := h.Grant(t, "agent", "", false)
	s, err := New(t.Context(), scene.Dial(t, loc), Options{Roots: roots.Roots{{Shown: "/typed", Real: real}}})
	check.OK(t, err)
	defer s.Close()
	for _, path := range []string{"a", "none", "sub", "l", "l/x", "../x", "/etc/passwd", "a/b", "/typed/../x", real + "/a", real + "/none", strings.Repeat("x/", 200), strings.Repeat("y", 300), "\x00", ".env"} {
		for _, tl := range tools {
			args, err := json.Marshal(obj{"path": path, "source": path, "destination": path, "paths": []string{path}, "content": "x", "pattern": "**", "edits": []obj{{"oldText": "a", "newText": "a"}}, "patch": "--- a/" + path + "\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"})
			check.OK(t, err)
			got := string(s.call(t.Context(), &tl, args).appendResult(nil))
			if tl.name == "attenuate" {
				continue // a locator names the host's socket
			}
			if strings.Contains(strings.ReplaceAll(got, path, ""), "secret-place") || strings.Contains(got, "root:x:0") {
				t.Errorf("%s of %.60q answers %.300s", tl.name, path, got)
			}
		}
	}
}

// TestLongAnswers: a text that would be many times as long as JSON is refused, and a host that does not start is not described to an agent.
func TestLongAnswers(t *testing.T) {
	a := newAgent(t, vfstest.Tree{"controls": {Data: strings.Repeat("\x01", 4<<20)}, "text": {Data: strings.Repeat("a line\n", 500_000)}}, operator.Terms{}, Options{})
	a.refuses("read_text_file", obj{"path": "controls"}, "tooLarge: …")
	if r := a.call("read_text_file", obj{"path": "text"}); r.IsError {
		t.Errorf("a text of 3.5 MB is refused: %.200s", r.text())
	}
	s := Begin(t.Context(), Options{}, client.AllRights, func(context.Context) (*client.Conn, error) {
		return nil, vfs.Errorf(vfs.Invalid, "the directory /secret/place cannot be served")
	})
	got := string(s.call(t.Context(), toolNamed["list_directory"], []byte(`{"path":"."}`)).appendResult(nil))
	if !strings.Contains(got, "invalid: ") || strings.Contains(got, "secret") {
		t.Errorf("an agent is told %s", got)
	}
}

// TestLeftOut: an argument that is left out, null or empty does no more than was asked for.
func TestLeftOut(t *testing.T) {
	a := newAgent(t, sample, operator.Terms{}, Options{})
	for _, edit := range []obj{{"oldText": "two\n"}, {"oldText": "two\n", "newText": nil}, {"oldText": "two\n", "new": "x"}, {"newText": "x"}} {
		a.refuses("edit_file", obj{"path": "a.txt", "edits": []obj{edit}}, "invalid: /workspace/a.txt: edit 1 needs both…")
	}
	a.refuses("write_file", obj{"path": "a.txt", "content": nil}, "invalid: write_file needs the argument content")
	a.says("read_text_file", obj{"path": "a.txt"}, "one\ntwo\nthree\n")
	a.says("write_file", obj{"path": "a.txt", "content": "new"}, "Successfully wrote to a.txt")
	for _, args := range []obj{{"id": 0}, {"id": -5}, {"last": 0}, {"last": -1}, {"last": 1.5}, {"id": 2, "last": 1}, {"turn": "x", "last": 1}} {
		a.refuses("undo", args, "invalid: …")
	}
	a.says("read_text_file", obj{"path": "a.txt"}, "new")
	a.says("undo", obj{}, "…")
	a.says("read_text_file", obj{"path": "a.txt"}, "one\ntwo\nthree\n")
	for _, args := range []obj{{"rights": []string{}}, {"expiresInSeconds": 0}, {"expiresInSeconds": -1}, {"expiresInSeconds": 0.001}, {"expiresInSeconds": 1e300}} {
		a.refuses("attenuate", args, "invalid: …")
	}
}

// TestSeveralRoots: a search and a wait that name no path are of all roots, and a patch is of the one that its paths name.
func TestSeveralRoots(t *testing.T) {
	a := newAgent(t, vfstest.Tree{"p/a": {Data: "word\n"}, "d/b": {Data: "word\n"}, "d/c": {Data: "other\n"}}, operator.Terms{},
		Options{Roots: roots.Roots{{Shown: "/home/p", At: "p"}, {Shown: "/data", At: "d"}}})
	a.says("grep", obj{"pattern": "word"}, "/data/b:1:word\n/home/p/a:1:word")
	a.says("grep", obj{"pattern": "word", "path": "."}, "/home/p/a:1:word")
	cursor := a.call("changes", obj{}).Structured["cursor"]
	a.says("apply_patch", obj{"patch": "*** Begin Patch\n*** Update File: /data/b\n@@\n-word\n+new\n*** Add File: /data/n\n+x\n*** End Patch\n"}, "changed /data/b\nmade /data/n\n")
	a.says("apply_patch", obj{"patch": "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-word\n+new\n"}, "changed /home/p/a\n")
	a.refuses("apply_patch", obj{"patch": "*** Begin Patch\n*** Delete File: /data/c\n*** Delete File: /home/p/a\n*** End Patch\n"},
		"invalid: a patch is of files below one directory; make one for each of /home/p and /data")
	a.refuses("apply_patch", obj{"patch": "*** Begin Patch\n*** Delete File: /etc/passwd\n*** End Patch\n"},
		"Access denied - path outside allowed directories: /etc/passwd not in /home/p, /data")
	a.refuses("copy", obj{"source": "nope", "destination": "x"}, "notFound: /home/p/nope: …")
	a.refuses("move_file", obj{"source": "nope", "destination": "/data/x"}, "notFound: /home/p/nope: …")
	a.refuses("copy", obj{"source": "a", "destination": "/data/b"}, "exists: /data/b: …")
	text := a.call("changes", obj{"cursor": cursor, "waitSeconds": 5}).text()
	for _, path := range []string{"changed /data/b (you)", "created /data/n (you)", "changed /home/p/a (you)"} {
		if !strings.Contains(text, path) {
			t.Errorf("changes says %q, without %q", text, path)
		}
	}
}
