package server_test

import (
	"strings"
	"sync"
	"testing"

	"capd/client"
	"capd/client/console"
	"capd/operator"
	"capd/server"
	"capd/state"
	"capd/vfs"
)

// ruledHost starts a host with one directory and one rule, and returns its operator's console and a guest's Dir.
func ruledHost(t *testing.T, dir string, rules ...server.Rule) (*server.Server, *console.Console, *client.Dir) {
	t.Helper()
	s := &server.Server{State: dir, Mounts: []server.Mount{{Path: "m", URL: "memory:?max=1MiB"}}, Policy: server.Policy{Rules: rules}}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(t.Context()) }()
	t.Cleanup(func() { _ = s.Close() })
	con, err := console.Dial(t.Context(), state.Dir(dir).Control())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { con.Close() })
	g, err := s.Grant(t.Context(), server.Guest{Name: "agent", Path: "m"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(t.Context(), g.Locator)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return s, con, c.Dir(t.Context())
}

func deny(patterns ...string) server.Rule {
	return server.Rule{Effect: operator.RuleDeny, Operations: []string{"write"}, Patterns: patterns, Source: "test"}
}

func put(t *testing.T, d vfs.Dir, path string) vfs.Code {
	t.Helper()
	_, err := vfs.Put(t.Context(), d, path, strings.NewReader("x"), vfs.If{})
	return vfs.CodeOf(err)
}

// TestPolicyVersions: rules are set with the hash of what they replace, hold at once over the wire, are kept, and every
// version can be seen.
func TestPolicyVersions(t *testing.T) {
	dir := t.TempDir() + "/state"
	s, con, d := ruledHost(t, dir, deny("m/fixed"))
	ctx := t.Context()
	first, err := con.Policy(ctx)
	if err != nil || len(first.Rules) != 1 || first.Rules[0].Source != "test" || first.Default != operator.RuleAllow {
		t.Fatalf("%+v, %v", first, err)
	}
	if code := put(t, d, "a"); code != "" {
		t.Errorf("a put before: %v", code)
	}
	const text = `[{"effect": "deny", "operations": ["write"], "patterns": ["m/a"]}]`
	second, err := con.SetPolicy(ctx, text, first.Hash)
	if err != nil {
		t.Fatal(err)
	}
	if put(t, d, "a") != vfs.Denied || put(t, d, "fixed") != vfs.Denied || put(t, d, "b") != "" {
		t.Error("the rules do not hold")
	}
	for text, hash := range map[string]string{"[]": first.Hash, "": "", text: second[:63] + "x"} {
		if _, err := con.SetPolicy(ctx, text, hash); vfs.CodeOf(err) != vfs.Conflict || !strings.Contains(err.Error(), second) {
			t.Errorf("%q with the hash %q: %v", text, hash, err)
		}
	}
	for _, wrong := range []string{"x: 1", `[{"effect": "deny"}]`, `[{"effect": "ask", "operations": ["write"], "patterns": ["m/fixed"]}]`, "\x00", strings.Repeat("[", 1<<20)} {
		if _, err := con.SetPolicy(ctx, wrong, second); vfs.CodeOf(err) != vfs.Invalid {
			t.Errorf("%.20q: %v", wrong, err)
		}
	}
	if all, err := con.Policies(ctx, 10); err != nil || len(all) != 2 || all[0].Hash != second || all[1].Hash != first.Hash {
		t.Errorf("the versions are %+v, %v", all, err)
	}
	if now, err := con.Policy(ctx); err != nil || now.Hash != second || len(now.Rules) != 2 || now.Rules[1].Source != operator.SetSource {
		t.Errorf("%+v, %v", now, err)
	}
	if err := s.SetPolicy(server.Policy{}); err != nil { // of the configuration
		t.Fatal(err)
	}
	if put(t, d, "fixed") != "" || put(t, d, "a") != vfs.Denied {
		t.Error("the rules of the configuration were not exchanged")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	_, _, d = ruledHost(t, dir, deny("m/fixed"), deny("m/**"))
	if put(t, d, "b") != vfs.Denied {
		t.Error("the rules of the configuration do not hold")
	}
}

// TestPolicyIsKept: rules that were set hold after a restart, and which they were is kept.
func TestPolicyIsKept(t *testing.T) {
	dir := t.TempDir() + "/state"
	s, con, _ := ruledHost(t, dir)
	before, err := con.Policy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hash, err := con.SetPolicy(t.Context(), `[{effect: deny, operations: [write], patterns: ["m/<a>", 'm/"b"']}]`, before.Hash)
	if err != nil {
		t.Fatal(err)
	}
	con.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, con, d := ruledHost(t, dir)
	if put(t, d, "<a>") != vfs.Denied || put(t, d, `"b"`) != vfs.Denied || put(t, d, "c") != "" {
		t.Error("the rules do not hold after a restart")
	}
	all, err := con.Policies(t.Context(), 10)
	if err != nil || len(all) != 1 || all[0].Hash != hash || len(all[0].Rules) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestOneSetsThePolicy: of many who replace the same policy, one does.
func TestOneSetsThePolicy(t *testing.T) {
	_, con, _ := ruledHost(t, t.TempDir()+"/state")
	p, err := con.Policy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	codes := map[vfs.Code]int{}
	for i := range 16 {
		wg.Go(func() {
			_, err := con.SetPolicy(t.Context(), `[{effect: deny, patterns: ["m/`+strings.Repeat("x", i+1)+`"]}]`, p.Hash)
			mu.Lock()
			defer mu.Unlock()
			codes[vfs.CodeOf(err)]++
		})
	}
	if wg.Wait(); codes[""] != 1 || codes[vfs.Conflict] != 15 {
		t.Errorf("%v", codes)
	}
}
