package cap_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"capd/backend/memory"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/client"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/vfstest"
)

// precedence is the order of docs/errors.md. If several errors apply, the first is the answer.
var precedence = []vfs.Code{vfs.Revoked, vfs.Expired, vfs.Denied, vfs.ReadOnly, vfs.Unsupported}

// state is what was done to a capability.
type state struct {
	revoked, expired, unreadable, locked, readOnly bool
}

func (s state) String() string {
	var all []string
	for name, is := range map[string]bool{"revoked": s.revoked, "expired": s.expired, "unreadable": s.unreadable, "locked": s.locked, "readOnly": s.readOnly} {
		if is {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "+")
}

// states are all states, alone and combined with each later one.
func states() (all []state) {
	for bits := range 1 << 5 {
		all = append(all, state{bits&1 != 0, bits&2 != 0, bits&4 != 0, bits&8 != 0, bits&16 != 0})
	}
	return all
}

// asks says what a call does besides using a path: it looks, or it changes.
type asks struct{ reads, changes bool }

// against returns the codes that apply to a call in this state.
func (s state) against(a asks) (all []vfs.Code) {
	if s.revoked {
		all = append(all, vfs.Revoked)
	}
	if s.expired {
		all = append(all, vfs.Expired)
	}
	if s.unreadable && a.reads {
		all = append(all, vfs.Denied)
	}
	if (s.locked || s.readOnly) && a.changes {
		all = append(all, vfs.ReadOnly)
	}
	return all
}

// wrongCall is a call of a method with one mistake in it.
type wrongCall struct {
	verb, what string
	asks       asks
	wrong      []vfs.Code // what speaks against it in any state, the foremost first
	do         func(ctx context.Context, d, f, foreign *vat.Cap) error
}

// ruled is a namespace with a store mounted at m, whose policy withholds .env, as capd serves a directory.
func ruled(t *testing.T) vfs.Dir {
	t.Helper()
	s := memory.New(memory.Limits{})
	vfstest.Fill(t, s.Root(), vfstest.Tree{"a/f": {Data: "f"}, "a/.env": {Data: "x"}, "f": {Data: "f"}, ".env": {Data: "secret"}, "e": {Dir: true}}, nil, nil)
	rules, err := deny.Compile("**/.env")
	ok(t, err)
	ns := namespace.New()
	ok(t, ns.Mount("m", s.Root(), namespace.Options{Guards: []membrane.Guard{rules.Guard()}}))
	t.Cleanup(func() { ns.Close() })
	return ns.Root()
}

// TestPrecedence: if several errors apply to a call, the first in the order is answered. The calls go over the
// wire; the rules are those of a mount and the rights those of a grant.
func TestPrecedence(t *testing.T) {
	ctx := t.Context()
	calls := wrongCalls()
	tried := 0
	for _, st := range states() {
		s := serve(t, ruled(t), nil)
		loc, g := s.Grant(t, "agent", "m", false)
		other, _ := s.Grant(t, "other", "m", false)
		session := s.session(t)
		lives := restore(ctx, session, other.Secret[:]) // so that the connection goes on
		ok(t, lives.Settle(ctx))
		d := client.NewDir(restore(ctx, session, loc.Secret[:]))
		if st.readOnly {
			d = d.ReadOnly()
		}
		f := d.OpenFile("f")
		foreign := vat.Serve(vat.NewTable(), struct{}{})
		defer foreign.Release()
		for _, c := range []*vat.Cap{d.Cap(), f.Cap()} {
			ok(t, c.Settle(ctx))
		}
		ctl, err := s.Authority.Control(t.Context(), g.ID)
		ok(t, err)
		defer ctl.Release()
		if st.unreadable {
			ctl.SetReadable(false)
		}
		if st.locked {
			ok(t, ctl.SetWritable(false))
		}
		if st.expired {
			ctl.ExpireAt(time.Now().Add(-time.Second))
			expires(t, d.Cap())
		}
		if st.revoked {
			ok(t, ctl.Revoke())
		}
		for _, c := range calls {
			tried++
			codes := append(st.against(c.asks), c.wrong...)
			if len(codes) == 0 {
				continue
			}
			want := codes // among the rest there is no order
			for _, p := range precedence {
				if slices.Contains(codes, p) {
					want = []vfs.Code{p}
					break
				}
			}
			err := wire.Decode(c.do(ctx, d.Cap(), f.Cap(), foreign))
			if !slices.Contains(want, vfs.CodeOf(err)) {
				t.Errorf("%v: %s of %.20s: %.100v, want %s", st, c.verb, c.what, err, want)
			}
		}
	}
	t.Logf("%d calls", tried)
}

// expires waits until c answers expired.
func expires(t *testing.T, c *vat.Cap) {
	t.Helper()
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if err = call(t, c, schema.Dir_stat, nil, nil); vfs.CodeOf(err) == vfs.Expired {
			return
		}
	}
	t.Fatalf("it does not expire: %v", err)
}

