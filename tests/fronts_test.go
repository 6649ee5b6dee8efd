package tests

import (
	"context"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// withBearer shows a secret with each request.
type withBearer string

func (b withBearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// TestMCPOverHTTP: the protocol's own client is a guest of the real host over HTTP, in a revision with sessions and in the newest, until the
// host locks and revokes.
func TestMCPOverHTTP(t *testing.T) {
	t.Parallel()
	h := serve(t, "--mcp", "127.0.0.1:0")
	i := slices.IndexFunc(h.greeting, func(l string) bool { return strings.Contains(l, "/mcp") })
	if i < 0 {
		t.Fatalf("the host says %q", h.greeting)
	}
	url := regexp.MustCompile(`http://\S+`).FindString(h.greeting[i])
	loc, id, ctl := h.grant("agent", "project")
	defer ctl.Close()
	secret := path.Base(loc)
	connect := func() *mcp.ClientSession {
		t.Helper()
		s, err := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "1"}, nil).Connect(t.Context(),
			&mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: withBearer(secret)}, MaxRetries: -1}, nil)
		ok(t, err)
		return s
	}
	call := func(s *mcp.ClientSession, name string, args map[string]any) (string, bool) {
		t.Helper()
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
		if err != nil {
			return err.Error(), true
		}
		return r.Content[0].(*mcp.TextContent).Text, r.IsError
	}
	s := connect()
	defer s.Close()
	t.Logf("the client speaks %s", s.InitializeResult().ProtocolVersion)
	if text, bad := call(s, "write_file", map[string]any{"path": "/workspace/new.txt", "content": "new"}); bad {
		t.Errorf("a write: %s", text)
	}
	if text, bad := call(s, "read_text_file", map[string]any{"path": "new.txt"}); bad || text != "new" {
		t.Errorf("a read: %s", text)
	}
	if text, bad := call(s, "read_text_file", map[string]any{"path": "/etc/passwd"}); !bad || strings.Contains(text, "root:") || strings.Contains(text, h.base) {
		t.Errorf("a read outside: %s", text)
	}
	console := h.console()
	_, err := console.SetWritable(context.Background(), id, false)
	ok(t, err)
	if text, bad := call(s, "write_file", map[string]any{"path": "new.txt", "content": "locked"}); !bad || !strings.HasPrefix(text, "readOnly: ") {
		t.Errorf("a write when locked: %s", text)
	}
	_, err = console.Revoke(context.Background(), id)
	ok(t, err)
	if text, bad := call(s, "read_text_file", map[string]any{"path": "new.txt"}); !bad || !strings.Contains(text, "revoked") {
		t.Errorf("a read when revoked: %s", text)
	}
}
