package tests

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	schema "capd/capnp"
	"capd/tests/slowfs"
)

// fairRows returns all rows. An attacking process finds its row by name here.
func fairRows() []fairRow {
	return slices.Concat(costRows(), threadRows(), lockRows(), holdRows(), crowdRows(), refusedRows())
}

// numbers are the numbers of connections with which a row is tried.
var numbers = []int{1, 16, 256}

// onMany returns a row for each number of connections. If there is little time, only the row
// with the most runs.
func onMany(r fairRow) (rows []fairRow) {
	for _, n := range numbers {
		some := r
		some.conns, some.large = n, n != 256
		some.name = fmt.Sprintf("%s, %s", r.name, connections(n))
		rows = append(rows, some)
	}
	return rows
}

func connections(n int) string {
	if n == 1 {
		return "1 connection"
	}
	return fmt.Sprintf("%d connections", n)
}

// repeats makes the same call on each connection again and again, window calls at a time.
func repeats(window int, c func(g *grip, q uint32) call) func(a *aggressor) {
	return func(a *aggressor) {
		a.each(func(_ int, g *grip) {
			g.loop(window, func(q uint32) []call { return []call{c(g, q)} })
		})
	}
}

// The calls of a harmless guest: reads of 4 KiB, walks, small files and listings.

func readsBig(a *aggressor) {
	a.each(func(i int, g *grip) {
		file := g.open("project/honest/big")
		g.loop(8, func(q uint32) []call { return []call{read(q, export(file), uint64(q%256)<<12, 4<<10)} })
	})
}

func walks(a *aggressor) {
	repeats(8, func(g *grip, q uint32) call { return walkTo(q, g.top, "project/honest/small") })(a)
}

func puts(a *aggressor) {
	repeats(4, func(g *grip, q uint32) call {
		return putAt(q, g.top, fmt.Sprintf("project/honest/p%d", q), pattern(0, 1<<10))
	})(a)
}

func lists(a *aggressor) {
	repeats(4, func(g *grip, q uint32) call { return listOf(q, export(g.top)) })(a)
}

func walkTo(q, top uint32, path string) call {
	return of(q, export(top), schema.Dir_walk, func(p schema.Dir_walk_Params) error {
		p.SetStatOnly(true)
		return p.SetPath(path)
	})
}

func putAt(q, top uint32, path string, data []byte) call {
	return of(q, export(top), schema.Dir_put, func(p schema.Dir_put_Params) error {
		return firstOf(p.SetPath(path), p.SetData(data))
	})
}

func listOf(q uint32, dir target) call {
	return of(q, dir, schema.Dir_list, func(p schema.Dir_list_Params) error { p.SetLimit(1); return nil })
}

func stageAt(q, top uint32, path string) call {
	return of(q, export(top), schema.Dir_stage, func(p schema.Dir_stage_Params) error { return p.SetPath(path) })
}

func versionOf(q uint32, file target) call {
	return of(q, file, schema.File_stat, func(p schema.File_stat_Params) error { p.SetWithVersion(true); return nil })
}

// removeIf removes a file with a condition that does not hold. The host must read the file to
// find that out.
func removeIf(q, top uint32, path string) call {
	return of(q, export(top), schema.Dir_remove, func(p schema.Dir_remove_Params) error {
		cond, err := p.NewIfVersion()
		return firstOf(err, cond.SetEquals(bytes.Repeat([]byte{1}, 32)), p.SetPath(path))
	})
}

// costRows make short calls that are expensive for the host.
func costRows() []fairRow {
	// 121 names in a path of the greatest length. Each character of a name folds to eighteen
	// letters.
	costly := strings.TrimSuffix(strings.Repeat(strings.Repeat("\uFDFA", 10)+"/", 121), "/")
	deep := strings.TrimSuffix(strings.Repeat("d/", 126), "/")
	return slices.Concat(
		onMany(fairRow{name: "harmless reads", attack: readsBig, during: (*trial).shows}),
		onMany(fairRow{name: "walks of 121 costly names", alike: walks,
			lay:    func(tr *trial) { tr.mkdirs(costly) },
			attack: repeats(2, func(g *grip, q uint32) call { return walkTo(q, g.top, "project/"+costly) })}),
		onMany(fairRow{name: "walks of 39 long links", alike: walks, lay: layLongLinks,
			attack: repeats(2, func(g *grip, q uint32) call { return walkTo(q, g.top, "project/links/l00") })}),
		onMany(fairRow{name: "walks of 127 names", alike: walks,
			lay:    func(tr *trial) { tr.mkdirs(deep) },
			attack: repeats(4, func(g *grip, q uint32) call { return walkTo(q, g.top, "project/"+deep) })}),
		[]fairRow{
			{name: "heavy looks and heavy changes, 16 connections", conns: 16, alike: walks, lay: layHeavy, attack: looksAndChanges},
			{name: "100 grants, each with heavy looks", conns: 100, grants: 100, alike: walks, lay: layHeavy,
				attack: repeats(2, func(g *grip, q uint32) call { return globFor(q, export(g.top), "project/hostile/**/*[a-f]*{0,1,2,3}*") })},
		})
}

