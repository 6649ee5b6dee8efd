package peers

import (
	"net"
	"runtime"
	"slices"

	"capd/bench/floor"
	"capd/bench/load"
)

var memoryOps = []string{load.Echo, load.ChainSeq, load.Read, load.Write, load.Stream}

var fileOps = []string{load.Pread, load.Whole, load.DeepFile, load.Put, load.Stat, load.DeepStat, load.List, load.Download}

// capdOps is what capd and the floor do with files. The floor has no versions.
var capdOps = append(slices.Clone(fileOps), load.HeldList, load.Version)

// Floor is the floor, multiplexed.
var Floor = &Contender{
	Name:    "floor",
	About:   "framed messages between two Go processes, multiplexed; streams are a raw socket; a put is durable",
	Ops:     slices.Concat(memoryOps, capdOps),
	OpsTLS:  slices.Concat(memoryOps, capdOps),
	Ours:    true,
	Durable: true,
	Version: goVersion,
	Serve:   serveFloor,
	Client:  floorClient(func(conn net.Conn, l *floor.Load) { l.Calls = floor.NewClient(conn) }),
}

// PingPong is the floor, one call at a time on one goroutine.
var PingPong = &Contender{
	Name:    "ping-pong",
	About:   "the floor's server, and a client that writes and then reads on one goroutine",
	Ops:     []string{load.Echo},
	OpsTLS:  []string{load.Echo},
	Alone:   true,
	Ours:    true,
	Version: goVersion,
	Serve:   serveFloor,
	Client:  floorClient(func(conn net.Conn, l *floor.Load) { l.Calls = floor.NewPingPong(conn) }),
}

// floorClient returns a function that connects; calls chooses the kind of client.
func floorClient(calls func(net.Conn, *floor.Load)) func(Place) (load.Client, error) {
	return func(p Place) (load.Client, error) {
		table, err := load.ReadTable(p.Table)
		if err != nil {
			return nil, err
		}
		conn, err := p.Dial(nil)
		if err != nil {
			return nil, err
		}
		l := &floor.Load{Table: table, Dial: func() (net.Conn, error) { return p.Dial(nil) }}
		calls(conn, l)
		return l, nil
	}
}

func serveFloor(p Place, l net.Listener) error {
	table, err := load.ReadTable(p.Table)
	if err != nil {
		return err
	}
	s, err := floor.NewServer(table, p.Tree)
	if err != nil {
		return err
	}
	return s.Serve(l)
}

func goVersion(Place) (string, error) { return runtime.Version(), nil }
