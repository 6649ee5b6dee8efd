package server_test

import (
	"path/filepath"
	"strings"
	"testing"

	"capd/client"
	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// BenchmarkTemp puts files of 4 KiB into a temporary directory, and into a directory of the host, in turn.
func BenchmarkTemp(b *testing.B) {
	s := &server.Server{State: filepath.Join(b.TempDir(), "state"), Mounts: []server.Mount{{Path: "p", URL: server.PhysicalURL(b.TempDir())}}, Unrecorded: true, Logf: b.Logf}
	check.OK(b, s.Start(b.Context()))
	defer func() { check.OK(b, s.Close()) }()
	conn := must(client.Dial(b.Context(), must(s.Grant(b.Context(), server.Guest{Name: "guest"})).Locator))
	defer conn.Close()
	d := conn.Dir(b.Context())
	tmp, text := d.Temp(), strings.Repeat("x", 4096)
	put := func(d *client.Dir, name string) func(b *testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				_, err := d.Put(b.Context(), name, strings.NewReader(text), vfs.If{})
				check.OK(b, err)
			}
		}
	}
	for range 3 {
		b.Run("temporary", put(tmp, "f"))
		b.Run("mount", put(d, "p/f"))
	}
}
