package membrane_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// narrowed is what an operation is tried on: nodes with some rights, and one more
// directory for the target of a move.
type narrowed struct {
	check.Held
	dst vfs.Dir
}

// operation is one operation and the rights that it needs.
type operation struct {
	name       string
	kind       membrane.OpKind
	at, target membrane.Rights
	do         func(ctx context.Context, h narrowed) error
}

// is holds for the file f.
var is = vfs.If{Is: vfs.Version(sha256.Sum256([]byte("content")))}

var operations = []operation{
	{"stat", membrane.OpStat, membrane.Metadata, 0, func(ctx context.Context, h narrowed) error { _, err := h.Dir.Stat(ctx); return err }},
	{"stat a file", membrane.OpStat, membrane.Metadata, 0, func(ctx context.Context, h narrowed) error { _, err := h.File.Stat(ctx); return err }},
	{"stat a link", membrane.OpStat, membrane.Metadata, 0, func(ctx context.Context, h narrowed) error { _, err := h.Link.Stat(ctx); return err }},
	{"lookup", membrane.OpLookup, 0, 0, func(ctx context.Context, h narrowed) error { return look(ctx, h.Dir, "a") }},
	{"walk", membrane.OpLookup, 0, 0, func(ctx context.Context, h narrowed) error { return look(ctx, h.Dir, "a/b/f") }},
	{"walk by a link", membrane.OpLookup, 0, 0, func(ctx context.Context, h narrowed) error { return look(ctx, h.Dir, "l") }},
	{"list", membrane.OpList, membrane.List, 0, func(ctx context.Context, h narrowed) error { _, err := check.Names(ctx, h.Dir); return err }},
	{"archive", membrane.OpArchive, membrane.Archive | membrane.List | membrane.Read | membrane.Metadata, 0, func(_ context.Context, h narrowed) error {
		return membrane.May(h.Dir, membrane.To(membrane.OpArchive)) // each name is listed and read besides
	}},
	{"watch", membrane.OpWatch, membrane.Watch, 0, func(ctx context.Context, h narrowed) error {
		_, err := vfs.Changes(ctx, h.Dir, vfs.ChangesQuery{})
		if vfs.CodeOf(err) == vfs.Unsupported { // the rights came first
			return nil
		}
		return err
	}},
	{"any", membrane.OpList, membrane.List, 0, func(ctx context.Context, h narrowed) error {
		_, err := vfs.Any(ctx, h.Dir, func(vfs.Entry) bool { return true })
		return err
	}},
	{"scan", membrane.OpList, membrane.List, 0, func(ctx context.Context, h narrowed) error {
		err := vfs.Scan(ctx, h.Dir, []string{"a"}, 9, func(string, []vfs.Entry, bool) {})
		if vfs.CodeOf(err) == vfs.Unsupported { // the rights came first
			return nil
		}
		return err
	}},
	{"read", membrane.OpRead, membrane.Read, 0, func(ctx context.Context, h narrowed) error {
		_, err := h.File.ReadAt(ctx, make([]byte, 1), 0)
		return err
	}},
	{"open", membrane.OpRead, membrane.Read, 0, func(ctx context.Context, h narrowed) error {
		c, err := vfs.Open(ctx, h.File)
		if err == nil {
			c.Close()
		}
		return err
	}},
	{"version", membrane.OpRead, membrane.Read, 0, func(ctx context.Context, h narrowed) error { _, err := vfs.VersionOf(ctx, h.File); return err }},
	{"target", membrane.OpTarget, 0, 0, func(ctx context.Context, h narrowed) error { _, err := h.Link.Target(ctx); return err }},
	{"create", membrane.OpCreate, membrane.Write, 0, func(ctx context.Context, h narrowed) error { return closed(h.Dir.Create(ctx, "new")) }},
	{"mkdir", membrane.OpMkdir, membrane.Write, 0, func(ctx context.Context, h narrowed) error { return closed(h.Dir.Mkdir(ctx, "new")) }},
	{"stage a directory", membrane.OpMkdir, membrane.Write, 0, func(ctx context.Context, h narrowed) error {
		s, err := vfs.StageDir(ctx, h.Dir, "new")
		if err != nil {
			return err
		}
		defer s.Close()
		return s.Place(ctx)
	}},
	{"replace", membrane.OpReplace, membrane.Write, 0, func(ctx context.Context, h narrowed) error { return check.Put(ctx, h.Dir, "f", "x") }},
	{"replace by a link", membrane.OpReplace, membrane.Write, 0, func(ctx context.Context, h narrowed) error { return check.Put(ctx, h.Dir, "l", "x") }},
	{"replace a file", membrane.OpReplace, membrane.Write, 0, func(ctx context.Context, h narrowed) error {
		_, err := h.File.Replace(ctx, strings.NewReader("x"), vfs.If{})
		return err
	}},
	{"replace on a version", membrane.OpReplace, membrane.Write | membrane.Read, 0, func(ctx context.Context, h narrowed) error {
		_, err := h.Dir.Replace(ctx, "f", strings.NewReader("x"), is)
		return err
	}},
	{"install", membrane.OpReplace, membrane.Write, 0, func(ctx context.Context, h narrowed) error {
		_, err := vfs.Install(ctx, h.Dir, "f", strings.NewReader("x"), true, vfs.If{})
		return err
	}},
	{"remove", membrane.OpRemove, membrane.Delete, 0, func(ctx context.Context, h narrowed) error { return h.Dir.Remove(ctx, "f", vfs.If{}) }},
	{"remove a directory", membrane.OpRemove, membrane.Delete, 0, func(ctx context.Context, h narrowed) error { return h.Dir.Remove(ctx, "z", vfs.If{}) }},
	{"remove a version", membrane.OpRemove, membrane.Delete | membrane.Read, 0, func(ctx context.Context, h narrowed) error { return h.Dir.Remove(ctx, "f", is) }},
	{"rename", membrane.OpRename, membrane.Move | membrane.Read, membrane.Move | membrane.Write, func(ctx context.Context, h narrowed) error {
		return h.Dir.Rename(ctx, "f", h.dst, "new", vfs.If{}, vfs.If{})
	}},
	{"rename a directory", membrane.OpRename, membrane.Move | membrane.Read, membrane.Move | membrane.Write, func(ctx context.Context, h narrowed) error {
		return h.Dir.Rename(ctx, "z", h.dst, "new", vfs.If{}, vfs.If{})
	}},
	{"rename onto a version", membrane.OpRename, membrane.Move | membrane.Read, membrane.Move | membrane.Write | membrane.Read, func(ctx context.Context, h narrowed) error {
		return h.Dir.Rename(ctx, "f", h.dst, "f", vfs.If{}, vfs.If{Is: vfs.Version(sha256.Sum256([]byte("below")))})
	}},
	{"rename over a file", membrane.OpRename, membrane.Move | membrane.Read, membrane.Move | membrane.Write | membrane.Delete, func(ctx context.Context, h narrowed) error {
		return h.Dir.Rename(ctx, "f", h.dst, "f", vfs.If{}, vfs.If{Over: true})
	}},
	{"rename over nothing", membrane.OpRename, membrane.Move | membrane.Read, membrane.Move | membrane.Write | membrane.Delete, func(ctx context.Context, h narrowed) error {
		return h.Dir.Rename(ctx, "f", h.dst, "new", vfs.If{}, vfs.If{Over: true})
	}},
	{"write", membrane.OpWrite, membrane.Write, 0, func(ctx context.Context, h narrowed) error {
		_, err := h.File.WriteAt(ctx, []byte("x"), 0, vfs.If{})
		return err
	}},
	{"write on a version", membrane.OpWrite, membrane.Write | membrane.Read, 0, func(ctx context.Context, h narrowed) error {
		_, err := h.File.WriteAt(ctx, []byte("x"), 0, is)
		return err
	}},
	{"truncate", membrane.OpTruncate, membrane.Write, 0, func(ctx context.Context, h narrowed) error { return h.File.Truncate(ctx, 1, vfs.If{}) }},
	{"append", membrane.OpAppend, membrane.Write, 0, func(ctx context.Context, h narrowed) error {
		_, err := vfs.Append(ctx, h.File, []byte("x"), vfs.If{})
		return err
	}},
	{"set attributes", membrane.OpAttributes, membrane.Write | membrane.Metadata, 0, func(ctx context.Context, h narrowed) error {
		return vfs.SetAttributes(ctx, h.File, vfs.Attributes{Exec: new(true)}, vfs.If{})
	}},
	{"set attributes on a version", membrane.OpAttributes, membrane.Write | membrane.Metadata | membrane.Read, 0, func(ctx context.Context, h narrowed) error {
		return vfs.SetAttributes(ctx, h.File, vfs.Attributes{Exec: new(true)}, is)
	}},
	{"change together", membrane.OpChange, membrane.Read | membrane.Write, 0, func(ctx context.Context, h narrowed) error {
		ops := []membrane.Op{{Kind: membrane.OpReplace, Path: "f"}, {Kind: membrane.OpRead, Path: "f"}} // the parts have needs of their own
		wide, end, err := membrane.Widened(ctx, h.Dir, ops)
		if err != nil {
			return err
		}
		defer end()
		return membrane.Together(ctx, wide, ops[:1], nil, func(ctx context.Context) error { return check.Put(ctx, wide, "f", "x") })
	}},
	{"copy", membrane.OpCopy, membrane.Read, membrane.Write, func(ctx context.Context, h narrowed) error {
		return membrane.Copying(ctx, h.Dir, "f", h.dst, "new", vfs.If{}, vfs.FileKind, func(src, dst vfs.Dir) error {
			if _, err := check.Names(ctx, src); err != nil { // copying takes it, whoever copies need not have it
				return err
			}
			return check.Put(ctx, dst, "new", "x")
		})
	}},
	{"copy over", membrane.OpCopy, membrane.Read, membrane.Write | membrane.Delete, func(ctx context.Context, h narrowed) error {
		return membrane.Copying(ctx, h.Dir, "f", h.dst, "new", vfs.If{Over: true}, vfs.FileKind, func(src, dst vfs.Dir) error { return nil })
	}},
	{"symlink", membrane.OpSymlink, membrane.Write, 0, func(ctx context.Context, h narrowed) error { return vfs.Symlink(ctx, h.Dir, "new", "f") }},
	{"make a link", membrane.OpSymlink, membrane.Write | membrane.Link, 0, func(ctx context.Context, h narrowed) error {
		return membrane.MakeLink(ctx, h.Dir, h.Dir, "new", "f")
	}},
}

