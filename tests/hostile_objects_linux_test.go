package tests

import (
	"crypto/rand"
	"strings"
	"time"

	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	schema "capd/capnp"
	"capd/locator"
)

// deniedUntil reads until the connection has ended. Calls are denied, and then the host must have sent an
// Abort that says why. The Abort may overtake answers that are due.
func (p *peer) deniedUntil(why string) {
	p.Helper()
	denied, reason := 0, "nothing"
	for m, there := p.recv(); there; m, there = p.recv() {
		switch m.Which() {
		case rpc.Message_Which_return:
			r, err := m.Return()
			if ok(p, err); r.AnswerId() == askedBoot {
				continue
			}
			e, err := r.Exception()
			ok(p, err)
			text, err := e.Reason()
			if ok(p, err); !coded(text, "denied") {
				p.Errorf("call %d fails with %q, want denied", r.AnswerId(), text)
			}
			denied++
		case rpc.Message_Which_abort:
			e, err := m.Abort()
			ok(p, err)
			reason, _ = e.Reason()
		}
	}
	if !strings.Contains(reason, why) || denied == 0 {
		p.Errorf("%d calls were denied, and then the host aborted with %q, want %q", denied, reason, why)
	}
}

// objectAttacks misuse what is served: secrets, capabilities of the wrong kind, and
// parameters out of range.
func objectAttacks() []hostileRow {
	return []hostileRow{
		{name: "a thousand wrong secrets", must: "denied, and abort: limit after 32", once: true, do: func(a *assault) {
			p := a.stranger()
			p.bootstrap(askedBoot)
			secret := make([]byte, 32)
			for q := range uint32(1000) {
				rand.Read(secret)
				p.call(restore(q, result(askedBoot), secret))
			}
			p.deniedUntil("limit: too many locators that lead nowhere")
		}},
		{name: "a thousand wrong secrets of invitations", must: "denied, and abort: limit after 32", once: true, do: func(a *assault) {
			p := a.stranger()
			p.bootstrap(askedBoot)
			for q := range uint32(1000) {
				p.call(petition(q, result(askedBoot)))
			}
			p.deniedUntil("limit: too many locators that lead nowhere")
		}},
		{name: "wrong secrets of a guest, of grants and of invitations", must: "denied, each", room: 32, do: func(a *assault) {
			p, session, top := a.guest()
			for q := uint32(0); q < 1000; q += 2 {
				secret := locator.NewSecret()
				p.call(restore(q, export(session), secret[:]))
				p.call(petition(q+1, export(session)))
			}
			for q := range uint32(1000) {
				p.fails(q, "denied")
				p.finish(q, true)
			}
			p.alive(top)
		}},
		{name: "secrets of other lengths, and nearly right ones", must: "denied, each", do: func(a *assault) {
			p, session, top := a.guest()
			right := a.evil.Secret[:]
			for i, secret := range [][]byte{nil, right[:31], append(append([]byte{}, right...), 0), make([]byte, 1<<20), make([]byte, 32), flipped(right, 0), flipped(right, 255)} {
				p.call(restore(uint32(i), export(session), secret))
				p.fails(uint32(i), "denied")
			}
			p.alive(top)
		}},
		{name: "capabilities of another connection, by their ids", must: "abort: not exported, each", do: func(a *assault) {
			other, _, top := a.guest()
			for q := range uint32(50) {
				other.call(openFile(q, export(top), "project/hostile/f"))
			}
			for q := range uint32(50) {
				other.works(q)
			}
			for id := range uint32(8) {
				p := a.stranger()
				p.bootstrap(1)
				p.works(1)
				p.call(read(2, export(1+id*7), 0, 64))
				p.aborted("not exported")
			}
			other.alive(top)
		}},
		{name: "everything that a stranger may ask of a Session", must: "invalid, denied or unimplemented; nothing is had", do: func(a *assault) {
			p := a.stranger()
			p.bootstrap(1)
			caps, _ := p.works(1)
			p.call(of(2, export(caps[0]), schema.Session_share, nil))
			p.fails(2, "invalid")
			p.call(shareDir(3, caps[0], theirs(caps[0])))
			p.fails(3, "invalid")
			p.call(shareDir(4, caps[0], hosted(1)))
			p.fails(4, "invalid")
			p.call(statDir(5, export(caps[0])))
			p.fails(5, "unsupported")
			p.call(of(6, export(caps[0]), schema.Console_list, nil))
			p.fails(6, "unsupported")
		}},
		refused("capabilities of other kinds for every parameter", "invalid or unsupported, each", otherKinds),
		refused("a sink that is a writer of the host's", "invalid: nothing is written", func(p *peer, _, top uint32) {
			p.call(openFile(1, export(top), "project/hostile/f"))
			p.call(of(2, export(top), schema.Dir_stage, func(s schema.Dir_stage_Params) error { return s.SetPath("tmp/pumped") }))
			caps, _ := p.works(2)
			p.call(stream(3, result(1, 0), theirs(caps[0])))
			p.fails(3, "invalid")
		}),
		refused("a directory moved into itself", "a typed error", func(p *peer, _, top uint32) {
			p.call(of(1, export(top), schema.Dir_createDir, func(s schema.Dir_createDir_Params) error { return s.SetPath("tmp/snake") }))
			p.ret(1)
			for q, to := range []string{"tmp/snake", "tmp/snake/tail", "tmp/snake/a/b"} {
				p.call(of(uint32(10+q), export(top), schema.Dir_move, func(s schema.Dir_move_Params) error {
					return firstOf(s.SetPath("tmp/snake"), s.SetNewPath(to))
				}))
				p.ret(uint32(10 + q))
			}
			p.call(of(20, export(top), schema.Dir_list, nil))
			p.works(20)
		}),
		refused("paths without measure", "invalid or limit, each", func(p *peer, _, top uint32) {
			for i, path := range []string{
				strings.Repeat("a", 4096), strings.Repeat("a/", 129) + "a", strings.Repeat("../", 1000), "/", "//", ".", "..", "project/../..",
				"\x00", "project\x00/hostile", strings.Repeat("/", 100_000), strings.Repeat("x", 1<<20), "\xff\xfe", "project/hostile/f/", "project//hostile",
			} {
				p.call(openFile(uint32(i), export(top), path))
				p.fails(uint32(i), "invalid|limit|notFound|notDir|isDir")
			}
		}),
		refused("offsets and lengths without measure", "an answer or a typed error, each", func(p *peer, _, top uint32) {
			p.call(openFile(1, export(top), "project/hostile/sparse"))
			caps, _ := p.works(1)
			file := export(caps[0])
			p.call(read(2, file, 1<<63, 1))
			p.fails(2, "invalid")
			p.call(read(3, file, 0, 0xffff_ffff))
			p.fails(3, "tooLarge")
			p.call(read(4, file, 1<<62, 1<<20)) // past the end: nothing
			p.works(4)
			for q, size := range []uint64{1 << 63, 1<<63 - 1, ^uint64(0)} {
				p.call(of(uint32(10+q), file, schema.File_truncate, func(s schema.File_truncate_Params) error { s.SetSizeBytes(size); return nil }))
				p.call(of(uint32(20+q), file, schema.File_write, func(s schema.File_write_Params) error {
					s.SetOffset(size)
					return s.SetData([]byte("x"))
				}))
				p.call(of(uint32(30+q), file, schema.File_stream, func(s schema.File_stream_Params) error {
					s.SetOffset(size)
					s.SetLength(size)
					return s.SetSink(pointer(s, 0))
				}, hosted(5)))
				if size != 1<<63-1 { // which may be a valid size
					p.fails(uint32(10+q), "invalid")
					p.fails(uint32(30+q), "invalid")
				}
				p.fails(uint32(20+q), "invalid|limit|tooLarge|quota")
			}
		}),
		{name: "a file in memory made as large as can be", must: "limit or quota; nothing is allocated", room: 32, do: func(a *assault) {
			p, _, top := a.guest()
			p.call(of(1, export(top), schema.Dir_createFile, func(s schema.Dir_createFile_Params) error { return s.SetPath("tmp/vast") }))
			p.ret(1)
			p.call(openFile(2, export(top), "tmp/vast"))
			caps, _ := p.works(2)
			for q, size := range []uint64{64<<20 + 1, 1 << 40, 1<<62 - 1} {
				p.call(of(uint32(10+q), export(caps[0]), schema.File_truncate, func(s schema.File_truncate_Params) error { s.SetSizeBytes(size); return nil }))
				p.fails(uint32(10+q), "limit|quota|tooLarge|invalid")
				p.call(of(uint32(20+q), export(caps[0]), schema.File_write, func(s schema.File_write_Params) error {
					s.SetOffset(size)
					return s.SetData([]byte("x"))
				}))
				p.fails(uint32(20+q), "limit|quota|tooLarge|invalid")
			}
			p.alive(top)
		}},
		refused("patterns that are much work", "an answer or invalid, each within its bounds", func(p *peer, _, top uint32) {
			for i, pattern := range []string{
				strings.Repeat("*a", 100) + "b", strings.Repeat("**/", 60) + "x", strings.Repeat("{a,b}", 12), strings.Repeat("{", 1000),
				strings.Repeat("[", 1000), "**/" + strings.Repeat("?*", 200), strings.Repeat("{a,{b,", 30) + strings.Repeat("}}", 30),
				"[" + strings.Repeat("a-z", 1000) + "]", strings.Repeat("**", 2000),
			} {
				q := uint32(i)
				begun := time.Now()
				p.call(globFor(q, export(top), pattern))
				if r := p.ret(q); r.Which() == rpc.Return_Which_exception {
					e, err := r.Exception()
					ok(p, err)
					if why, _ := e.Reason(); !coded(why, "invalid") {
						p.Errorf("%.20s: %s", pattern, why)
					}
				}
				if took := time.Since(begun); took > prompt {
					p.Errorf("%.20s took %v", pattern, took)
				}
			}
		}),
		refused("pages without measure", "at most 10,000 entries", func(p *peer, _, top uint32) {
			p.call(openDir(1, export(top), "project/hostile/many"))
			for q := range uint32(5) {
				p.call(of(10+q, result(1, 0), schema.Dir_list, func(s schema.Dir_list_Params) error {
					s.SetLimit(0xffff_ffff)
					s.SetWithStat(true)
					return s.SetAfter([]byte(strings.Repeat("\xff", int(q)*1000)))
				}))
				p.works(10 + q)
			}
		}),
		refused("what was revoked is used on", "revoked, each", func(p *peer, _, top uint32) {
			p.call(of(1, export(top), schema.Dir_revocable, nil))
			p.call(openFile(2, result(1, uint16(schema.Dir_revocable_Results_dir)), "project/hostile/f"))
			file, _ := p.works(2)
			p.call(of(3, result(1, uint16(schema.Dir_revocable_Results_revoker)), schema.Revoker_revoke, nil))
			p.works(3)
			for q := range uint32(20) {
				p.call(read(10+q, export(file[0]), 0, 64))
				p.fails(10+q, "revoked")
				p.call(openFile(40+q, result(1, uint16(schema.Dir_revocable_Results_dir)), "project"))
				p.fails(40+q, "revoked")
			}
		}),
		refused("a revoke raced by 400 uses", "an answer or revoked, each", func(p *peer, _, top uint32) {
			p.call(of(1, export(top), schema.Dir_revocable, nil))
			dir := result(1, uint16(schema.Dir_revocable_Results_dir))
			for q := range uint32(400) {
				p.call(of(10+q, dir, schema.Dir_put, func(s schema.Dir_put_Params) error {
					return firstOf(s.SetPath("tmp/raced"), s.SetData([]byte("x")))
				}))
				if q == 200 {
					p.call(of(2, result(1, uint16(schema.Dir_revocable_Results_revoker)), schema.Revoker_revoke, nil))
				}
			}
			p.works(2)
			for q := range uint32(400) {
				if r := p.ret(10 + q); r.Which() == rpc.Return_Which_exception {
					e, err := r.Exception()
					ok(p, err)
					if why, _ := e.Reason(); !coded(why, "revoked") {
						p.Errorf("put: %s", why)
					}
				}
			}
			p.call(of(1000, dir, schema.Dir_put, func(s schema.Dir_put_Params) error { return firstOf(s.SetPath("tmp/raced"), s.SetData([]byte("y"))) }))
			p.fails(1000, "revoked")
		}),
	}
}

