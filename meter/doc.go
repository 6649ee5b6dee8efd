// Package meter counts what guests make a host hold and do, and shares it between
// them.
//
// A [Host] is what one process has to give. Each root grant has a [Meter] of it, and
// each share of a grant has a part of that, and so on. What a guest uses counts in its own
// meter and in every one above.
//
// What can be held, of each [Kind], is taken and given back. [Meter.Take] never waits: it
// answers a [Full]. A meter has a limit of its own, and beside that may hold only as much
// as the one above has left free. So one that is alone has half of what there is, each
// of n has one part in n+1, and there is always something left for the next. (This is the
// dynamic threshold of shared-memory switches: Choudhury and Hahne, 1998.)
//
// What is to be done waits in turn, in a [Lane]. Turns go to the root grant that has had the
// least time lately, then to the part of it that has, and in the order they were asked for. (This is
// start-time fair queueing: Goyal, Vin and Cheng, 1996.) Who is alone in a lane has all of
// its turns.
//
// Everything here is safe for concurrent use.
package meter