// path returns a path with a mistake in it. Nothing can be created at any of these paths.
type path struct {
	path  string
	wrong []vfs.Code
}

// wrongCalls are all methods with each possible mistake.
func wrongCalls() (all []wrongCall) {
	looks := asks{reads: true}
	changes := asks{changes: true}
	bad := []path{
		{".env", []vfs.Code{vfs.Denied}},
		{"a/.env", []vfs.Code{vfs.Denied}},
		{".env/x", []vfs.Code{vfs.Denied}},
		{"../x", []vfs.Code{vfs.Invalid}},
		{"", []vfs.Code{vfs.Invalid}},
		{strings.Repeat("x/", 200) + "x", []vfs.Code{vfs.Limit}},
		{"missing/x", []vfs.Code{vfs.NotFound}},
		{"f/x", []vfs.Code{vfs.NotDir}},
	}
	for _, p := range bad {
		paths := func(verb string, a asks, do func(ctx context.Context, d *vat.Cap) error, more ...vfs.Code) {
			if strings.Contains(p.path, "/") && p.path != "../x" && len(p.path) < 100 {
				a.reads = true // a directory on the way is looked at
			}
			all = append(all, wrongCall{verb, p.path, a, append(slices.Clone(p.wrong), more...), func(ctx context.Context, d, _, _ *vat.Cap) error { return do(ctx, d) }})
		}
		paths("walk", looks, func(ctx context.Context, d *vat.Cap) error {
			return vat.Do(ctx, d, schema.Dir_walk, func(q schema.Dir_walk_Params, _ *vat.Caps) error { return q.SetPath(p.path) }, nil)
		})
		paths("openDir", looks, func(ctx context.Context, d *vat.Cap) error {
			return vat.Do(ctx, d, schema.Dir_openDir, func(q schema.Dir_openDir_Params, _ *vat.Caps) error { return q.SetPath(p.path) }, nil)
		})
		paths("openFile", looks, func(ctx context.Context, d *vat.Cap) error {
			return vat.Do(ctx, d, schema.Dir_openFile, func(q schema.Dir_openFile_Params, _ *vat.Caps) error { return q.SetPath(p.path) }, nil)
		})
		paths("subDir", looks, func(ctx context.Context, d *vat.Cap) error {
			return vat.Do(ctx, d, schema.Dir_subDir, func(q schema.Dir_subDir_Params, _ *vat.Caps) error { return q.SetPath(p.path) }, nil)
		})
		for _, noFollow := range []bool{false, true} {
			paths("put", changes, func(ctx context.Context, d *vat.Cap) error {
				return vat.Do(ctx, d, schema.Dir_put, func(q schema.Dir_put_Params, _ *vat.Caps) error {
					q.SetNoFollow(noFollow)
					return q.SetPath(p.path)
				}, nil)
			})
		}
		paths("put with a bad condition", changes, func(ctx context.Context, d *vat.Cap) error {
			return vat.Do(ctx, d, schema.Dir_put, func(q schema.Dir_put_Params, _ *vat.Caps) error {
				c, err := q.NewIfVersion()
				if err != nil {
					return err
				}
				if err := c.SetEquals([]byte("short")); err != nil {
					return err
				}
				return q.SetPath(p.path)
			}, nil)
		}, vfs.Invalid)
		paths("stage", changes, func(ctx context.Context, d *vat.Cap) error {
			return vat.Do(ctx, d, schema.Dir_stage, func(q schema.Dir_stage_Params, _ *vat.Caps) error { return q.SetPath(p.path) }, nil)
		})
		paths("createDir", changes, func(ctx context.Context, d *vat.Cap) error {
			return vat.Do(ctx, d, schema.Dir_createDir, func(q schema.Dir_createDir_Params, _ *vat.Caps) error { return q.SetPath(p.path) }, nil)
		})
		paths("createFile", changes, func(ctx context.Context, d *vat.Cap) error {
			return vat.Do(ctx, d, schema.Dir_createFile, func(q schema.Dir_createFile_Params, _ *vat.Caps) error { return q.SetPath(p.path) }, nil)
		})
		paths("remove", changes, func(ctx context.Context, d *vat.Cap) error {
			return vat.Do(ctx, d, schema.Dir_remove, func(q schema.Dir_remove_Params, _ *vat.Caps) error { return q.SetPath(p.path) }, nil)
		})
		moves := asks{true, true}
		paths("move from", moves, func(ctx context.Context, d *vat.Cap) error {
			return vat.Do(ctx, d, schema.Dir_move, func(q schema.Dir_move_Params, _ *vat.Caps) error {
				if err := q.SetNewPath("new"); err != nil {
					return err
				}
				return q.SetPath(p.path)
			}, nil)
		})
		paths("move to", moves, func(ctx context.Context, d *vat.Cap) error {
			return vat.Do(ctx, d, schema.Dir_move, func(q schema.Dir_move_Params, _ *vat.Caps) error {
				if err := q.SetNewPath(p.path); err != nil {
					return err
				}
				return q.SetPath("f")
			}, nil)
		})
		all = append(all, wrongCall{"move to somebody else's", p.path, moves, append(slices.Clone(p.wrong), vfs.Unsupported), func(ctx context.Context, d, _, foreign *vat.Cap) error {
			return vat.Do(ctx, d, schema.Dir_move, func(q schema.Dir_move_Params, caps *vat.Caps) error {
				if err := q.SetDst(caps.Put(foreign.AddRef())); err != nil {
					return err
				}
				if err := q.SetNewPath("new"); err != nil {
					return err
				}
				return q.SetPath(p.path)
			}, nil)
		}})
	}
	one := func(verb, what string, a asks, wrong vfs.Code, do func(ctx context.Context, d, f *vat.Cap) error) {
		var codes []vfs.Code
		if wrong != "" {
			codes = []vfs.Code{wrong}
		}
		all = append(all, wrongCall{verb, what, a, codes, func(ctx context.Context, d, f, _ *vat.Cap) error { return do(ctx, d, f) }})
	}
	for _, name := range []struct {
		name  string
		wrong vfs.Code
	}{{".env", vfs.Denied}, {"..", vfs.Invalid}, {"missing", vfs.NotFound}} {
		one("get", name.name, looks, name.wrong, func(ctx context.Context, d, _ *vat.Cap) error {
			return vat.Do(ctx, d, schema.Dir_get, func(q schema.Dir_get_Params, _ *vat.Caps) error { return q.SetName(name.name) }, nil)
		})
	}
	one("put", "too much", changes, vfs.TooLarge, func(ctx context.Context, d, _ *vat.Cap) error {
		return vat.Do(ctx, d, schema.Dir_put, func(q schema.Dir_put_Params, _ *vat.Caps) error {
			if err := q.SetPath("new"); err != nil {
				return err
			}
			return q.SetData(make([]byte, wire.MaxWhole+1))
		}, nil)
	})
	one("list", "it", looks, "", func(ctx context.Context, d, _ *vat.Cap) error { return vat.Do(ctx, d, schema.Dir_list, nil, nil) })
	one("stat", "a Dir", looks, "", func(ctx context.Context, d, _ *vat.Cap) error { return vat.Do(ctx, d, schema.Dir_stat, nil, nil) })
	one("glob", "a bad pattern", looks, vfs.Invalid, func(ctx context.Context, d, _ *vat.Cap) error {
		return vat.Do(ctx, d, schema.Dir_glob, func(q schema.Dir_glob_Params, _ *vat.Caps) error { return q.SetPattern("[") }, nil)
	})
	one("read", "too much", looks, vfs.TooLarge, func(ctx context.Context, _, f *vat.Cap) error {
		return vat.Do(ctx, f, schema.File_read, func(q schema.File_read_Params, _ *vat.Caps) error { q.SetLength(1 << 30); return nil }, nil)
	})
	one("read", "an offset that no file has", looks, vfs.Invalid, func(ctx context.Context, _, f *vat.Cap) error {
		return vat.Do(ctx, f, schema.File_read, func(q schema.File_read_Params, _ *vat.Caps) error { q.SetOffset(1 << 63); return nil }, nil)
	})
	one("readText", "it", looks, "", func(ctx context.Context, _, f *vat.Cap) error { return vat.Do(ctx, f, schema.File_readText, nil, nil) })
	one("readBytes", "it", looks, "", func(ctx context.Context, _, f *vat.Cap) error { return vat.Do(ctx, f, schema.File_readBytes, nil, nil) })
	one("stream", "no sink", looks, vfs.Invalid, func(ctx context.Context, _, f *vat.Cap) error { return vat.Do(ctx, f, schema.File_stream, nil, nil) })
	one("stat", "a File", looks, "", func(ctx context.Context, _, f *vat.Cap) error {
		return vat.Do(ctx, f, schema.File_stat, func(q schema.File_stat_Params, _ *vat.Caps) error { q.SetWithVersion(true); return nil }, nil)
	})
	one("writeText", "what is no text", changes, vfs.Invalid, func(ctx context.Context, _, f *vat.Cap) error {
		return vat.Do(ctx, f, schema.File_writeText, func(q schema.File_writeText_Params, _ *vat.Caps) error { return q.SetText("\xff") }, nil)
	})
	one("writeBytes", "too much", changes, vfs.TooLarge, func(ctx context.Context, _, f *vat.Cap) error {
		return vat.Do(ctx, f, schema.File_writeBytes, func(q schema.File_writeBytes_Params, _ *vat.Caps) error {
			return q.SetData(make([]byte, wire.MaxWhole+1))
		}, nil)
	})
	one("stage", "with a bad condition", changes, vfs.Invalid, func(ctx context.Context, _, f *vat.Cap) error {
		return vat.Do(ctx, f, schema.File_stage, func(q schema.File_stage_Params, _ *vat.Caps) error {
			c, err := q.NewIfVersion()
			if err != nil {
				return err
			}
			return c.SetEquals([]byte("short"))
		}, nil)
	})
	one("write", "an offset that no file has", changes, vfs.Invalid, func(ctx context.Context, _, f *vat.Cap) error {
		return vat.Do(ctx, f, schema.File_write, func(q schema.File_write_Params, _ *vat.Caps) error { q.SetOffset(1 << 63); return nil }, nil)
	})
	one("append", "too much", changes, vfs.TooLarge, func(ctx context.Context, _, f *vat.Cap) error {
		return vat.Do(ctx, f, schema.File_append, func(q schema.File_append_Params, _ *vat.Caps) error {
			return q.SetData(make([]byte, wire.MaxChunk+1))
		}, nil)
	})
	one("truncate", "a size that no file has", changes, vfs.Invalid, func(ctx context.Context, _, f *vat.Cap) error {
		return vat.Do(ctx, f, schema.File_truncate, func(q schema.File_truncate_Params, _ *vat.Caps) error { q.SetSizeBytes(1 << 63); return nil }, nil)
	})
	none := asks{}
	one("readOnly", "a Dir", none, "", func(ctx context.Context, d, _ *vat.Cap) error { return vat.Do(ctx, d, schema.Dir_readOnly, nil, nil) })
	one("revocable", "a Dir", none, "", func(ctx context.Context, d, _ *vat.Cap) error { return vat.Do(ctx, d, schema.Dir_revocable, nil, nil) })
	one("readOnly", "a File", none, "", func(ctx context.Context, _, f *vat.Cap) error { return vat.Do(ctx, f, schema.File_readOnly, nil, nil) })
	one("revocable", "a File", none, "", func(ctx context.Context, _, f *vat.Cap) error { return vat.Do(ctx, f, schema.File_revocable, nil, nil) })
	return all
}
