package openwop_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"capd/backend/physical"
	"capd/client"
	"capd/front/openwop"
	"capd/front/web"
	"capd/locator"
	"capd/operator"
	"capd/tests/scene"
	"capd/vfs/vfstest/check"
)

// engine is a workflow engine that reaches a host.
type engine struct {
	*testing.T
	h      *scene.Host
	grant  operator.Grant
	url    string
	bearer string
	dir    string
}

func newEngine(t *testing.T) *engine {
	t.Helper()
	dir := t.TempDir()
	check.OK(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("text\n"), 0o600))
	check.OK(t, os.WriteFile(filepath.Join(dir, "blob"), []byte{0xff, 0}, 0o600))
	check.OK(t, os.WriteFile(filepath.Join(dir, "huge"), make([]byte, openwop.MaxFileSize+1), 0o600))
	check.OK(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	check.OK(t, os.Symlink("/etc/passwd", filepath.Join(dir, "out")))
	check.OK(t, os.Symlink("../../etc", filepath.Join(dir, "sub", "up")))
	check.OK(t, os.Symlink("a.txt", filepath.Join(dir, "in")))
	s, err := physical.OpenAmbient(dir, physical.Options{})
	check.OK(t, err)
	t.Cleanup(func() { s.Close() })
	h := scene.Serve(t, s.Root(), scene.Options{Record: true})
	loc, g := h.Grant(t, "engine", "", false)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	door := &web.Door{Names: web.Names(l.Addr()), Open: openwop.Open, Dial: func(ctx context.Context, secret [locator.SecretSize]byte) (*client.Conn, error) {
		at := loc
		at.Secret = secret
		return client.Dial(ctx, at.String())
	}}
	server := &http.Server{Handler: door}
	go server.Serve(l)
	t.Cleanup(func() { door.Close(); server.Close() })
	return &engine{t, h, g, "http://" + l.Addr().String(), base64.RawURLEncoding.EncodeToString(loc.Secret[:]), dir}
}

