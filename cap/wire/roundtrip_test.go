package wire_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/meter"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/membrane"
)

// A codec translates one type in both directions.
type codec struct {
	values []any                                // what comes back as it is
	write  func(v any) ([]byte, error)          // as a message
	read   func(from capnp.Struct) (any, error) // what a peer sent
}

func of[T any, W ~capnp.StructKind](root func(*capnp.Segment) (W, error), set func(W, T) error, read func(W) (T, error), values ...T) codec {
	c := codec{
		write: func(v any) ([]byte, error) {
			m, seg := capnp.NewSingleSegmentMessage(nil)
			w, err := root(seg)
			if err == nil {
				err = set(w, v.(T))
			}
			if err != nil {
				return nil, err
			}
			return m.Marshal()
		},
		read: func(from capnp.Struct) (any, error) { return read(W(from)) },
	}
	for _, v := range values {
		c.values = append(c.values, v)
	}
	return c
}

// params and results allocate the parameters and the results of a method.
func params[P, R ~capnp.StructKind](m vat.Method[P, R]) func(*capnp.Segment) (P, error) {
	return func(seg *capnp.Segment) (P, error) {
		s, err := capnp.NewRootStruct(seg, m.Params)
		return P(s), err
	}
}

func results[P, R ~capnp.StructKind](m vat.Method[P, R]) func(*capnp.Segment) (R, error) {
	return func(seg *capnp.Segment) (R, error) {
		s, err := capnp.NewRootStruct(seg, m.Results)
		return R(s), err
	}
}

// again writes v and reads it.
func (c codec) again(v any) (any, error) {
	b, err := c.write(v)
	if err != nil {
		return nil, err
	}
	from, err := structIn(b)
	if err != nil {
		return nil, err
	}
	return c.read(from)
}

// structIn returns the struct at the root of a message.
func structIn(b []byte) (capnp.Struct, error) {
	m, err := capnp.Unmarshal(b)
	if err != nil {
		return capnp.Struct{}, err
	}
	root, err := m.Root()
	return root.Struct(), err
}

var (
	one  = vfs.Version{1, 2, 3}
	file = diff.State{Kind: vfs.FileKind, Version: one, Exec: true}
	link = diff.State{Kind: vfs.LinkKind, Target: "to\xff"}
)

