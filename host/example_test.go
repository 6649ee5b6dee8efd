package host_test

import (
	"context"
	"fmt"
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
	"capd/meter"
	"capd/vfs"
)

// A program serves a tree at a socket of its own, and a guest reads a file of it with no more than a locator.
func Example() {
	ctx := context.Background()
	tree := memory.New(memory.Limits{}).Root()
	if _, err := vfs.Put(ctx, tree, "README.md", strings.NewReader("Read me."), vfs.If{}); err != nil {
		log.Fatal(err)
	}
	grants := authority.New(tree, meter.NewHost(host.Limits()), nil)
	defer grants.Close()

	dir, err := os.MkdirTemp("", "capd")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	server := host.New(grants, host.Options{})
	defer server.Close() // the listener too
	go server.ServeGuests(l)

	_, secret, err := grants.Grant(ctx, "agent", "", true)
	if err != nil {
		log.Fatal(err)
	}
	line := locator.Locator{Socket: socket, Secret: secret}.String()

	// In another program, as a rule:
	conn, err := client.Dial(ctx, line)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	text, _, err := conn.Dir(ctx).OpenFile("README.md").ReadText(ctx)
	fmt.Println(text, err)
	fmt.Println(conn.Dir(ctx).Remove(ctx, "README.md", vfs.If{}))
	// Output:
	// Read me. <nil>
	// readOnly: README.md: this capability does not write
}
