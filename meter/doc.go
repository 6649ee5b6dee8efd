// Package meter counts what guests make a host hold and do, and shares it between them.
//
// A [Host] is what one process has to give. Each root grant has a [Meter], which is a part of the
// host's. Each share of a grant has a meter that is a part of the grant's, and so on. What a guest
// uses counts in its own meter and in every meter above.
//
// What can be held, of each [Kind], is taken and given back. [Meter.Take] never waits: it answers a
// [Full]. A meter has a limit of its own. It also may hold only as much as its parent has left
// free. So a meter that is alone gets half of what there is, each of n gets one part in n+1, and
// something is always left for the next. (This is the dynamic threshold of shared-memory switches:
// Choudhury and Hahne, 1998.)
//
// What is to be done waits for a turn, in a [Lane]. The next turn goes to the root grant that has
// had the least time lately, in it to the part that has had the least time, and there to the oldest
// request. (This is start-time fair queueing: Goyal, Vin and Cheng, 1996.) A grant that is alone in
// a lane has all of its turns.
//
// Everything here is safe for concurrent use.
package meter
