package tests

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"capd/operator"
)

// TestMCPAsking: a call that needs an approval waits, then names the request, and the same call passes once the request was approved.
func TestMCPAsking(t *testing.T) {
	t.Parallel()
	h := serveConfigured(t, "mounts: [{path: project, url: \"physical:SERVED\"}]\napprovals: wait\n")
	loc, _, ctl := h.grant("agent", "project")
	defer ctl.Close()
	p := startMCP(t, capd(t), "mcp", "--cap", loc, "--wait", "1s")
	number := regexp.MustCompile(`capd ask ([0-9a-f]{8}) shows the request`)
	put := map[string]any{"path": ".vscode/tasks.json", "content": "{}"}
	if text, refused := p.call("create_directory", map[string]any{"path": ".vscode"}); !refused || !number.MatchString(text) {
		t.Fatalf("it says %q", text)
	}
	decide := func(text string) {
		t.Helper()
		m := number.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no number is in %q", text)
		}
		_, err := h.console().Decide(context.Background(), m[1], operator.Verdict{Answer: operator.Once})
		ok(t, err)
	}
	text, _ := p.call("create_directory", map[string]any{"path": ".vscode"})
	decide(text)
	if text, refused := p.call("create_directory", map[string]any{"path": ".vscode"}); refused {
		t.Fatalf("after the approval: %s", text)
	}
	for _, c := range []struct {
		tool string
		args map[string]any
	}{
		{"write_file", put},
		{"edit_file", map[string]any{"path": ".vscode/tasks.json", "edits": []map[string]any{{"oldText": "{}", "newText": "[]"}}}},
		{"move_file", map[string]any{"source": ".vscode/tasks.json", "destination": "tasks"}},
		{"copy", map[string]any{"source": "tasks", "destination": ".vscode/again"}},
		{"remove", map[string]any{"path": ".vscode/again"}},
	} {
		text, refused := p.call(c.tool, c.args)
		if !refused || !strings.HasPrefix(text, "askTimeout: ") {
			t.Fatalf("%s: %s", c.tool, text)
		}
		decide(text)
		if text, refused := p.call(c.tool, c.args); refused {
			t.Fatalf("%s after the approval: %s", c.tool, text)
		}
	}
}