// codecs has every value of the operator that goes over the wire, and every value that
// guests send with their calls.
var codecs = map[string]codec{
	"grant": of(schema.NewRootGrant, wire.SetGrant, wire.Grant,
		operator.Grant{Guest: "g/1", Subject: "agent-run:g", ID: "g1", Path: "a/b", Root: "r", Source: "serve", Mode: operator.ReadOnly, State: operator.Revoked, Parent: "g0", Rights: membrane.Read | membrane.Metadata, ExpiresMs: 1, UnusedMs: 2, UsesLeft: 3},
		operator.Grant{Mode: operator.ReadWrite, State: operator.Active}, operator.Grant{Mode: operator.ReadWrite, State: operator.Locked}),
	"root": of(schema.NewRootRoot, wire.SetRoot, wire.Root,
		operator.Root{ID: "r", Kind: operator.Temp, Path: "a/b", Name: "The root", Labels: []string{"x", "y z"}}, operator.Root{Access: operator.AccessRO, Scope: operator.SharedScope}, operator.Root{}),
	"ask": of(schema.NewRootAsk, wire.SetAsk, wire.AskOf,
		operator.Ask{
			ID: "a", Guest: "g", Grant: "g1", Operation: "rename", Path: "p", To: "t", Why: []string{"w"}, Size: 1, Diff: "d", Asked: time.UnixMilli(1), Root: "r", Access: membrane.Read | membrane.Write,
			Words: "x", Given: membrane.Read, Answer: operator.Deny, Reason: "no", By: "b", Decided: time.UnixMilli(2), Used: true,
		}, operator.Ask{}),
	"invite": of(schema.NewRootInvite, wire.SetInvite, wire.Invite, operator.Invite{
		ID: "i1", Subject: "person:a", Permissions: []operator.Permission{{Kind: operator.Temp, Rights: membrane.List}}, Source: operator.ByCore, MadeBy: operator.ByConfig, State: operator.Expired, MadeMs: 1, ExpiresMs: 2,
	}),
	"offer": of(schema.NewRootOffer, wire.SetOffer, wire.Offer,
		operator.Offer{ID: "r", Kind: operator.Temp, Name: "The root", Labels: []string{"x"}, Rights: membrane.AllRights, Granted: membrane.Read}, operator.Offer{}),
	"rule": of(schema.NewRootRule, wire.SetRule, wire.Rule,
		operator.PolicyRule{ID: "5f0c2a91", Rule: operator.Rule{
			Effect: operator.RuleAsk, Subject: "person:*", Root: operator.RuleRoot{Kind: operator.Temp}, Operations: []string{"read"}, Patterns: []string{"**/<a>"}, Except: []string{"b"},
			Symlinks: operator.SymlinksInRoot, Hardlinks: operator.HardlinksReject, MaxFileBytes: 7, Audit: operator.AuditReads, Source: "capd.yaml:3:5",
		}},
		operator.PolicyRule{Rule: operator.Rule{Effect: operator.RuleDeny, Root: operator.RuleRoot{ID: "r"}, Patterns: []string{}}}),
	"policy": of(schema.NewRootPolicyVersion, wire.SetPolicyVersion, wire.PolicyVersion,
		operator.PolicyVersion{Hash: "abc", Since: time.UnixMilli(1), Rules: []operator.Rule{{Effect: operator.RuleAllow, Patterns: []string{"a"}, Source: "set"}}}),
	"hook": of(schema.NewRootHookState, wire.SetHookState, wire.HookState,
		operator.HookState{
			Hook: operator.Hook{
				Name: "lint", Command: []string{"/bin/lint", "-x"}, Operations: []string{"write"}, Patterns: []string{"**/<a>"}, Subject: "extension:lint",
				Before: true, After: true, Observe: true, Source: operator.ConsoleSource,
			},
			Gone: true, Behind: 7, Failing: "ended with 1",
		}, operator.HookState{}),
	"hooked": of(schema.NewRootHookedChange, wire.SetHookedChange, wire.HookedChange,
		operator.HookedChange{Operation: "rename", Path: "a\xff", To: "b", Root: "r", Subject: "person:ada", Grant: "g1"}, operator.HookedChange{}),
	"outcome": of(schema.NewRootHook_Outcome, wire.SetHookOutcome, wire.HookOutcome,
		operator.HookOutcome{ID: "c7", Result: "failed", Code: "conflict", AtMs: 1}, operator.HookOutcome{}),
	"limits": of(params(schema.Console_grant), func(p schema.Console_grant_Params, l meter.Limits) error { return wire.SetLimits(l, p.NewLimits) },
		func(p schema.Console_grant_Params) (meter.Limits, error) { return wire.Limits(p.Limits()) }, everyLimit(), meter.Limits{}),
	"usage": of(schema.NewRootGrantUsage, wire.SetGrantUsage, wire.GrantUsage, operator.GrantUsage{
		Grant: operator.Grant{ID: "g1", Mode: operator.ReadWrite, State: operator.Active},
		Usage: operator.Usage{
			Uses:  []meter.Use{{Kind: meter.Nodes, Used: 1, Limit: 2, Share: 3, Refused: 4, Peak: 5}, {Kind: meter.Waits, Limit: meter.NoLimit}},
			Turns: []meter.Turns{{Lane: meter.Heavy, Given: 1, Spent: 2 * time.Millisecond, Waiting: 3, Longest: time.Hour}},
		},
	}),
	"status": of(schema.NewRootStatus, wire.SetStatus, wire.Status, operator.Status{
		Process: operator.Process{Connections: -1, Descriptors: 7}, Version: "v", Uptime: time.Second, Grants: 1, OpenNodes: 2,
		Streams: 3, Goroutines: 4, Threads: 5, HeapBytes: 6, MemoryBytes: math.MaxUint64, Unrecorded: true,
	}),
	"attenuation": of(schema.NewRootAttenuation, wire.SetAttenuation, wire.Attenuation, attenuations...),
	"mount": of(schema.NewRootMount, wire.SetMount, wire.Mount,
		operator.Mount{Path: "p", URL: "overlay:physical:/x", Kind: "overlay", Detail: "d", Changes: true, Kept: true, Attenuation: attenuations[0]}, operator.Mount{}),
	"commit": of(schema.NewRootCommit, wire.SetCommit, wire.Commit,
		operator.Commit{Message: "Fix\n\nit", Author: "A", Email: "a@example.org", Ref: "main", Old: "0123", If: operator.Review{1, 2}}, operator.Commit{}),
	"snapshot": of(schema.NewRootSnapshot, wire.SetSnapshot, wire.Snapshot,
		operator.Snapshot{Digest: strings.Repeat("ab", 32), Size: 1, Files: 2, Bytes: math.MaxInt64, New: 4}),
	"bounds": of(schema.NewRootBounds, func(w schema.Bounds, b operator.Bounds) error { wire.SetBounds(w, b); return nil }, wire.Bounds,
		operator.Bounds{Entries: math.MaxInt64, Bytes: 1}),
	"review": of(results(schema.VirtualFs_diff), func(r schema.VirtualFs_diff_Results, v operator.Review) error { return wire.SetReview(v, r.SetReview) },
		func(r schema.VirtualFs_diff_Results) (operator.Review, error) { return wire.Review(r.Review()) }, operator.Review{1, 31: 2}, operator.Review{}),
	"change": of(schema.NewRootChange, wire.SetChange, wire.Change,
		diff.Change{Path: "p", Kind: diff.Added, Is: file, Text: "+a\n", Lacks: "the end"},
		diff.Change{Path: "raw\xff", From: "from\xfe", Kind: diff.Renamed, Was: diff.State{Kind: vfs.DirKind}, Is: diff.State{Kind: vfs.DirKind}},
		diff.Change{Kind: diff.Removed, Was: link}, diff.Change{Kind: diff.Modified, Was: file, Is: link},
		diff.Change{Kind: diff.Mode, Is: diff.State{Kind: vfs.FileKind}}, diff.Change{Kind: diff.Type, Is: diff.State{Kind: diff.Foreign}}),
	"skipped": of(schema.NewRootSkipped, wire.SetSkipped, wire.Skipped, diff.Skipped{Path: "fifo\xff", Why: "a FIFO"}, diff.Skipped{Path: "a"}),
	"conflict": of(schema.NewRootConflict, wire.SetConflict, wire.Conflict,
		diff.Conflict{Path: "\xff", Was: file, Becomes: link, Is: diff.State{Kind: diff.Foreign}, Why: "it was changed"}),
	"texts": of(params(schema.VirtualFs_revert), func(p schema.VirtualFs_revert_Params, all []string) error { return wire.SetTexts(all, p.NewPaths) },
		func(p schema.VirtualFs_revert_Params) ([]string, error) { return wire.Texts(p.Paths()) }, []string{"a", "b"}, nil),
	"list": of(results(schema.VirtualFs_mounts), func(r schema.VirtualFs_mounts_Results, all []operator.Mount) error {
		return wire.SetAll(all, r.NewMounts, wire.SetMount)
	}, func(r schema.VirtualFs_mounts_Results) ([]operator.Mount, error) {
		return wire.All(wire.Mount)(r.Mounts())
	},
		[]operator.Mount{{Path: "a"}, {Path: "b"}}, nil),
	"name": of(schema.NewRootStat, wire.SetName, wire.Name, "a", "", "\xff", "a\nb"),
	"info": of(schema.NewRootStat, func(s schema.Stat, i vfs.Info) error { wire.SetInfo(s, i); return nil }, wire.Info,
		vfs.Info{Kind: vfs.FileKind, Size: math.MaxInt64, ModifiedMs: -1, Exec: true}, vfs.Info{Kind: vfs.DirKind}, vfs.Info{Kind: vfs.LinkKind}, vfs.Info{}),
	"condition": of(params(schema.File_stage), func(p schema.File_stage_Params, c vfs.If) error { return wire.SetIf(c, p.NewIfVersion) },
		func(p schema.File_stage_Params) (vfs.If, error) { return wire.If(p) }, vfs.If{}, vfs.If{Absent: true}, vfs.If{Is: one}),
}

