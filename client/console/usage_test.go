package console_test

import (
	"testing"

	"capnproto.org/go/capnp/v3"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/client/console"
	"capd/meter"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
)

// The wire has all kinds and lanes, with the same names and in the same order.
func TestKinds(t *testing.T) {
	for k := range meter.Kinds {
		if name := schema.Limit_Kind(k).String(); name != k.String() {
			t.Errorf("number %d is %q on the wire and %q here", k, name, k)
		}
	}
	if schema.Limit_Kind(meter.Kinds).String() != "" {
		t.Error("the wire has more kinds")
	}
	turns := meter.NewHost(nil).All().Turns()
	for i, u := range turns {
		if name := schema.Usage_Lane_Kind(i).String(); name != u.Lane.String() {
			t.Errorf("lane %d is %q on the wire and %q here", i, name, u.Lane)
		}
	}
	if schema.Usage_Lane_Kind(len(turns)).String() != "" {
		t.Error("the wire has more lanes")
	}
}

// usage returns the limits that were set with a grant or changed later.
func TestLimits(t *testing.T) {
	con := dialed(t)
	all := meter.Limits{}
	for k := range meter.Kinds {
		all[k] = int64(k) + 100
	}
	g, _, ctl, err := con.GrantOn(t.Context(), "agent", "", operator.Terms{Limits: all})
	ok(t, err)
	defer ctl.Close()
	limits := func() map[meter.Kind]int64 {
		t.Helper()
		u, err := con.Usage(t.Context())
		ok(t, err)
		if len(u.Grants) != 1 || u.Grants[0].Grant != g || len(u.Grants[0].Turns) != 3 || len(u.Host.Uses) != int(meter.Kinds) || len(u.Strangers.Uses) != int(meter.Kinds) {
			t.Fatalf("%+v", u)
		}
		have := map[meter.Kind]int64{}
		for _, use := range u.Grants[0].Uses {
			have[use.Kind] = use.Limit
		}
		return have
	}
	for k, most := range limits() {
		if most != all[k] && k != meter.StagedBytes { // which is no more than storedBytes
			t.Errorf("of %s there may be %d, want %d", k, most, all[k])
		}
	}
	n, err := con.SetLimits(t.Context(), "agent", meter.Limits{meter.Nodes: meter.NoLimit, meter.Streams: 1})
	if ok(t, err); n != 1 {
		t.Errorf("set for %d grants", n)
	}
	have := limits()
	if have[meter.Nodes] != meter.NoLimit || have[meter.Streams] != 1 || have[meter.Writers] != all[meter.Writers] {
		t.Errorf("the limits are %v", have)
	}
	_, err = con.SetLimits(t.Context(), g.ID, meter.Limits{meter.Streams: 2})
	if ok(t, err); limits()[meter.Streams] != 2 {
		t.Error("the limit was not set by the grant's id")
	}
	_, err = con.SetLimits(t.Context(), "nobody", meter.Limits{meter.Streams: 2})
	is(t, "a guest that there is not", err, vfs.NotFound)
	_, err = con.Revoke(t.Context(), "agent")
	ok(t, err)
	_, err = con.SetLimits(t.Context(), "agent", meter.Limits{meter.Streams: 2})
	is(t, "one that was revoked", err, vfs.Revoked)
	u, err := con.Usage(t.Context())
	if ok(t, err); len(u.Grants) != 0 {
		t.Errorf("what was revoked uses %+v", u.Grants)
	}
}

// If there are more grants than a page takes, all are listed once and in order.
func TestUsagePages(t *testing.T) {
	con := dialed(t)
	const grants = 1001
	for range grants {
		_, _, ctl, err := con.Grant(t.Context(), "agent", "", false)
		ok(t, err)
		ctl.Close()
	}
	_, err := con.Revoke(t.Context(), "g500")
	ok(t, err)
	u, err := con.Usage(t.Context())
	ok(t, err)
	all, err := con.Grants(t.Context())
	ok(t, err)
	i := 0
	for _, g := range all {
		if g.ID == "g500" {
			continue
		}
		if i == len(u.Grants) || u.Grants[i].Grant != g {
			t.Fatalf("number %d of %d is not %s", i, len(u.Grants), g.ID)
		}
		i++
	}
	if i != grants-1 || i != len(u.Grants) {
		t.Errorf("%d of %d", i, len(u.Grants))
	}
}

// An invalid limit is refused, and nothing is changed.
func TestMalformedLimits(t *testing.T) {
	conn := vat.NewConn(serve(t, nil)(), vat.Options{})
	defer conn.Close()
	boot := conn.Bootstrap(t.Context())
	defer boot.Release()
	type one struct {
		kind schema.Limit_Kind
		most int64
	}
	write := func(all []one, list func(int32) (schema.Limit_List, error)) error {
		l, err := list(int32(len(all)))
		for i, o := range all {
			l.At(i).SetKind(o.kind)
			l.At(i).SetMost(o.most)
		}
		return err
	}
	for name, all := range map[string][]one{
		"0":                {{schema.Limit_Kind_nodes, 0}},
		"-2":               {{schema.Limit_Kind_nodes, -2}},
		"an unknown kind":  {{schema.Limit_Kind(meter.Kinds), 1}},
		"the last kind":    {{0xffff, 1}},
		"a kind twice":     {{schema.Limit_Kind_nodes, 1}, {schema.Limit_Kind_nodes, 1}},
		"one that is well": {{schema.Limit_Kind_streams, 1}, {schema.Limit_Kind_nodes, 0}},
	} {
		is(t, name, wire.Decode(vat.Do(t.Context(), boot, schema.Console_setLimits, func(p schema.Console_setLimits_Params, _ *vat.Caps) error {
			return write(all, p.NewLimits)
		}, nil)), vfs.Invalid)
		is(t, name+" of a grant", wire.Decode(vat.Do(t.Context(), boot, schema.Console_grant, func(p schema.Console_grant_Params, _ *vat.Caps) error {
			ok(t, p.SetGuest("agent"))
			return write(all, p.NewLimits)
		}, nil)), vfs.Invalid)
	}
	is(t, "no limits", wire.Decode(vat.Do(t.Context(), boot, schema.Console_setLimits, nil, nil)), vfs.Invalid)
	for name, wrong := range mangle {
		set := func(at uint16) func(capnp.Struct) error {
			return func(p capnp.Struct) error {
				ptr, err := wrong(p.Segment())
				ok(t, err)
				return p.SetPtr(at, ptr)
			}
		}
		is(t, "limits that are "+name, wire.Decode(refused(t, boot, schema.Console_setLimits, set(1))), vfs.Invalid)
		is(t, "limits of a grant that are "+name, wire.Decode(refused(t, boot, schema.Console_grant, set(2))), vfs.Invalid)
	}
	for after, want := range map[string]vfs.Code{"x": vfs.Invalid, "g7": vfs.NotFound} {
		is(t, "usage after "+after, wire.Decode(vat.Do(t.Context(), boot, schema.Console_usage, func(p schema.Console_usage_Params, _ *vat.Caps) error {
			return p.SetAfter(after)
		}, nil)), want)
	}
}

func dialed(t *testing.T) *console.Console {
	t.Helper()
	con := console.New(serve(t, nil)())
	t.Cleanup(func() { con.Close() })
	return con
}
