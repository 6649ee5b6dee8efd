package tests

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	schema "capd/capnp"
	"capd/locator"
)

// A guest written in C++ (interop/client), against the real capd.

// scenario is one scenario of the client.
type scenario struct {
	name string
	// setUp makes more files, besides those of every scenario.
	setUp func(s *cxxScene)
	// via returns the socket to connect to, which leads to the host's socket.
	via  func(t testing.TB, socket string) string
	path string // the path of the grant below the scenario's directory; "/" for the whole namespace
	// want is the output, without lines that begin with "used" or "refused", which are
	// checked separately.
	want func(s *cxxScene) string
	// refused are the codes of the calls that were refused, in order.
	refused string
	// when is what the test does when the client prints a word.
	when map[string]func(s *cxxScene)
	// after checks the files afterwards.
	after func(s *cxxScene)
}

// cxxScene is the directory of one scenario, in a host that serves others, too.
type cxxScene struct {
	testing.TB
	host  *hostProcess
	guest string
	dir   string // on the host
	lines []string
}

func (s *cxxScene) path(path string) string { return filepath.Join(s.dir, path) }

func (s *cxxScene) write(path string, content []byte) {
	s.Helper()
	ok(s, os.MkdirAll(filepath.Dir(s.path(path)), 0o755))
	ok(s, os.WriteFile(s.path(path), content, 0o644))
}

func (s *cxxScene) read(path string) []byte {
	s.Helper()
	b, err := os.ReadFile(s.path(path))
	ok(s, err)
	return b
}

// said returns what the client printed after a word.
func (s *cxxScene) said(word string) string {
	s.Helper()
	for _, line := range s.lines {
		if rest, found := strings.CutPrefix(line, word+" "); found {
			return rest
		}
	}
	s.Fatalf("the client said nothing of %q: %q", word, s.lines)
	return ""
}

// tree makes the files of every scenario.
func (s *cxxScene) tree() {
	for path, content := range map[string]string{
		"a.md": "hello", "docs/b.md": "of docs", "docs/deep/c.md": "deep", "latin1": "caf\xe9\n", ".env": secret, "exec.sh": "#!/bin/sh\n", ".git/config": "[core]\n",
	} {
		s.write(path, []byte(content))
	}
	ok(s, os.Chmod(s.path("exec.sh"), 0o755))
	for link, target := range map[string]string{"link": "docs/b.md", "out": "../../outside", "docs/up": "..", "loop": "loop"} {
		ok(s, os.Symlink(target, s.path(link)))
	}
}

// noise returns n bytes, the same each time.
func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b) // it never fails
	return b
}

// digest returns the digest that the client prints of bytes.
func digest(b []byte) string {
	h := fnv.New64a()
	h.Write(b)
	return fmt.Sprintf("%d %x", len(b), h.Sum64())
}

func version(b []byte) string {
	v := sha256.Sum256(b)
	return hex.EncodeToString(v[:])
}

// run runs the scenario and returns the methods that it called.
func (sc scenario) run(t *testing.T, h *hostProcess) (used []string) {
	s := &cxxScene{TB: t, host: h, guest: sc.name, dir: filepath.Join(h.served, sc.name)}
	s.tree()
	if sc.setUp != nil {
		sc.setUp(s)
	}
	path := "project/" + sc.name
	switch sc.path {
	case "":
	case "/":
		path = ""
	default:
		path += "/" + sc.path
	}
	loc, _, ctl := h.grant(sc.name, path)
	defer ctl.Close()
	l, err := locator.Parse(loc)
	ok(t, err)

	if sc.via != nil {
		l.Socket = sc.via(t, l.Socket)
	}
	cmd := exec.Command(cxx(t, "client"), sc.name, l.Socket, hex.EncodeToString(l.Secret[:]))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	killer := time.AfterFunc(60*time.Second, func() { cmd.Process.Kill() })
	defer killer.Stop()
	var refused []string
	ended := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "used":
			used = append(used, rest)
		case "refused":
			code, kind, _ := strings.Cut(rest, " ")
			if want := exceptionOf(code); kind != want {
				t.Errorf("the exception of %s is %s, want %s", code, kind, want)
			}
			refused = append(refused, code)
		case "end":
			ended = true
		default:
			s.lines = append(s.lines, line)
		}
		if react := sc.when[word]; react != nil {
			react(s)
		}
	}
	if err := cmd.Wait(); err != nil || stderr.String() != "" || !ended {
		t.Fatalf("the client ended with %v, having said %q and %q: %s", err, s.lines, refused, &stderr)
	}
	if sc.want != nil {
		if got, want := strings.Join(s.lines, "\n"), strings.TrimSpace(sc.want(s)); got != want {
			t.Errorf("the client said:\n%s\nwant:\n%s", got, want)
		}
	}
	if got := strings.Join(refused, " "); got != sc.refused {
		t.Errorf("refused: %q, want %q", got, sc.refused)
	}
	if sc.after != nil {
		sc.after(s)
	}
	return used
}

// exceptionOf returns the type of the exception for a code, as rpc.capnp calls it.
// Clients of other implementations see only that type.
func exceptionOf(code string) string {
	switch code {
	case "revoked", "expired":
		return "disconnected"
	case "quota", "busy":
		return "overloaded"
	case "unsupported":
		return "unimplemented"
	}
	return "failed"
}

// revokeIt revokes the scenario's grant.
func revokeIt(s *cxxScene) {
	n, err := s.host.console().Revoke(context.Background(), s.guest)
	ok(s, err)
	if n != 1 {
		s.Errorf("%d grants were revoked", n)
	}
}

func TestInteropCxxClient(t *testing.T) {
	t.Parallel()
	cxx(t, "client")
	h := serveConfigured(t, rooted)
	var used []string
	ran := 0
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			ran++
			used = append(used, sc.run(t, h)...)
		})
	}
	if ran < len(scenarios) {
		return // only some scenarios were selected
	}
	t.Run("every method", func(t *testing.T) {
		for _, i := range schema.Interfaces {
			if slices.Contains([]string{"Console", "DirControl", "FileControl", "VirtualFs", "Materialized", "Progress", "Hook"}, i.Name) {
				continue // no guest gets one
			}
			for _, m := range i.Methods {
				if !slices.Contains(used, i.Name+"."+m) {
					t.Errorf("no scenario calls %s.%s", i.Name, m)
				}
			}
		}
	})
}
