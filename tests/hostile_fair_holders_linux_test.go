package tests

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	schema "capd/capnp"
	"capd/locator"
)

// holdRows make the host hold things for the attacker.
func holdRows() []fairRow {
	return []fairRow{
		{name: "paths of 7 MiB in writers", conns: 1, alike: puts, attack: func(a *aggressor) {
			path := strings.Repeat("p", 7<<20)
			a.each(func(_ int, g *grip) {
				g.hoard(4, func(q uint32) []call { return []call{stageAt(q, g.top, path)} })
			})
		}},
		{name: "replies of 1 MiB that are never read, 256 connections", conns: 256, yet: "replies that are not read hold more than they count for", attack: func(a *aggressor) {
			a.each(func(_ int, g *grip) {
				file := g.open("project/honest/big")
				g.unread(200, func(q uint32) call { return read(q, export(file), 0, 1<<20) })
			})
		}},
		{name: "listings of a directory of long names, kept on 256 connections", conns: 256, alike: lists, yet: "listings count for less than they hold",
			lay: func(tr *trial) { tr.layLarge("wide", size(4000, 20_000, 100_000), 250) },
			attack: func(a *aggressor) {
				a.each(func(_ int, g *grip) {
					g.hoard(1, func(q uint32) []call {
						return []call{openDir(q, export(g.top), "project/wide"), listOf(q+1, result(q, 0))}
					})
				})
			}},
		{name: "writers that were committed, kept on 16 connections", conns: 16, alike: puts, attack: func(a *aggressor) {
			a.each(func(i int, g *grip) {
				g.hoard(8, func(q uint32) []call {
					return []call{stageAt(q, g.top, fmt.Sprintf("tmp/c%d-%d", i, q)), of(q+1, result(q, 0), schema.Writer_commit, nil)}
				})
			})
		}},
		{name: "open files until there are no descriptors, of 1,024", conns: 64, files: 1024, alike: walks,
			lay: func(tr *trial) { tr.layLarge("hostile", 2000, 8) },
			attack: func(a *aggressor) {
				a.each(func(i int, g *grip) {
					g.hoard(8, func(q uint32) []call {
						return []call{openFile(q, export(g.top), fmt.Sprintf("project/hostile/%08d", (i*61+int(q))%2000)), read(q+1, result(q, 0), 0, 10)}
					})
				})
			}},
		{name: "a share's holder who takes all that he can, 255 connections", conns: 255, shared: true, lay: layHeavy, attack: takesAll, alike: walks, during: (*trial).shows},
	}
}

// takesAll opens files and begins writes until it is refused. Then it reads, searches and
// hashes.
func takesAll(a *aggressor) {
	a.each(func(i int, g *grip) {
		file := g.open("project/hostile/big")
		for q := range uint32(64) {
			if q%16 == 0 {
				g.call(stageAt(2000+q, g.top, fmt.Sprintf("project/hostile/s%d-%d", i, q)))
			} else {
				g.call(openFile(2000+q, export(g.top), "project/hostile/f"))
			}
		}
		g.loop(16, func(q uint32) []call {
			switch q / spread % 8 {
			case 0:
				return []call{globFor(q, export(g.top), "project/hostile/**/*[a-f]*{0,1,2,3}*")}
			case 1:
				return []call{openFile(q, export(g.top), "project/hostile/sparse"), versionOf(q+1, result(q, 0))}
			case 2:
				return []call{putAt(q, g.top, fmt.Sprintf("project/hostile/p%d", i), pattern(0, 1<<10))}
			}
			return []call{read(q, export(file), 0, 256<<10)}
		})
	})
}