func look(ctx context.Context, d vfs.Dir, path string) error { return closed(vfs.Walk(ctx, d, path)) }

func closed[N vfs.Node](n N, err error) error {
	if err == nil {
		n.Close()
	}
	return err
}

// narrow returns d with the rights keep.
func narrow[N vfs.Node](t testing.TB, n N, keep membrane.Rights) N {
	t.Helper()
	kept, err := membrane.Narrow(n, keep)
	check.OK(t, err)
	return kept.(N)
}

// holdNarrowed returns fresh nodes with the rights at, and a target with the rights target.
func holdNarrowed(t testing.TB, at, target membrane.Rights) narrowed {
	t.Helper()
	d, _, _ := check.Guarded(t, check.Sample)
	h := narrowed{Held: check.Held{Dir: narrow(t, d, at)}, dst: narrow(t, check.DirAt(t, d, "a"), target)}
	h.File = check.FileAt(t, h.Dir, "f")
	n, err := h.Dir.Lookup(t.Context(), "l")
	check.OK(t, err)
	h.Link = n.(vfs.Link)
	return h
}

// lack returns what an operation answers for which the rights in lacks are missing.
func lack(lacks membrane.Rights) vfs.Code {
	switch {
	case lacks == 0:
		return ""
	case lacks&^membrane.ChangeRights != 0:
		return vfs.Denied
	}
	return vfs.ReadOnly
}