func flipped(b []byte, bit int) []byte {
	out := append([]byte{}, b...)
	out[bit/8] ^= 1 << (bit % 8)
	return out
}

// shareDir shares the capability of a descriptor as a directory.
func shareDir(q, session uint32, d descriptor) call {
	return of(q, export(session), schema.Session_share, func(p schema.Session_share_Params) error {
		ref, err := p.NewRef()
		if err != nil {
			return err
		}
		return ref.SetDir(pointer(ref, 0))
	}, d)
}

// otherKinds passes capabilities of the host where capabilities of another kind belong.
func otherKinds(p *peer, session, top uint32) {
	p.call(openFile(1, export(top), "project/hostile/f"))
	p.call(of(2, export(top), schema.Dir_stage, func(s schema.Dir_stage_Params) error { return s.SetPath("tmp/kinds") }))
	p.call(of(3, export(top), schema.Dir_revocable, nil))
	file, _ := p.works(1)
	writer, _ := p.works(2)
	revocable, _ := p.works(3)
	q := uint32(10)
	for _, id := range []uint32{session, file[0], writer[0], revocable[0], revocable[1], top} {
		p.call(stream(q, export(file[0]), theirs(id)))
		p.fails(q, "invalid")
		q++
		p.call(moveTo(q, export(top), theirs(id)))
		p.fails(q, "unsupported|notFound|notDir") // notFound: it was a directory; notDir: it is a file
		q++
		p.call(shareDir(q, session, theirs(id)))
		if r := p.ret(q); r.Which() == rpc.Return_Which_results && id != top && id != revocable[0] && id != revocable[1] {
			p.Errorf("%d was shared as a directory", id)
		}
		q++
	}
}

// petition asks for a Petitioner with a secret that is made up.
func petition(q uint32, session target) call {
	return of(q, session, schema.Session_restorePetitioner, func(p schema.Session_restorePetitioner_Params) error {
		secret := locator.NewSecret()
		return p.SetSecret(secret[:])
	})
}
