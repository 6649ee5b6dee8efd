package dir_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"capd/backend/memory"
	"capd/cap/dir"
	"capd/cap/scope"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// A pattern is compiled when it is the guest's turn, and a bad one keeps none.
func TestGlobInTurn(t *testing.T) {
	sc := scope.New()
	a, b := net.Pipe()
	h := vat.NewConn(a, vat.Options{Bootstrap: dir.New(sc, memory.New(memory.Limits{}).Root()), Encode: wire.Encode})
	g := vat.NewConn(b, vat.Options{})
	defer h.Close()
	defer g.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	d := g.Bootstrap(ctx)
	defer d.Release()
	glob := func(ctx context.Context, pattern string) error {
		return wire.Decode(vat.Do(ctx, d, schema.Dir_glob, func(p schema.Dir_glob_Params, _ *vat.Caps) error {
			return p.SetPattern(pattern)
		}, nil))
	}
	all := func() (giveBack func()) { // takes every turn
		var done []func()
		for range scope.MaxHeavy {
			give, err := sc.Look(ctx)
			if err != nil {
				t.Fatalf("a turn was kept: %v", err)
			}
			done = append(done, give)
		}
		return func() {
			for _, give := range done {
				give()
			}
		}
	}

	giveBack := all()
	if err := glob(ctx, strings.Repeat("x", vfs.MaxPath+1)); vfs.CodeOf(err) != vfs.Limit {
		t.Errorf("a pattern that is too long, before its turn: %v", err)
	}
	for range 2 * scope.MaxHeavy {
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		if err := glob(short, "["); short.Err() == nil {
			t.Errorf("a bad pattern, before its turn: %v", err)
		}
		cancel()
	}
	giveBack()
	for range 2 * scope.MaxHeavy {
		if err := glob(ctx, "["); vfs.CodeOf(err) != vfs.Invalid {
			t.Errorf("a bad pattern, in its turn: %v", err)
		}
	}
	all()()
	if err := glob(ctx, "*"); err != nil {
		t.Error(err)
	}
}
