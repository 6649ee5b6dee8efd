package tests

import (
	"archive/tar"
	"bytes"
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"capd/operator"
)

// looked is what every client prints first.
const looked = `entry archive.tar
entry notes.txt
entry sub
read hello
refused conflict
streamed 2097152 bytes
`

// TestClients runs the programs of clients/, which docs/clients.md shows, against a real host.
func TestClients(t *testing.T) {
	t.Parallel()
	t.Run("C++", func(t *testing.T) {
		runsClient(t, looked+`a share refused readOnly
a share refused revoked
end 3
`, cxx(t, "cxx"), "LOCATOR")
	})
	t.Run("JavaScript", func(t *testing.T) {
		dir := jsClient(t)
		runsClient(t, looked+`extracted 2: inner
a share refused readOnly
a share refused revoked
granted, with 4 entries
end 3
`, "node", filepath.Join(dir, "guest.mjs"), "LOCATOR", "INVITATION")
	})
}

// jsClient returns the directory of the program in JavaScript, with what it needs, made as its first lines say.
func jsClient(t *testing.T) string {
	t.Helper()
	packages := fromNPM(t)
	dir := filepath.Join(packages, "client") // packages are looked for above it
	ok(t, os.MkdirAll(filepath.Join(dir, "schema"), 0o700))
	ok(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type": "module"}`), 0o600))
	for _, name := range []string{"guest.mjs", "connection.mjs"} {
		b, err := os.ReadFile(filepath.Join("clients", "js", name))
		ok(t, err)
		ok(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	for _, name := range []string{"guest.capnp", "go.capnp"} {
		b, err := os.ReadFile(filepath.Join("..", "schema", name))
		ok(t, err)
		ok(t, os.WriteFile(filepath.Join(dir, "schema", name), []byte(strings.ReplaceAll(string(b), "-> stream;", "-> ();")), 0o600))
	}
	cmd := exec.Command("capnp", "compile", "-o"+filepath.Join(packages, "node_modules", "capnp-es", "dist", "compiler", "capnpc-js.mjs")+":.", "--src-prefix=schema", "schema/guest.capnp", "schema/go.capnp")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// runsClient runs a program, with a locator for LOCATOR and an invitation for INVITATION among its arguments, and grants what it asks for. It is to print want.
func runsClient(t *testing.T, want, program string, args ...string) {
	t.Helper()
	h := serveConfigured(t, rooted)
	ok(t, os.WriteFile(filepath.Join(h.served, "notes.txt"), []byte("hello"), 0o600))
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	ok(t, w.WriteHeader(&tar.Header{Name: "inner.txt", Size: 5, Mode: 0o644}))
	_, err := w.Write([]byte("inner"))
	ok(t, err)
	ok(t, w.Close())
	ok(t, os.WriteFile(filepath.Join(h.served, "archive.tar"), archive.Bytes(), 0o600))
	ok(t, os.Mkdir(filepath.Join(h.served, "sub"), 0o700))
	loc, _, ctl := h.grant("agent", "project")
	defer ctl.Close()
	console := h.console()
	_, invitation, err := console.Invite(t.Context(), "asker", operator.InviteTerms{})
	ok(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	granted := make(chan struct{})
	go func() {
		defer close(granted)
		for ctx.Err() == nil {
			_, _, _, _ = console.Events(ctx, math.MaxUint64, 0) // somebody listens
			all, err := console.Asks(ctx, false)
			if err == nil && len(all) > 0 {
				_, _ = console.Decide(ctx, all[0].ID, operator.Verdict{Answer: operator.Once})
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	for i, arg := range args {
		args[i] = strings.NewReplacer("LOCATOR", loc, "INVITATION", invitation).Replace(arg)
	}
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	cancel()
	<-granted
	if err != nil || string(out) != want {
		t.Errorf("%v; it prints\n%s", err, out)
	}
	if b, err := os.ReadFile(filepath.Join(h.served, "notes.txt")); string(b) != "hello and more" {
		t.Errorf("the file has %q, %v", b, err)
	}
}