// crowdRows are attackers with very many connections, or connections that do not end.
func crowdRows() []fairRow {
	grants := size(4, 16, 16)
	return []fairRow{
		{name: "revoked guests that stay, 16 grants", conns: grants * size(32, 256, 256), grants: grants, attack: stays, during: gone, revoked: true},
		{name: "connections without a secret that come and go", conns: 64, crowded: true, alike: dials, attack: func(a *aggressor) {
			a.dialAll(func(nc net.Conn, _ locator.Locator) { dialogue(nc, boot) })
		}},
		{name: "connections without a secret that stay, 2,000", conns: 64, crowded: true, alike: dials, attack: func(a *aggressor) {
			held := make(chan net.Conn, 2000)
			a.dialAll(func(nc net.Conn, _ locator.Locator) {
				for {
					select {
					case held <- nc:
						return
					case oldest := <-held:
						oldest.Close()
					}
				}
			})
		}},
		{name: "dials with a wrong secret", conns: 64, crowded: true, alike: dials, attack: func(a *aggressor) {
			a.dialAll(func(nc net.Conn, _ locator.Locator) {
				secret := locator.NewSecret()
				dialogue(nc, boot, restore(askedTop, result(askedBoot), secret[:]).fill)
			})
		}},
		{name: "wrong secrets, 256 connections", conns: 256, alike: walks, attack: wrongSecrets, over: func(tr *trial) { tr.leavesLittle("denied") }},
	}
}

// wrongSecrets tries secrets that are made up, each another, in turn as those of grants and of invitations.
func wrongSecrets(a *aggressor) {
	repeats(8, func(g *grip, q uint32) call {
		if q/spread%2 == 0 {
			return petition(q, export(g.session))
		}
		secret := locator.NewSecret()
		return restore(q, export(g.session), secret[:])
	})(a)
}

// stays reads until its connections end.
func stays(a *aggressor) {
	a.each(func(i int, g *grip) {
		file := g.open("project/honest/big")
		g.loop(2, func(q uint32) []call { return []call{read(q, export(file), 0, 4<<10)} })
	})
}

// gone revokes every grant of the attacker. Its connections, and the calls on them, must
// end. It is an aim that this takes at most a second.
func gone(tr *trial) {
	tr.revokeAll()
	begun := time.Now()
	if !waitFor(mostWait, func() bool { return tr.connections() <= int(tr.before.Connections)+2 }) {
		tr.breaks("%v after a revoke %d connections are there", mostWait, tr.connections())
	}
	tr.gone = time.Since(begun)
	var did attackerDid
	if !waitFor(mostWait, func() bool { // the attacker still has to read earlier answers
		tr.attacker.tell("count").into(&did)
		return did.Ended >= int64(tr.row.conns)
	}) {
		tr.breaks("revoked guests go on: of %d connections %d have ended for them, %v after the host ended all", tr.row.conns, did.Ended, mostWait)
	}
}

// connections returns how many connections the host has, or -1 if it does not say.
func (tr *trial) connections() int {
	ctx, cancel := context.WithTimeout(context.Background(), mostWait)
	defer cancel()
	st, err := tr.op.Status(ctx, false)
	if err != nil {
		return -1
	}
	return int(st.Connections)
}

// dialAll dials again and again, from one goroutine for each connection of the row.
func (a *aggressor) dialAll(f func(nc net.Conn, loc locator.Locator)) {
	for range a.conns {
		go func() {
			a.await()
			for {
				time.Sleep(a.pace(1))
				nc, err := net.Dial("unix", a.locs[0].Socket)
				if err != nil {
					a.ended.Add(1)
					time.Sleep(time.Millisecond)
					continue
				}
				f(nc, a.locs[0])
				a.calls.Add(1)
			}
		}()
	}
	select {}
}

// dials does what a harmless guest does: it restores its capability and leaves.
func dials(a *aggressor) {
	a.dialAll(func(nc net.Conn, loc locator.Locator) {
		dialogue(nc, boot, restore(askedTop, result(askedBoot), loc.Secret[:]).fill)
	})
}

func boot(m rpc.Message) error {
	b, err := m.NewBootstrap()
	b.SetQuestionId(askedBoot)
	return err
}

// dialogue sends messages, waits for the answer to each, and closes the connection.
func dialogue(nc net.Conn, all ...func(rpc.Message) error) {
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(mostWait))
	var b []byte
	for _, fill := range all {
		b = append(b, message(alone{}, fill)...)
	}
	if _, err := nc.Write(b); err != nil {
		return
	}
	g := &grip{peer: newPeer(alone{}, nc)}
	for range all {
		if _, there := g.returned(); !there {
			return
		}
	}
}
