package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"capd/client"
	"capd/operator"
	"capd/server"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// TestReadsUnderAsk: over a socket, a read waits for an approval of just that version by just that grant. The yes holds for all reads of it,
// and for no other version. Nobody is asked without a listener, about what is too long, and after a revoke.
func TestReadsUnderAsk(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "plan")
	write(t, file, "first")
	write(t, filepath.Join(dir, "other"), "x")
	write(t, filepath.Join(dir, "long.plan"), strings.Repeat("x", membrane.MaxAskedRead+1))
	s := started(t, &server.Server{
		Mounts: []server.Mount{{Path: "p", URL: "physical:" + dir}},
		Policy: server.Policy{Rules: []server.Rule{{Effect: operator.RuleAsk, Operations: []string{"read"}, Patterns: []string{"p/*plan"}}}},
	})
	d, other := named(t, s, server.Guest{Name: "guest"}), named(t, s, server.Guest{Name: "other"})
	read := func(d *client.Dir, path string) (string, error) {
		text, _, err := d.OpenFile(path).ReadText(t.Context())
		return text, err
	}
	_, err := read(d, "p/plan")
	check.Is(t, "with nobody listening", err, vfs.AskDenied)
	defer s.Approvals().Listen()()

	type got struct {
		text string
		err  error
	}
	begin := func(d *client.Dir) chan got {
		c := make(chan got, 1)
		go func() {
			text, err := read(d, "p/plan")
			c <- got{text, err}
		}()
		return c
	}
	waiting := func(n int) (list []operator.Ask) {
		t.Helper()
		check.Eventually(t, "reads wait", func() bool {
			list, _ = s.Approvals().List(t.Context(), false, operator.Ask{})
			return len(list) == n
		})
		return list
	}
	decide := func(a operator.Ask, v operator.Verdict) {
		t.Helper()
		_, err := s.Approvals().Decide(a.ID, v, "the test")
		check.OK(t, err)
	}
	first, second := begin(d), begin(d)
	a := waiting(1)[0]
	if a.Operation != "read" || a.Path != "p/plan" || a.Size != 5 || strings.Join(a.Why, "") != "rule " {
		t.Errorf("%+v", a)
	}
	if text, err := read(d, "p/other"); text != "x" {
		t.Errorf("beside it: %q, %v", text, err)
	}
	decide(a, operator.Verdict{Answer: operator.Once})
	for _, c := range []chan got{first, second} {
		if g := <-c; g.text != "first" || g.err != nil {
			t.Errorf("%q, %v", g.text, g.err)
		}
	}
	b := make([]byte, 8)
	n, _ := d.OpenFile("p/plan").ReadAt(t.Context(), b, 2)
	if string(b[:n]) != "rst" {
		t.Errorf("a part: %q", b[:n])
	}

	// Another version, and another grant, are asked about again.
	check.OK(t, os.WriteFile(file, []byte("second"), 0o600))
	first, second = begin(d), begin(other)
	for _, a := range waiting(2) {
		if a.Guest == "guest" {
			decide(a, operator.Verdict{Answer: operator.Deny, Reason: "not yet"})
		}
	}
	if g := <-first; vfs.CodeOf(g.err) != vfs.Denied || !strings.Contains(g.err.Error(), "not yet") {
		t.Errorf("%q, %v", g.text, g.err)
	}
	_, err = s.Revoke("other")
	check.OK(t, err)
	check.Is(t, "a read that waits when it is revoked", (<-second).err, vfs.Revoked)

	_, err = read(d, "p/long.plan")
	if check.Is(t, "a long one", err, vfs.AskDenied); !strings.Contains(err.Error(), "more than 4 MiB") {
		t.Error(err)
	}
	// A change of it needs no approval of a read.
	_, err = d.OpenFile("p/plan").WriteText(t.Context(), "third", vfs.If{})
	check.OK(t, err)
}
