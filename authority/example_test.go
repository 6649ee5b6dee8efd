package authority_test

import (
	"context"
	"fmt"
	"log"

	"capd/authority"
	"capd/backend/memory"
	"capd/meter"
	"capd/operator"
	"capd/vfs"
)

// A grant stands for a part of a tree. Its secret gives access to that part, until the grant is
// taken back.
func Example() {
	ctx := context.Background()
	tree := memory.New(memory.Limits{}).Root()
	if _, err := tree.Mkdir(ctx, "docs"); err != nil {
		log.Fatal(err)
	}
	host := authority.New(tree, nil, nil) // the tree belongs to host from now on
	defer host.Close()

	given, secret, err := host.GrantOn(ctx, "reviewer", "docs", operator.Terms{Limits: meter.Limits{meter.StoredNodes: 1}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(given.ID, given.Guest, given.Path, given.Mode)

	node, m, err := host.Restore(ctx, secret[:])
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	docs := node.(vfs.Dir)
	_, err = docs.Mkdir(ctx, "notes")
	fmt.Println(err, m.Used(meter.StoredNodes))
	_, err = docs.Mkdir(ctx, "more")
	fmt.Println(vfs.CodeOf(err))

	if _, err := host.Revoke("reviewer"); err != nil {
		log.Fatal(err)
	}
	_, err = docs.Stat(ctx)
	fmt.Println(vfs.CodeOf(err))
	_, _, err = host.Restore(ctx, secret[:])
	fmt.Println(vfs.CodeOf(err))
	// Output:
	// g1 reviewer docs read-write
	// <nil> 1
	// quota
	// revoked
	// revoked
}