var attenuations = []operator.Attenuation{
	{ReadOnly: true, NoLinks: true, Deny: []string{"**/.env", "x"}, Ask: []string{}, Bytes: math.MaxInt64, Nodes: 7},
	{Deny: []string{}, Ask: []string{"a"}}, {},
}

func everyLimit() meter.Limits {
	l := meter.Limits{}
	for k := range meter.Kinds {
		l[k] = int64(k) + 1
	}
	l[meter.Waits] = meter.NoLimit
	return l
}

// A value that is written and read is the same.
func TestBothDirections(t *testing.T) {
	for name, c := range codecs {
		for _, v := range c.values {
			if got, err := c.again(v); err != nil || !reflect.DeepEqual(got, v) {
				t.Errorf("%s: %#v, %v\nwant %#v", name, got, err, v)
			}
		}
	}
}

// A condition that the wire does not have is refused, and not left out.
func TestNoFileIsRefused(t *testing.T) {
	err := wire.SetIf(vfs.If{NoFile: true}, func() (schema.IfVersion, error) { panic("written") })
	if vfs.CodeOf(err) != vfs.Unsupported {
		t.Errorf("%v, want %v", err, vfs.Unsupported)
	}
}

// Every field is something in an example, so that one that is not translated is found.
func TestExamplesHaveEveryField(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range codecs {
		for _, v := range c.values {
			look(reflect.ValueOf(v), seen)
		}
	}
	for field, set := range seen {
		switch {
		case set:
		case field == "operator.Attenuation.Guards", field == "diff.Change.Content", field == "diff.Change.Old", field == "vfs.If.NoFile", field == "vfs.If.Over", field == "vfs.Info.Links": // of Go alone
		default:
			t.Errorf("%s is zero in every example", field)
		}
	}
	if len(seen) < 70 {
		t.Errorf("only %d fields were looked at", len(seen))
	}
}