// TestNeeds: every operation is refused without one of the rights that it needs, and needs
// no other.
func TestNeeds(t *testing.T) {
	seen := map[membrane.OpKind]bool{membrane.OpSync: true}
	for _, o := range operations {
		seen[o.kind] = true
		if at, target := membrane.NeedsOf(o.kind); o.at&^at&^(membrane.Read|membrane.Link) != 0 || o.target&^target&^(membrane.Read|membrane.Delete) != 0 {
			t.Errorf("%s: the table says %v and %v, want %v and %v", o.name, at, target, o.at, o.target)
		}
		check.Is(t, o.name+" with nothing else", o.do(t.Context(), holdNarrowed(t, o.at, o.target)), "")
		for r := membrane.Read; r <= membrane.Link; r <<= 1 {
			check.Is(t, fmt.Sprintf("%s without %v", o.name, r), o.do(t.Context(), holdNarrowed(t, membrane.EveryRight&^r, membrane.EveryRight)), lack(r&o.at))
			check.Is(t, fmt.Sprintf("%s without %v at the target", o.name, r), o.do(t.Context(), holdNarrowed(t, membrane.EveryRight, membrane.EveryRight&^r)), lack(r&o.target))
		}
	}
	for k := range membrane.Ops {
		if !seen[k] {
			t.Errorf("%v was not tried", k)
		}
	}
	for keep := range membrane.EveryRight { // either of two is enough
		want := vfs.Denied
		if keep&(membrane.Read|membrane.Write) != 0 {
			want = ""
		}
		check.Is(t, "sync with "+keep.String(), holdNarrowed(t, keep, 0).File.Sync(t.Context()), want)
	}
}

