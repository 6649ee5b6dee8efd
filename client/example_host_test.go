package client_test

import (
	"context"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"

	"capd/authority"
	"capd/backend/memory"
	"capd/client"
	"capd/host"
	"capd/locator"
	"capd/vfs"
)

// exampleHost starts a host that serves a small tree from memory, and returns
// the locator of a grant of all of it.
func exampleHost() (line string, stop func()) {
	ctx := context.Background()
	tree := memory.New(memory.Limits{}).Root()
	if _, err := tree.Mkdir(ctx, "docs"); err != nil {
		log.Fatal(err)
	}
	for path, text := range map[string]string{"README.md": "Read me.", "docs/a.md": "Alpha."} {
		if _, err := vfs.Put(ctx, tree, path, strings.NewReader(text), vfs.If{}); err != nil {
			log.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "capd")
	if err != nil {
		log.Fatal(err)
	}
	socket := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	grants := authority.New(tree, nil, nil)
	server := host.New(grants, host.Options{})
	go server.ServeGuests(l)
	_, secret, err := grants.Grant(ctx, "agent", "", false)
	if err != nil {
		log.Fatal(err)
	}
	return locator.Locator{Socket: socket, Secret: secret}.String(), func() {
		l.Close()
		server.Close()
		grants.Close()
		os.RemoveAll(dir)
	}
}

// exampleGuest connects a guest to exampleHost.
func exampleGuest() (context.Context, *client.Dir, func()) {
	ctx := context.Background()
	line, stop := exampleHost()
	conn, err := client.Dial(ctx, line)
	if err != nil {
		log.Fatal(err)
	}
	return ctx, conn.Dir(ctx), func() {
		conn.Close()
		stop()
	}
}
