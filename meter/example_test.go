package meter_test

import (
	"context"
	"fmt"

	"capd/meter"
)

// A host has so much for all grants. What a share takes counts in its grant, too, and leaves something for
// the giver.
func Example() {
	host := meter.NewHost(meter.Limits{meter.Threads: 16})
	grant := host.Grant("builder", meter.Limits{meter.Nodes: 8})
	share := grant.Part("builder/1")
	defer share.End()

	fmt.Println(share.Take(meter.Nodes, 4)) // half of what there is
	fmt.Println(share.Take(meter.Nodes, 1))
	fmt.Println(grant.Take(meter.Nodes, 4)) // the rest is the giver's
	fmt.Println(grant.Take(meter.Nodes, 1))
	fmt.Println(grant.Used(meter.Nodes), "of", grant.Limit(meter.Nodes))

	// Output:
	// <nil>
	// others leave this grant only 4 open nodes now (limit nodes); release some, or try again later
	// <nil>
	// this grant holds all of its 8 open nodes (limit nodes); release some, or ask its giver for more
	// 8 of 8
}

// Work waits for its turn in its lane.
func ExampleMeter_Begin() {
	grant := meter.NewHost(nil).Grant("builder", nil)
	ctx, turn, err := grant.Begin(context.Background(), meter.Heavy)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer turn.End()
	for range 1000 {
		// A millisecond of work.
		if err := meter.Yield(ctx); err != nil { // others go first, if any wait
			fmt.Println(err)
			return
		}
	}
	fmt.Println("done")
	// Output: done
}