// mkdirs makes a directory whose path is longer than one system call takes.
func (tr *trial) mkdirs(path string) {
	at, err := unix.Open(tr.host.served, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	ok(tr, err)
	for name := range strings.SplitSeq(path, "/") {
		ok(tr, unix.Mkdirat(at, name, 0o755))
		next, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(at)
		ok(tr, err)
		at = next
	}
	unix.Close(at)
}

// layLongLinks makes a chain of 39 links of the greatest length. They lead in and out of a
// directory 800 times.
func layLongLinks(tr *trial) {
	dir := filepath.Join(tr.host.served, "links")
	ok(tr, os.MkdirAll(filepath.Join(dir, "x"), 0o755))
	for i := range 39 {
		ok(tr, os.Symlink(strings.Repeat("x/../", 800)+fmt.Sprintf("l%02d", i+1), filepath.Join(dir, fmt.Sprintf("l%02d", i))))
	}
	ok(tr, os.WriteFile(filepath.Join(dir, "l39"), nil, 0o644))
}

// layHeavy makes a tree to search, and a large file to hash.
func layHeavy(tr *trial) {
	tr.host.layHostile()
	ok(tr, os.Truncate(filepath.Join(tr.host.served, "hostile/sparse"), int64(size(1<<30, 8<<30, 32<<30))))
}

// looksAndChanges searches and hashes on half of the connections. On the other half it changes
// files with conditions.
func looksAndChanges(a *aggressor) {
	a.each(func(i int, g *grip) {
		if i%2 == 0 {
			g.loop(8, func(q uint32) []call {
				return []call{globFor(q, export(g.top), "project/hostile/**/*[a-f]*{0,1,2,3}*")}
			})
			return
		}
		g.loop(8, func(q uint32) []call { return []call{removeIf(q, g.top, "project/hostile/sparse")} })
	})
}

// threadRows make the host wait for a disk.
func threadRows() (rows []fairRow) {
	for _, r := range []struct {
		iops  int
		guest string
	}{{100, ""}, {2000, ""}, {2000, "slow/honest"}} {
		name := fmt.Sprintf("reads on a disk of %d a second, 256 connections", r.iops)
		if r.guest != "" {
			name += ", which others use"
		}
		rows = append(rows, fairRow{
			name: name, conns: 256, large: r.iops != 100, guest: r.guest,
			lay:    func(tr *trial) { tr.laySlow() },
			ready:  func(tr *trial) { tr.mount("slow", "physical:"+tr.slow.Path) },
			begins: func(tr *trial) { tr.slow.Delay(r.iops) },
			attack: readsSlow, alike: readsSlow,
		})
	}
	return append(rows, fairRow{
		name: "calls on a mount that hangs, 256 connections", conns: 256,
		lay:    func(tr *trial) { tr.laySlow() },
		ready:  func(tr *trial) { tr.mount("slow", "physical:"+tr.slow.Path) },
		attack: callsSlow,
		begins: func(tr *trial) { tr.slow.Hang() },
		during: (*trial).shows,
		over:   func(tr *trial) { tr.slow.Release() },
		alike:  walks,
		yet:    "what calls hold that wait is not bounded as memory",
	})
}

const slowFiles = 64

func (tr *trial) laySlow() {
	tr.slow = slowfs.MountAt(tr.TB, filepath.Join(tr.host.base, "slow"))
	for i := range slowFiles {
		tr.slow.File(tr.TB, fmt.Sprintf("f%02d", i), 1<<20)
	}
}

func slowFile(i int) string { return fmt.Sprintf("slow/f%02d", i%slowFiles) }

func readsSlow(a *aggressor) {
	a.each(func(i int, g *grip) {
		file := g.open(slowFile(i))
		g.loop(64, func(q uint32) []call { return []call{read(q, export(file), uint64(q/spread%256)<<12, 4<<10)} })
	})
}

// callsSlow reads, walks, lists and writes.
func callsSlow(a *aggressor) {
	a.each(func(i int, g *grip) {
		file := g.open(slowFile(i))
		g.loop(64, func(q uint32) []call {
			switch q / spread % 4 {
			case 0:
				return []call{read(q, export(file), 0, 4<<10)}
			case 1:
				return []call{walkTo(q, g.top, slowFile(int(q)))}
			case 2:
				return []call{openDir(q, export(g.top), "slow"), listOf(q+1, result(q, 0))}
			}
			return []call{putAt(q, g.top, fmt.Sprintf("slow/new%d", i), nil)}
		})
	})
}

// lockRows make long calls on things that others use too.
func lockRows() []fairRow {
	return []fairRow{
		{name: "64 removes of a large directory at once", conns: 1, alike: puts,
			lay: func(tr *trial) { tr.layLarge("large", size(4000, 20_000, 100_000), 8) },
			attack: repeats(64, func(g *grip, q uint32) call {
				return of(q, export(g.top), schema.Dir_remove, func(p schema.Dir_remove_Params) error { return p.SetPath("project/large") })
			})},
		{name: "versions of a large file beneath an overlay, which others use", conns: 1, alike: walks, guest: "draft/honest",
			lay: func(tr *trial) {
				under := filepath.Join(tr.host.base, "under")
				ok(tr, os.MkdirAll(under, 0o755))
				ok(tr, os.WriteFile(filepath.Join(under, "sparse"), nil, 0o644))
				ok(tr, os.Truncate(filepath.Join(under, "sparse"), int64(size(1<<30, 8<<30, 32<<30))))
			},
			ready: func(tr *trial) { tr.mount("draft", "overlay:physical:"+filepath.Join(tr.host.base, "under")) },
			attack: func(a *aggressor) {
				a.each(func(_ int, g *grip) {
					g.loop(16, func(q uint32) []call {
						if q/spread%2 == 0 {
							return []call{openFile(q, export(g.top), "draft/sparse"), versionOf(q+1, result(q, 0))}
						}
						return []call{removeIf(q, g.top, "draft/sparse")}
					})
				})
			}},
		{name: "shares made and revoked in turn, 16 connections", conns: 16, alike: walks,
			attack: func(a *aggressor) {
				a.each(func(_ int, g *grip) {
					g.loop(4, func(q uint32) []call {
						return []call{shareDir(q, g.session, theirs(g.top)), of(q+1, result(q, 1), schema.Revoker_revoke, nil)}
					})
				})
			}},
		{name: "two writers on a mount in memory, never committed", conns: 1, alike: puts, guest: "tmp/honest",
			attack: func(a *aggressor) {
				a.each(func(_ int, g *grip) {
					g.await()
					for q := uint32(0); q < 100; q += 50 {
						g.call(stageAt(q, g.top, fmt.Sprintf("tmp/w%d", q)))
						for i := uint32(1); i < 32; i++ {
							g.call(of(q+i, result(q, 0), schema.Writer_write, func(p schema.Writer_write_Params) error { return p.SetData(make([]byte, 1<<20)) }))
						}
					}
					g.drain()
				})
			}},
	}
}

// layLarge makes a directory of n files. Each name has this many bytes.
func (tr *trial) layLarge(name string, n, bytes int) {
	dir := filepath.Join(tr.host.served, name)
	ok(tr, os.MkdirAll(dir, 0o755))
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	ok(tr, err)
	defer unix.Close(fd)
	for i := range n {
		ok(tr, unix.Mknodat(fd, fmt.Sprintf("%0*d", bytes, i), unix.S_IFREG|0o644, 0))
	}
}

// drain flushes, and counts the answers until the connection ends.
func (g *grip) drain() {
	g.flush()
	g.nc.SetReadDeadline(time.Time{})
	for {
		r, there := g.returned()
		if !there {
			return
		}
		g.a.answered(r)
	}
}
