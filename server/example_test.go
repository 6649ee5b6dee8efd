package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log"
	"strings"

	"capd/client"
	"capd/server"
	"capd/vfs"
)

// run is a host with three guests, on a directory that is a git repository.
func run(ctx context.Context, project, state string) error {
	s := &server.Server{
		State: state,
		Mounts: []server.Mount{
			{Path: "project", URL: server.PhysicalURL(project)},
			{Path: "draft", URL: "overlay:" + server.PhysicalURL(project), Attenuation: server.Attenuation{Guards: []server.Guard{noPrograms}}},
			{Path: "ref/main", URL: server.GitURL(project, "main")},
			{Path: "tmp", URL: "memory:?max=16MiB"},
			{Path: "facts", URL: "facts:"},
		},
		Stores: map[string]server.Opener{"facts": openFacts},
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	defer s.Close()
	builder := guest(ctx, s, server.Guest{Name: "builder", Path: "draft"}).Dir(ctx)
	reviewer := guest(ctx, s, server.Guest{Name: "reviewer", Path: "project", ReadOnly: true})
	auditor := guest(ctx, s, server.Guest{Name: "auditor"}).Dir(ctx)

	// The builder works on a draft, with its own guard. Nothing of the project changes.
	_, err := builder.Put(ctx, "docs/plan.md", strings.NewReader("Build it."), vfs.If{})
	fmt.Println("the builder writes:", err)
	_, err = builder.Put(ctx, "tool.exe", strings.NewReader("MZ"), vfs.If{})
	fmt.Println("a program:", err)

	// What is at the end of a chain of attenuations can be handed on, and taken back.
	line, revoker, err := reviewer.Share(ctx, reviewer.Dir(ctx).SubDir("docs").ReadOnly())
	if err != nil {
		return err
	}
	text, _, err := must(client.Dial(ctx, line)).Dir(ctx).OpenFile("guide.md").ReadText(ctx)
	fmt.Println("the reviewer's helper reads:", text, err)
	fmt.Println("and is let go:", revoker.Revoke(ctx))

	// The auditor sees everything but secrets. A store of the host's own is a directory like others.
	for _, path := range []string{"ref/main/docs/guide.md", "facts/owner", "project/.env"} {
		text, _, err := auditor.OpenFile(path).ReadText(ctx)
		fmt.Println("the auditor reads:", text, err)
	}

	// The host looks at the draft, and lets in what it saw.
	changes, review, err := s.Diff(ctx, "draft", server.DiffOptions{})
	if err != nil {
		return err
	}
	applied, err := s.Apply(ctx, "draft", server.ApplyOptions{If: review})
	fmt.Println("the host applies:", changes[0].Kind, changes[0].Path, applied.Changes, err)

	// A grant is taken back in the midst of a put: nothing of what was put shows.
	content, rest := io.Pipe()
	put := make(chan error)
	go func() {
		_, err := builder.Put(ctx, "docs/long.md", content, vfs.If{})
		put <- err
	}()
	if _, err := rest.Write(make([]byte, 1<<20)); err != nil {
		return err
	}
	n, err := s.Revoke("builder")
	rest.Close()
	fmt.Println("revoked:", n, err, errors.Is(<-put, vfs.Revoked))
	_, err = auditor.WalkStat(ctx, "draft/docs/long.md", true)
	fmt.Println("what was put:", errors.Is(err, vfs.NotFound))
	return s.Close()
}

// guest grants, and connects as the guest would in a process of its own.
func guest(ctx context.Context, s *server.Server, g server.Guest) *client.Conn {
	return must(client.Dial(ctx, must(s.Grant(ctx, g)).Locator))
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// noPrograms is a guard of the host's own.
var noPrograms = server.Guard{Changes: true, Around: func(ctx context.Context, op server.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
	if strings.HasSuffix(op.Path, ".exe") {
		return vfs.Effect{}, vfs.Errorf(vfs.Denied, "no programs here")
	}
	return do(ctx)
}}

// facts is a store of the host's own: a directory with one text.
type facts struct{}

func openFacts(context.Context, *server.URL) (*server.Store, error) {
	return &server.Store{Root: func() vfs.Dir { return vfs.NewImmutableDir(facts{}) }}, nil
}

func (facts) Lookup(_ context.Context, name string) (vfs.Node, error) {
	if name != "owner" {
		return nil, vfs.NotFound
	}
	return vfs.TextFile("Ada"), nil
}

func (facts) List(context.Context) iter.Seq2[vfs.Entry, error] {
	return vfs.Entries(vfs.Entry{Name: "owner", Kind: vfs.FileKind})
}

func Example() {
	project, state, clean := scene()
	defer clean()
	if err := run(context.Background(), project, state); err != nil {
		log.Fatal(err)
	}
	// Output:
	// the builder writes: <nil>
	// a program: denied: tool.exe: no programs here
	// the reviewer's helper reads: Begin here. <nil>
	// and is let go: <nil>
	// the auditor reads: Begin here. <nil>
	// the auditor reads: Ada <nil>
	// the auditor reads:  denied: project/.env: withheld by policy, whether or not it exists
	// the host applies: added docs/plan.md 1 <nil>
	// revoked: 1 <nil> true
	// what was put: true
}
