package dir_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"capd/backend/memory"
	"capd/cap/dir"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/meter"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Calls that may be expensive for a small request take a heavy turn, whether they succeed or not. Other calls
// do not.
func TestHeavy(t *testing.T) {
	m := meter.NewHost(nil).Grant("g", nil)
	a, b := net.Pipe()
	h := vat.NewConn(a, vat.Options{Bootstrap: dir.New(membrane.Guarded(memory.New(memory.Limits{}).Root(), membrane.NewGate())), Encode: wire.Encode, Meter: m})
	g := vat.NewConn(b, vat.Options{})
	defer h.Close()
	defer g.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	d := g.Bootstrap(ctx)
	defer d.Release()
	heavy := func(what string, want int64, call error, code vfs.Code, before int64) {
		t.Helper()
		if got := m.Turns()[meter.Heavy].Given - before; got != want {
			t.Errorf("%s: %d turns for what is heavy, want %d", what, got, want)
		}
		if err := wire.Decode(call); vfs.CodeOf(err) != code {
			t.Errorf("%s: %v, want %v", what, err, code)
		}
	}
	given := func() int64 { return m.Turns()[meter.Heavy].Given }
	put := func(cond func(schema.IfVersion) error) error {
		return vat.Do(ctx, d, schema.Dir_put, func(p schema.Dir_put_Params, _ *vat.Caps) error {
			c, err := p.NewIfVersion()
			if err == nil {
				err = cond(c)
			}
			if err == nil {
				err = p.SetPath("f")
			}
			return err
		}, nil)
	}
	glob := func(pattern string) error {
		return vat.Do(ctx, d, schema.Dir_glob, func(p schema.Dir_glob_Params, _ *vat.Caps) error { return p.SetPattern(pattern) }, nil)
	}
	n := given()
	heavy("put", 0, put(func(schema.IfVersion) error { return nil }), "", n)
	n = given()
	heavy("put what is absent", 0, put(func(c schema.IfVersion) error { c.SetAbsent(); return nil }), vfs.Conflict, n)
	n = given()
	heavy("put on a version", 1, put(func(c schema.IfVersion) error { return c.SetEquals([]byte(strings.Repeat("x", 32))) }), vfs.Conflict, n)
	n = given()
	heavy("list", 1, vat.Do(ctx, d, schema.Dir_list, nil, nil), "", n)
	n = given()
	heavy("glob", 1, glob("*"), "", n)
	n = given()
	heavy("grep", 1, vat.Do(ctx, d, schema.Dir_grep, nil, nil), "", n)
	n = given()
	heavy("a bad pattern", 1, glob("["), vfs.Invalid, n)
	n = given()
	heavy("a pattern that is too long", 1, glob(strings.Repeat("x", vfs.MaxPath+1)), vfs.Limit, n)
	n = given()
	heavy("stat", 0, vat.Do(ctx, d, schema.Dir_stat, nil, nil), "", n)
	n = given()
	heavy("move", 1, vat.Do(ctx, d, schema.Dir_move, func(p schema.Dir_move_Params, _ *vat.Caps) error {
		if err := p.SetPath("f"); err != nil {
			return err
		}
		return p.SetNewPath("h")
	}, nil), "", n)

	deep := strings.Repeat("d/", 40) + "d"
	for method, call := range map[string]func() error{
		"walk": func() error {
			return vat.Do(ctx, d, schema.Dir_walk, func(p schema.Dir_walk_Params, _ *vat.Caps) error { return p.SetPath(deep) }, nil)
		},
		"openDir": func() error {
			return vat.Do(ctx, d, schema.Dir_openDir, func(p schema.Dir_openDir_Params, _ *vat.Caps) error { return p.SetPath(deep) }, nil)
		},
		"openFile": func() error {
			return vat.Do(ctx, d, schema.Dir_openFile, func(p schema.Dir_openFile_Params, _ *vat.Caps) error { return p.SetPath(deep) }, nil)
		},
		"subDir": func() error {
			return vat.Do(ctx, d, schema.Dir_subDir, func(p schema.Dir_subDir_Params, _ *vat.Caps) error { return p.SetPath(deep) }, nil)
		},
		"put": func() error {
			return vat.Do(ctx, d, schema.Dir_put, func(p schema.Dir_put_Params, _ *vat.Caps) error { return p.SetPath(deep) }, nil)
		},
		"createDir": func() error {
			return vat.Do(ctx, d, schema.Dir_createDir, func(p schema.Dir_createDir_Params, _ *vat.Caps) error { return p.SetPath(deep) }, nil)
		},
		"createFile": func() error {
			return vat.Do(ctx, d, schema.Dir_createFile, func(p schema.Dir_createFile_Params, _ *vat.Caps) error { return p.SetPath(deep) }, nil)
		},
		"remove": func() error {
			return vat.Do(ctx, d, schema.Dir_remove, func(p schema.Dir_remove_Params, _ *vat.Caps) error { return p.SetPath(deep) }, nil)
		},
	} {
		n = given()
		heavy("a deep path: "+method, 1, call(), vfs.NotFound, n)
	}
	n = given()
	heavy("stage at a deep path", 2, vat.Do(ctx, d, schema.Dir_stage, func(p schema.Dir_stage_Params, _ *vat.Caps) error { return p.SetPath(deep) }, nil), vfs.NotFound, n) // itself, and its write
	n = given()
	heavy("a long path", 1, vat.Do(ctx, d, schema.Dir_walk, func(p schema.Dir_walk_Params, _ *vat.Caps) error {
		return p.SetPath(strings.Repeat(strings.Repeat("d", 200)+"/", 8) + "d")
	}, nil), vfs.NotFound, n)
	n = given()
	heavy("walk", 0, vat.Do(ctx, d, schema.Dir_walk, func(p schema.Dir_walk_Params, _ *vat.Caps) error { return p.SetPath("d/d/d/d") }, nil), vfs.NotFound, n)

	f := vat.Send(ctx, d, schema.Dir_openFile, func(p schema.Dir_openFile_Params, _ *vat.Caps) error { return p.SetPath("h") }).Cap(schema.Dir_openFile_Results_file)
	defer f.Release()
	for want, withVersion := range []bool{false, true} {
		n = given()
		heavy("stat of a file", int64(want), vat.Do(ctx, f, schema.File_stat, func(p schema.File_stat_Params, _ *vat.Caps) error {
			p.SetWithVersion(withVersion)
			return nil
		}, nil), "", n)
	}
}