// send sends a request, and returns the status and the answer.
func (e *engine) send(method, path string, body any, header ...string) (int, map[string]any) {
	e.Helper()
	b, err := json.Marshal(body)
	check.OK(e, err)
	r, err := http.NewRequest(method, e.url+path, bytes.NewReader(b))
	check.OK(e, err)
	r.Header.Set("Authorization", "Bearer "+e.bearer)
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	check.OK(e, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	check.OK(e, err)
	if strings.Contains(string(text), e.dir) || strings.Contains(string(text), "root:x:0") {
		e.Errorf("%s %s %s names the host: %s", method, path, b, text)
	}
	var out map[string]any
	_ = json.Unmarshal(text, &out)
	return res.StatusCode, out
}

type obj = map[string]any

func (e *engine) fs(name string, args obj) (int, obj) {
	e.Helper()
	return e.send("POST", "/v1/host/sample/fs/"+name, args)
}

// refuses checks the code of a refusal.
func (e *engine) refuses(name string, args obj, status int, code string) {
	e.Helper()
	got, out := e.fs(name, args)
	envelope, _ := out["error"].(obj)
	if got != status || envelope["code"] != code || envelope["message"] == "" {
		e.Errorf("%s %.100v: %d %v, want %d %s", name, args, got, out, status, code)
	}
}

// TestScenarios: what RFC 0014 asks of a host with the capability fs.
func TestScenarios(t *testing.T) {
	e := newEngine(t)
	status, doc := e.send("GET", "/.well-known/openwop", nil)
	fs, _ := doc["fs"].(obj)
	if status != 200 || fs["supported"] != true || fs["sandboxRoot"] != "/workspace" || fs["maxFileSizeBytes"] != float64(openwop.MaxFileSize) {
		t.Errorf("the advertisement is %d %v", status, doc)
	}
	for _, known := range []string{"ftp", "sftp", "ssh"} {
		if tr, _ := fs["transport"].(obj); tr[known] != false {
			t.Errorf("transport is %v", tr)
		}
	}
	for key := range fs { // the schema allows no others
		if !strings.Contains(" supported sandboxRoot maxFileSizeBytes image pdf transport ", " "+key+" ") {
			t.Errorf("the advertisement has %s", key)
		}
	}
	for _, path := range []string{"../etc/passwd", "../../etc/passwd", "/etc/passwd", "sub/../../x", "/workspace/../etc/passwd", "..", "/"} {
		for _, name := range []string{"read", "write", "delete", "stat", "list"} {
			e.refuses(name, obj{"path": path, "content": "x"}, 403, "path_outside_sandbox")
		}
	}
	for _, path := range []string{"out", "sub/up/passwd", "/workspace/out"} {
		for _, name := range []string{"read", "write", "stat", "list"} {
			e.refuses(name, obj{"path": path, "content": "x"}, 403, "path_outside_sandbox")
		}
	}
	e.refuses("write", obj{"path": "big", "content": strings.Repeat("x", openwop.MaxFileSize+1)}, 413, "file_too_large")
	e.refuses("write", obj{"path": "big", "content": strings.Repeat("x", 2*openwop.MaxFileSize)}, 413, "file_too_large")
	e.refuses("read", obj{"path": "huge"}, 413, "file_too_large")
	if _, err := os.Stat(filepath.Join(e.dir, "big")); err == nil {
		t.Error("a file that is too large was made")
	}
}

func TestMethods(t *testing.T) {
	e := newEngine(t)
	ok := func(name string, args obj) obj {
		t.Helper()
		status, out := e.fs(name, args)
		if status != 200 {
			t.Errorf("%s %v: %d %v", name, args, status, out)
		}
		return out
	}
	if got := ok("read", obj{"path": "/workspace/a.txt"}); got["content"] != "text\n" || got["encoding"] != "utf8" {
		t.Errorf("read %v", got)
	}
	if got := ok("read", obj{"path": "in"}); got["content"] != "text\n" {
		t.Errorf("read by a link %v", got)
	}
	if got := ok("read", obj{"path": "blob"}); got["content"] != "/wA=" || got["encoding"] != "base64" {
		t.Errorf("read %v", got)
	}
	made := ok("write", obj{"path": "new", "content": "AAE=", "encoding": "base64"})
	if got := ok("stat", obj{"path": "new"}); got["type"] != "file" || got["sizeBytes"] != 2.0 || got["path"] != "/workspace/new" {
		t.Errorf("stat %v", got)
	}
	ok("write", obj{"path": "new", "content": "text", "ifVersion": made["version"]})
	e.refuses("write", obj{"path": "new", "content": "late", "ifVersion": made["version"]}, 409, "fs_conflict")
	if got, _ := ok("list", obj{"path": "sub"})["entries"].([]any); len(got) != 1 {
		t.Errorf("list %v", got)
	}
	ok("stat", obj{"path": ""})
	ok("delete", obj{"path": "new"})
	e.refuses("delete", obj{"path": "new"}, 404, "fs_not_found")
	e.refuses("delete", obj{"path": "."}, 403, "fs_permission_denied")
	e.refuses("read", obj{"path": "sub"}, 400, "fs_is_directory")
	e.refuses("list", obj{"path": "a.txt"}, 400, "fs_not_a_directory")
	e.refuses("write", obj{"path": "x"}, 400, "invalid_path")
	e.refuses("write", obj{"path": "x", "content": "!", "encoding": "base64"}, 400, "invalid_path")
	e.refuses("read", obj{"path": "a.txt", "encoding": "latin1"}, 400, "invalid_path")
	e.refuses("read", obj{"path": "a\x00"}, 400, "invalid_path")
	if status, _ := e.send("GET", "/v1/host/sample/fs/read", nil); status != 405 {
		t.Errorf("a GET: %d", status)
	}

	_, err := e.h.Authority.SetWritable(e.grant.ID, false)
	check.OK(t, err)
	e.refuses("write", obj{"path": "new", "content": "x"}, 403, "fs_permission_denied")
	_, err = e.h.Authority.Revoke(e.grant.ID)
	check.OK(t, err)
	e.refuses("read", obj{"path": "a.txt"}, 403, "fs_permission_denied")
	check.Eventually(t, "the secret is of no use", func() bool { status, _ := e.fs("read", obj{"path": "a.txt"}); return status == 401 })
}

// TestDoor: no web page, no other name of the machine and no other secret gets in.
func TestDoor(t *testing.T) {
	e := newEngine(t)
	host := strings.TrimPrefix(e.url, "http://")
	_, port, _ := net.SplitHostPort(host)
	for _, c := range []struct {
		header []string
		want   int
	}{
		{nil, 200}, {[]string{"Host", "localhost:" + port}, 200}, {[]string{"Origin", e.url}, 200}, {[]string{"Sec-Fetch-Site", "none"}, 200},
		{[]string{"Host", "evil.example:" + port}, 403}, {[]string{"Host", "127.0.0.1"}, 403}, {[]string{"Host", "localhost.evil.example:" + port}, 403},
		{[]string{"Origin", "http://evil.example"}, 403}, {[]string{"Origin", "null"}, 403}, {[]string{"Origin", "http://127.0.0.1:1"}, 403}, {[]string{"Origin", "https://127.0.0.1:" + port}, 403},
		{[]string{"Sec-Fetch-Site", "cross-site"}, 403}, {[]string{"Sec-Fetch-Site", "same-site"}, 403},
		{[]string{"Authorization", ""}, 401}, {[]string{"Authorization", "Basic " + e.bearer}, 401}, {[]string{"Authorization", "Bearer " + e.bearer + "A"}, 401},
		{[]string{"Authorization", "Bearer " + base64.RawURLEncoding.EncodeToString(make([]byte, 32))}, 401}, {[]string{"Authorization", "Bearer x"}, 401},
	} {
		if status, out := e.send("GET", "/.well-known/openwop", nil, c.header...); status != c.want {
			t.Errorf("%q: %d %v, want %d", c.header, status, out, c.want)
		}
	}
}
