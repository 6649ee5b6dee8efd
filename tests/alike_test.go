//go:build linux

package tests

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	schema "capd/capnp"
	"capd/host"
	"capd/operator"
	"capd/tests/scene"
	"capd/vat"
)

// TestAlike asks the same questions about the same tree in every kind of store. It
// compares each answer, with its words, with that of memory. These differences are
// allowed:
//
//	the time of a node     is the store's own, and not compared
//	a change of a store    is answered as memory answers it of a capability that does not
//	that never changes     write: readOnly
//	how much there is      is the host's to say, and not asked: nothing comes near the
//	room for               bounds of any store
//
// and those in known. A CAS over gRPC is tested against the contract of all stores in its
// own package, which has a server.
func TestAlike(t *testing.T) {
	t.Parallel()
	want := map[bool][]chapter{}
	for _, readOnly := range []bool{false, true} {
		want[readOnly] = interview(t, alikeStores["memory"], readOnly)
		answers, errors := 0, 0
		for _, c := range want[readOnly] {
			for _, e := range c.exchanges {
				answers++
				if strings.HasPrefix(e.answer, "exception ") {
					errors++
				}
			}
		}
		t.Logf("read only %v: %d questions, %d errors", readOnly, answers, errors)
		if errors*4 < answers || errors*4 > answers*3 {
			t.Errorf("hardly anything succeeded, or failed")
		}
	}
	var compared atomic.Int32
	t.Cleanup(func() {
		for i := range known {
			if k := &known[i]; int(compared.Load()) == len(alikeStores) && !k.seen.Load() {
				t.Errorf("no longer a difference, to be taken out of known: %s", k.why)
			}
		}
	})
	for _, name := range slices.Sorted(maps.Keys(alikeStores)) {
		s := alikeStores[name]
		if (raceBuilt || !thorough) && (strings.HasPrefix(name, "mounted ") || strings.Contains(name, " half ")) {
			continue // the stores it consists of are asked, too
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := interview(t, s, false)
			for _, c := range want[s.immutable] {
				if i := slices.IndexFunc(got, func(g chapter) bool { return g.name == c.name }); i >= 0 {
					compare(t, name, got[i], c)
				}
			}
			compared.Add(1)
		})
	}
}

// chapter is a group of questions.
type chapter struct {
	name      string
	exchanges []exchange
}

// interview asks a store everything and returns the exchanges.
func interview(t testing.TB, s alikeStore, readOnly bool) (all []chapter) {
	t.Helper()
	tree := s.make(t, alikeTree)
	var logs syncBuffer
	logf := func(format string, args ...any) { fmt.Fprintf(&logs, format+"\n", args...) }
	h := scene.Serve(t, tree.dir, scene.Options{Options: host.Options{Logf: logf}})
	at, _ := h.GrantOn(t, "guest", tree.path, operator.Terms{ReadOnly: readOnly, Links: true})
	a := newAsker(t, at.Socket, at.Secret[:])
	for _, part := range []struct {
		name  string
		ask   func(*asker)
		moves bool // it moves what may be a mount point
	}{
		{"look", look, false}, {"hand on", handOn, false}, {"change files", changeFile, false}, {"stage", changeStaged, false}, {"change names", changeNames, false},
		{"change what is open", changeOpen, false}, {"move", changeMoves, true}, {"go deep", changeDeep, true}, {"change paths", changeAt, true}, {"wonder", wonder, true},
	} {
		if part.moves && s.composed {
			continue
		}
		a.heard = nil
		part.ask(a)
		a.tree("all", a.root)
		a.drop()
		all = append(all, chapter{part.name, a.heard})
	}
	if !s.composed { // only a host with a record has a history
		h := scene.Serve(t, s.make(t, alikeTree).dir, scene.Options{Record: true, Options: host.Options{Logf: logf}})
		at, _ := h.GrantOn(t, "guest", tree.path, operator.Terms{ReadOnly: readOnly, Links: true})
		with := newAsker(t, at.Socket, at.Secret[:])
		undoes(with)
		with.drop()
		maps.Copy(a.asked, with.asked)
		all = append(all, chapter{"undo", with.heard})
	}
	all = append(all, chapter{"log", []exchange{{"what the host logs", logs.String()}}})
	for _, name := range strings.Fields("Session Dir File Writer Revoker") {
		i := slices.IndexFunc(schema.Interfaces, func(i vat.InterfaceInfo) bool { return i.Name == name })
		for _, m := range schema.Interfaces[i].Methods {
			if !a.asked[name+"."+m] && !s.composed {
				t.Errorf("%s.%s was not asked", name, m)
			}
		}
	}
	return all
}

// compare reports where a guest of a store got another answer.
func compare(t *testing.T, store string, got, want chapter) {
	t.Helper()
	const most = 10
	differ := 0
	for i := range max(len(got.exchanges), len(want.exchanges)) {
		if i >= len(got.exchanges) || i >= len(want.exchanges) || got.exchanges[i].question != want.exchanges[i].question {
			t.Errorf("%s: the questions part at number %d, since a listing differed", want.name, i)
			break
		}
		g, w := got.exchanges[i], want.exchanges[i]
		if g.answer == w.answer || isKnown(store, g, w) {
			continue
		}
		if differ++; differ <= most {
			is, was := whereTheyDiffer(g.answer, w.answer)
			t.Errorf("%s: %s\n  answers %s\n  memory  %s", want.name, g.question, is, was)
		}
	}
	if differ > most {
		t.Errorf("%s: %d answers differ", want.name, differ)
	}
}

// whereTheyDiffer returns the first lines that differ.
func whereTheyDiffer(got, want string) (string, string) {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return g[i], w[i]
		}
	}
	return fmt.Sprintf("%d lines", len(g)), fmt.Sprintf("%d lines", len(w))
}
