package tests

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	schema "capd/capnp"
	"capd/client"
	"capd/locator"
	"capd/vat"
	"capd/vfs"
)

// A host in C++ (interop/server), with capd's own client and command line as
// guests.

// cxxHost is the host and a guest of it.
type cxxHost struct {
	*cxxProcess
	locator string
	dir     *client.Dir
	conn    *client.Conn
}

func cxxServe(t testing.TB) *cxxHost {
	t.Helper()
	secret := locator.NewSecret()
	p := startCxx(t, "server", "", hex.EncodeToString(secret[:]))
	h := &cxxHost{cxxProcess: p, locator: locator.Locator{Socket: p.socket, Secret: secret}.String()}
	h.conn = dial(t, h.locator)
	h.dir = h.conn.Dir(t.Context())
	return h
}

func (h *cxxHost) text(path, want string) {
	h.Helper()
	if got, _, err := h.dir.OpenFile(path).ReadText(h.Context()); err != nil || got != want {
		h.Errorf("%s holds %q, want %q: %v", path, got, want, err)
	}
}

func TestInteropCxxServer(t *testing.T) {
	t.Parallel()
	cxx(t, "server")
	run := func(name string, f func(t *testing.T, ctx context.Context, h *cxxHost)) {
		t.Run(name, func(t *testing.T) { f(t, t.Context(), cxxServe(t)) })
	}
	run("list", func(t *testing.T, ctx context.Context, h *cxxHost) {
		var names []string
		for e, err := range h.dir.Entries(ctx, true) {
			ok(t, err)
			names = append(names, fmt.Sprintf("%s %v %d", e.Name, e.Kind, e.Size))
		}
		want := "a.md file 5, docs directory 0, link symlink 0, loop symlink 0, many directory 0, never file 5, out symlink 0, slow file 0"
		if got := strings.Join(names, ", "); got != want {
			t.Errorf("listed %s, want %s", got, want)
		}
		n := 0
		for _, err := range h.dir.SubDir("many").List(ctx) {
			ok(t, err)
			n++
		}
		if n != 2500 {
			t.Errorf("listed %d of 2500", n)
		}
	})
	run("walk", func(t *testing.T, ctx context.Context, h *cxxHost) {
		n, err := h.dir.Walk(ctx, "docs/deep", true)
		ok(t, err)
		text, _, err := n.(*client.Dir).OpenFile("c.md").ReadText(ctx)
		if err != nil || text != "deep" {
			t.Errorf("read %q, %v", text, err)
		}
		n, err = h.dir.Lookup(ctx, "link")
		ok(t, err)
		if target, err := n.(vfs.Link).Target(ctx); err != nil || target != "docs/b.md" {
			t.Errorf("the link leads to %q, %v", target, err)
		}
		h.text("link", "of docs")
		info, err := h.dir.OpenFile("a.md").Stat(ctx)
		if err != nil || info.Kind != vfs.FileKind || info.Size != 5 {
			t.Errorf("stat answers %+v, %v", info, err)
		}
	})
	run("read and write", func(t *testing.T, ctx context.Context, h *cxxHost) {
		v, err := h.dir.Put(ctx, "docs/new", strings.NewReader("first"), vfs.If{Absent: true})
		ok(t, err)
		_, err = h.dir.Put(ctx, "docs/new", strings.NewReader("again"), vfs.If{Absent: true})
		is(t, "put where something is", err, "conflict")
		f := h.dir.OpenFile("docs/new")
		v, err = f.WriteText(ctx, "second", vfs.If{Is: v})
		ok(t, err)
		if got, err := f.Version(ctx); err != nil || got != v {
			t.Errorf("the version is %v, %v", got, err)
		}
		_, err = f.WriteAt(ctx, []byte("SE"), 0, vfs.If{})
		ok(t, err)
		off, err := f.Append(ctx, []byte(", and more"), vfs.If{})
		if err != nil || off != 6 {
			t.Errorf("appended at %d, %v", off, err)
		}
		ok(t, f.Truncate(ctx, 10, vfs.If{}))
		ok(t, f.Sync(ctx))
		h.text("docs/new", "SEcond, an")
		b := make([]byte, 20)
		if n, err := f.ReadAt(ctx, b, 2); err != io.EOF || string(b[:n]) != "cond, an" {
			t.Errorf("read %q, %v", b[:n], err)
		}
	})
	run("tree", func(t *testing.T, ctx context.Context, h *cxxHost) {
		sub, err := h.dir.CreateDir(ctx, "made")
		ok(t, err)
		f, err := sub.CreateFile(ctx, "f")
		ok(t, err)
		_, err = f.WriteText(ctx, "made", vfs.If{})
		ok(t, err)
		is(t, "createFile again", errOf(sub.CreateFile(ctx, "f")), "exists")
		ok(t, h.dir.Move(ctx, "a.md", sub, "moved", vfs.If{}, vfs.If{}))
		h.text("made/moved", "hello")
		is(t, "move of nothing", h.dir.Move(ctx, "a.md", sub, "x", vfs.If{}, vfs.If{}), "notFound")
		is(t, "remove", h.dir.RemovePath(ctx, "made", vfs.If{}), "notEmpty")
		ok(t, sub.RemovePath(ctx, "f", vfs.If{}))
	})
	run("stage", func(t *testing.T, ctx context.Context, h *cxxHost) {
		_, err := h.dir.Put(ctx, "big", bytes.NewReader(big()), vfs.If{})
		ok(t, err)
		var got bytes.Buffer
		n, err := h.dir.OpenFile("big").Stream(ctx, &got, 0, 0)
		if err != nil || n != int64(len(big())) || !bytes.Equal(got.Bytes(), big()) {
			t.Errorf("%d bytes came back, %v", n, err)
		}
		// The host was slow, and had no more than a window of bytes in
		// flight.
		_, rest := h.said("unanswered")
		var most int
		fmt.Sscan(rest, &most)
		if most > 4<<20 || most < 3<<20 {
			t.Errorf("%d bytes were unanswered, in a window of %d", most, 4<<20)
		}
		ctx, cancel := context.WithCancel(ctx)
		_, err = h.dir.Put(ctx, "never", io.MultiReader(bytes.NewReader(big()), cancels{cancel}), vfs.If{})
		if err == nil {
			t.Error("half of it was put")
		}
		h.waitSaid("dropped")
		h.text("a.md", "hello")
	})
	run("stream", func(t *testing.T, ctx context.Context, h *cxxHost) {
		_, err := h.dir.Put(ctx, "big", bytes.NewReader(big()), vfs.If{})
		ok(t, err)
		var got bytes.Buffer
		n, err := h.dir.OpenFile("big").Stream(ctx, &got, 1_000_001, 3_000_003)
		if err != nil || n != 3_000_003 || !bytes.Equal(got.Bytes(), big()[1_000_001:4_000_004]) {
			t.Errorf("%d bytes came, %v", n, err)
		}
		full := errors.New("full")
		_, err = h.dir.OpenFile("big").Stream(ctx, failing{full}, 0, 0)
		if !errors.Is(err, full) {
			t.Errorf("a writer that fails: %v", err)
		}
		h.text("a.md", "hello")
	})
	run("attenuate", func(t *testing.T, ctx context.Context, h *cxxHost) {
		narrow := h.dir.SubDir("docs").ReadOnly()
		is(t, "put", errOf(narrow.Put(ctx, "b.md", strings.NewReader("x"), vfs.If{})), "readOnly")
		lent, revoker := h.dir.Revocable()
		f := lent.SubDir("docs").OpenFile("b.md")
		_, _, err := f.ReadText(ctx)
		ok(t, err)
		ok(t, revoker.Revoke(ctx))
		is(t, "read", errOf3(f.ReadText(ctx)), "revoked")
		is(t, "stat", errOf(lent.Stat(ctx)), "revoked")
		h.text("docs/b.md", "of docs")

		_, _, _, err = h.conn.ShareOn(ctx, narrow, client.ShareTerms{Uses: 1}) // which it does not know
		is(t, "terms", err, "unsupported")
		loc, revoker, err := h.conn.Share(ctx, narrow)
		ok(t, err)
		shared := dial(t, loc).Dir(ctx)
		_, _, err = shared.OpenFile("b.md").ReadText(ctx)
		ok(t, err)
		is(t, "put", errOf(shared.Put(ctx, "b.md", strings.NewReader("x"), vfs.If{})), "readOnly")
		ok(t, revoker.Revoke(ctx))
		is(t, "stat", errOf(shared.Stat(ctx)), "revoked")
		is(t, "restore", errOf(dial(t, loc).Node(ctx)), "revoked")
	})
	run("errors", func(t *testing.T, ctx context.Context, h *cxxHost) {
		is(t, "no file", errOf3(h.dir.OpenFile("docs/x").ReadText(ctx)), "notFound")
		is(t, "through a file", errOf(h.dir.Walk(ctx, "a.md/x", true)), "notDir")
		is(t, "a directory as a file", errOf3(h.dir.OpenFile("docs").ReadText(ctx)), "isDir")
		is(t, "out", errOf(h.dir.Walk(ctx, "out", true)), "outside")
		is(t, "loop", errOf(h.dir.Walk(ctx, "loop", true)), "limit")
		is(t, "in the middle of a chain", errOf3(h.dir.SubDir("x").ReadOnly().OpenFile("y").ReadText(ctx)), "notFound")
		wrong := locator.Locator{Socket: h.socket, Secret: locator.NewSecret()}
		is(t, "a wrong secret", errOf(dial(t, wrong.String()).Node(ctx)), "denied")
		for _, err := range h.dir.Glob(ctx, "**") {
			is(t, "a method that it has not", err, "unsupported")
		}
		is(t, "help, which it has not", errOf(h.dir.Help(ctx, "")), "unsupported")
	})
	run("order", func(t *testing.T, ctx context.Context, h *cxxHost) {
		// The file stays a promise until something called go is put.
		f := h.dir.OpenFile("slow")
		var calls sync.WaitGroup
		var want strings.Builder
		add := func(i int) {
			line := fmt.Sprintln(i)
			want.WriteString(line)
			a := vat.Send(ctx, f.Cap(), schema.File_append, func(p schema.File_append_Params, _ *vat.Caps) error { return p.SetData([]byte(line)) })
			calls.Go(func() {
				defer a.Release()
				if _, _, err := a.Await(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		for i := range 300 {
			add(i)
		}
		_, err := h.dir.Put(ctx, "go", strings.NewReader(""), vfs.If{})
		ok(t, err)
		for i := range 300 {
			add(300 + i)
		}
		ok(t, f.Cap().Settle(ctx))
		for i := range 300 {
			add(600 + i)
		}
		calls.Wait()
		h.text("slow", want.String())
	})
	run("cancel", func(t *testing.T, ctx context.Context, h *cxxHost) {
		ctx, cancel := context.WithCancel(ctx)
		failed := make(chan error, 1)
		go func() {
			_, _, err := h.dir.OpenFile("never").ReadText(ctx)
			failed <- err
		}()
		h.waitSaid("called")
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled call: %v", err)
		}
		h.waitSaid("dropped")
		h.text("a.md", "hello")
	})
	run("death", func(t *testing.T, ctx context.Context, h *cxxHost) {
		failed := make(chan error, 1)
		go func() {
			_, _, err := h.dir.OpenFile("never").ReadText(ctx)
			failed <- err
		}()
		h.waitSaid("called")
		killed := time.Now()
		ok(t, h.cmd.Process.Kill())
		is(t, "a call whose host dies", <-failed, "stale")
		if took := time.Since(killed); took > prompt {
			t.Errorf("it took %v to notice", took)
		}
		is(t, "a call afterwards", errOf(h.dir.Stat(ctx)), "stale")
	})
	run("command line", func(t *testing.T, ctx context.Context, h *cxxHost) {
		capdDoes := func(stdin io.Reader, args ...string) (string, error) {
			cmd := execCapd(t, args...)
			cmd.Env = append(cmd.Environ(), "CAPD_CAP="+h.locator)
			cmd.Stdin = stdin
			out, err := cmd.CombinedOutput()
			return string(out), err
		}
		for _, c := range []struct{ stdin, args, want string }{
			{"", "ls", "a.md\ndocs/\nlink@\nloop@\nmany/\nnever\nout@\nslow\n"},
			{"", "ls docs", "b.md\ndeep/\n"},
			{"", "cat docs/b.md", "of docs"},
			{"", "cat link", "of docs"},
			{"by hand", "put docs/new", ""},
			{"", "cat docs/new", "by hand"},
			{string(big()), "put docs/big", ""},
			{"", "cat docs/big", string(big())},
		} {
			out, err := capdDoes(strings.NewReader(c.stdin), strings.Fields(c.args)...)
			if err != nil || c.want != "" && out != c.want {
				t.Errorf("capd %s: %v\n%.200q\nwant\n%.200q", c.args, err, out, c.want)
			}
		}
		if out, err := capdDoes(nothing(), "cat", "docs/x"); err == nil || !strings.HasPrefix(out, "capd: notFound: ") {
			t.Errorf("capd cat docs/x: %q, %v", out, err)
		}
	})
}

// errOf and errOf3 return the error of a call and drop its results.
func errOf[T any](_ T, err error) error { return err }

func errOf3[T, U any](_ T, _ U, err error) error { return err }

// cancels is a reader that cancels the call that reads it.
type cancels struct{ cancel context.CancelFunc }

func (c cancels) Read([]byte) (int, error) {
	c.cancel()
	return 0, nil
}

// failing is a writer that fails.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