// look notes for each field in v whether it is something.
func look(v reflect.Value, seen map[string]bool) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().String() + "." + v.Type().Field(i).Name
			seen[field] = seen[field] || !v.Field(i).IsZero()
			look(v.Field(i), seen)
		}
	case reflect.Slice:
		for i := range v.Len() {
			look(v.Index(i), seen)
		}
	}
}

// Whatever a peer sends is refused, or read as a value that is the same after it was sent
// and read again.
func FuzzBothDirections(f *testing.F) {
	for _, c := range codecs {
		for _, v := range c.values {
			b, err := c.write(v)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		from, err := structIn(b)
		if err != nil {
			return
		}
		for name, c := range codecs {
			v, err := c.read(from)
			if err != nil {
				continue
			}
			first, err := c.again(v)
			if err != nil {
				t.Fatalf("%s: %#v was read and cannot be written: %v", name, v, err)
			}
			if second, err := c.again(first); err != nil || !reflect.DeepEqual(first, second) {
				t.Fatalf("%s: %#v, %v\nwant %#v", name, second, err, first)
			}
		}
	})
}

// A number of milliseconds from a host never becomes a negative duration.
func TestLongUptime(t *testing.T) {
	_, seg := capnp.NewSingleSegmentMessage(nil)
	w, err := schema.NewRootStatus(seg)
	if err != nil {
		t.Fatal(err)
	}
	for _, ms := range []uint64{math.MaxInt64, math.MaxUint64} {
		w.SetUptimeMs(ms)
		if s, err := wire.Status(w); err != nil || s.Uptime < 290*365*24*time.Hour {
			t.Errorf("%d ms are %v, %v", ms, s.Uptime, err)
		}
	}
}