// TestOrderOfLacks: with two rights missing, denied comes before readOnly.
func TestOrderOfLacks(t *testing.T) {
	for _, o := range operations {
		for r := membrane.Read; r <= membrane.Link; r <<= 1 {
			for s := r << 1; s <= membrane.Link; s <<= 1 {
				what := fmt.Sprintf("%s without %v", o.name, r|s)
				check.Is(t, what, o.do(t.Context(), holdNarrowed(t, membrane.EveryRight&^(r|s), membrane.EveryRight)), lack((r|s)&o.at))
				got := o.do(t.Context(), holdNarrowed(t, membrane.EveryRight&^r, membrane.EveryRight&^s))
				check.Is(t, what+", of which the second at the target", got, lack(r&o.at|s&o.target))
			}
		}
	}
}

// TestNarrowOnlyNarrows: however a capability is derived, it has the rights that all above it
// have kept.
func TestNarrowOnlyNarrows(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		d, _, _ := check.Guarded(t, check.Sample)
		var n vfs.Node = d
		want, chain := membrane.EveryRight, ""
		for range rnd.IntN(8) {
			before := n
			switch rnd.IntN(5) {
			case 0, 1:
				keep := membrane.Rights(rnd.Uint32())
				n, want, chain = narrow(t, n, keep), want&keep, chain+" narrow("+keep.String()+")"
			case 2:
				got, c, err := membrane.Revocable(n, membrane.MeterOf(n))
				check.OK(t, err)
				check.OK(t, c.SetWritable(true))
				c.SetReadable(true)
				n, chain = got, chain+" revocable"
			case 3:
				got, err := vfs.Dup(n)
				check.OK(t, err)
				n, chain = got, chain+" dup"
			case 4:
				if d, ok := n.(vfs.Dir); ok {
					path := []string{"a", "f", "a/b"}[rnd.IntN(3)]
					if got, err := vfs.Walk(t.Context(), d, path); err == nil {
						n, chain = got, chain+" "+path
					}
				}
			}
			if n != before && rnd.IntN(2) == 0 {
				before.Close()
			}
		}
		if got, err := membrane.RightsOf(n); err != nil || got != want {
			t.Fatalf("%s has %v (%v), want %v", chain, got, err, want)
		}
		if place, _ := membrane.PlaceOf(n); place.Rights != want {
			t.Fatalf("%s was left %v, want %v", chain, place.Rights, want)
		}
	}
}

// TestLocksAreNotForGood: a lock takes rights for as long as it lasts, and gives back no
// others.
func TestLocksAreNotForGood(t *testing.T) {
	const keep = membrane.Read | membrane.List | membrane.Write | membrane.Archive
	d, c, _ := check.Guarded(t, check.Sample)
	d = narrow(t, d, keep)
	has := func(what string, want membrane.Rights) {
		t.Helper()
		if got, err := membrane.RightsOf(d); err != nil || got != want {
			t.Errorf("%s: %v (%v), want %v", what, got, err, want)
		}
	}
	check.OK(t, c.SetWritable(false))
	has("locked", keep&^membrane.ChangeRights)
	c.SetReadable(false)
	has("unreadable too", membrane.Archive)
	check.Is(t, "a lookup", look(t.Context(), d, "a"), vfs.Denied)
	check.OK(t, c.SetWritable(true))
	c.SetReadable(true)
	has("unlocked", keep)
	check.OK(t, c.Revoke())
	_, err := membrane.RightsOf(d)
	check.Is(t, "revoked", err, vfs.Revoked)
}

// TestLackAllocatesNothing: a guest that tries what it may not makes no garbage.
func TestLackAllocatesNothing(t *testing.T) {
	h := holdNarrowed(t, membrane.List, 0)
	ctx, p := t.Context(), make([]byte, 1)
	if n := testing.AllocsPerRun(100, func() { _, _ = h.File.ReadAt(ctx, p, 0) }); n > 0 {
		t.Errorf("a refused read makes %v allocations", n)
	}
}

func TestParseRights(t *testing.T) {
	for r := range membrane.EveryRight + 1 {
		if got, err := membrane.ParseRights(r.String()); err != nil || got != r {
			t.Errorf("%v is read as %v (%v)", r, got, err)
		}
	}
	for text, want := range map[string]membrane.Rights{"all": membrane.AllRights, "all,link": membrane.EveryRight, "list,read": membrane.List | membrane.Read, "read,read": membrane.Read} {
		if got, err := membrane.ParseRights(text); err != nil || got != want {
			t.Errorf("%s is read as %v (%v)", text, got, err)
		}
	}
	for _, text := range []string{"", "read,", "Read", "read list", "execute", "all,read", strings.Repeat("x", 1<<16)} {
		_, err := membrane.ParseRights(text)
		check.Is(t, "parse", err, vfs.Invalid)
	}
}
