package hook_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"capd/database"
	"capd/hook"
	"capd/operator"
	"capd/record"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// put is a change of a guest's.
var put = operator.HookedChange{Operation: "replace", Path: "project/a.go", Subject: "agent-run:agent", Grant: "g1"}

// host is the hooks of a host that keeps a record in memory.
type host struct {
	*hook.Chain
	db  *database.DB
	log *record.Log
}

func opened(t *testing.T, db *database.DB, o hook.Options) *host {
	t.Helper()
	h := &host{db: db}
	var err error
	h.log, err = record.Open(db, record.Options{})
	check.OK(t, err)
	o.Record, o.Logf = h.log, t.Logf
	h.Chain, err = hook.Open(t.Context(), db, o)
	check.OK(t, err)
	return h
}

func (h *host) end(t *testing.T) {
	h.Close()
	check.OK(t, h.log.Close())
}

// before asks about a change and returns what came of it, in words.
func (h *host) before(ctx context.Context, c operator.HookedChange) string {
	asks, said, err := h.Before(ctx, hook.Change{HookedChange: c})
	out := fmt.Sprint(asks)
	for _, s := range said {
		out += " " + s.Name + "(" + s.Said + ")"
	}
	if err != nil {
		out += " " + err.Error()
	}
	return out
}

func equal[T any](t *testing.T, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v\nrather than\n%v", got, want)
	}
}

// fake is a hook that answers what a test says.
type fake struct {
	answer operator.HookAnswer
	reason string
	takes  time.Duration
	err    error
	gone   bool

	mu    sync.Mutex
	told  []string
	after func(n int) error // what the nth telling answers
}

func (f *fake) Gone() bool { return f.gone }

func (f *fake) Before(ctx context.Context, _ operator.HookedChange) (operator.HookAnswer, string, error) {
	select {
	case <-time.After(f.takes):
	case <-ctx.Done():
		return "", "", ctx.Err()
	}
	return f.answer, f.reason, f.err
}

func (f *fake) After(_ context.Context, c operator.HookedChange, o operator.HookOutcome) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, fmt.Sprintf("%s %s %s %s %s", o.ID, c.Subject, c.Operation, c.Path, o.Result))
	if f.after == nil {
		return nil
	}
	return f.after(len(f.told))
}

func (f *fake) heard() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.told)
}

func (h *host) add(t *testing.T, spec operator.Hook, f *fake) {
	t.Helper()
	spec.Before = true
	check.OK(t, h.AddHook(t.Context(), spec, f))
}

// TestHook: what a capability may do, and what becomes of a change then.
func TestHook(t *testing.T) {
	for name, c := range map[string]struct {
		f       *fake
		observe bool
		want    string
	}{
		"passes":                  {&fake{answer: operator.HookOK}, false, "[] a()"},
		"denies":                  {&fake{answer: operator.HookDeny, reason: "no tabs"}, false, "[] a(deny: no tabs) denied: the hook a said no: no tabs"},
		"denies without a reason": {&fake{answer: operator.HookDeny}, false, "[] a(deny: ) denied: the hook a said no"},
		"asks":                    {&fake{answer: operator.HookAsk, reason: "large"}, false, "[hook a: large] a(ask: large)"},
		"answers something else":  {&fake{answer: "allow"}, false, `[] a(failed: it answered "allow", which is none of ok, deny and ask) denied: the hook a answered "allow", which is none of ok, deny and ask`},
		"fails":                   {&fake{err: errors.New("x")}, false, "[] a(failed: it x) denied: the hook a x"},
		"hangs":                   {&fake{takes: time.Hour}, false, "[] a(failed: it did not answer within 2s) denied: the hook a did not answer within 2s"},
		"is gone":                 {&fake{gone: true}, false, "[] a(failed: it is not connected; the host's operator can start it again, or remove it with capd hooks rm) denied: the hook a is not connected; the host's operator can start it again, or remove it with capd hooks rm"},
		"is late by a moment":     {&fake{answer: operator.HookOK, takes: hook.Each - 1}, false, "[] a()"},
		"reason with controls":    {&fake{answer: operator.HookDeny, reason: "a\x1b[2Jb"}, false, `[] a(deny: a\u001b[2Jb) denied: the hook a said no: a\u001b[2Jb`},

		"observes a no":   {&fake{answer: operator.HookDeny, reason: "r"}, true, "[] a(deny: r)"},
		"observes an ask": {&fake{answer: operator.HookAsk, reason: "r"}, true, "[] a(ask: r)"},
		"observes a hang": {&fake{takes: time.Hour}, true, "[] a(failed: it did not answer within 2s)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := database.Memory()
				defer db.Close()
				h := opened(t, db, hook.Options{})
				defer h.end(t)
				h.add(t, operator.Hook{Name: "a", Observe: c.observe}, c.f)
				if got := h.before(t.Context(), put); got != c.want {
					t.Errorf("%s\nrather than\n%s", got, c.want)
				}
				want := uint64(strings.Count(c.want, "(failed: "))
				if got, after := h.Failures(); got != want || after != 0 {
					t.Errorf("%d calls before and %d after have failed, want %d and 0", got, after, want)
				}
			})
		})
	}
}

// TestHookOrder: hooks are asked in order, up to the first that is against the change; all together have 5 s; and
// the call's own end is not the hooks' fault.
func TestHookOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := database.Memory()
		defer db.Close()
		h := opened(t, db, hook.Options{})
		defer h.end(t)
		second := &fake{answer: operator.HookAsk, reason: "x"}
		h.add(t, operator.Hook{Name: "b"}, &fake{answer: operator.HookOK})
		h.add(t, operator.Hook{Name: "a"}, second)
		h.add(t, operator.Hook{Name: "c"}, &fake{answer: operator.HookAsk})
		equal(t, h.before(t.Context(), put), "[hook a: x hook c] b() a(ask: x) c(ask: )")
		second.answer = operator.HookDeny
		equal(t, h.before(t.Context(), put), "[] b() a(deny: x) denied: the hook a said no: x")

		for _, name := range []string{"a", "b", "c"} {
			h.add(t, operator.Hook{Name: name}, &fake{answer: operator.HookOK, takes: 1900 * time.Millisecond})
		}
		began := time.Now()
		equal(t, h.before(t.Context(), put), "[] b() a() c(failed: it did not answer in time: all hooks together have 5s) denied: the hook c did not answer in time: all hooks together have 5s")
		equal(t, time.Since(began), hook.Together)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		equal(t, h.before(ctx, put), "[] context deadline exceeded")
	})
}

// TestHookAtOnce: eight hooks are asked at the same time, and the next waits within its own time.
func TestHookAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := database.Memory()
		defer db.Close()
		h := opened(t, db, hook.Options{})
		defer h.end(t)
		h.add(t, operator.Hook{Name: "a"}, &fake{answer: operator.HookOK, takes: 1500 * time.Millisecond})
		var passed, late int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				got := h.before(t.Context(), put)
				mu.Lock()
				defer mu.Unlock()
				if got == "[] a()" {
					passed++
				} else if strings.Contains(got, "did not answer within 2s") {
					late++
				}
			})
		}
		wg.Wait()
		if passed != 8 || late != 2 {
			t.Errorf("%d passed and %d were late", passed, late)
		}
	})
}

// TestHookConcerns: which changes hooks are about.
func TestHookConcerns(t *testing.T) {
	db := database.Memory()
	defer db.Close()
	h := opened(t, db, hook.Options{Roots: []operator.Root{{ID: "p", Path: "project"}, {ID: "v", Path: "project/vendor"}}})
	defer h.end(t)
	for i, spec := range []operator.Hook{
		{Name: "all"},
		{Name: "go", Patterns: []string{"**/*.go"}},
		{Name: "src", Patterns: []string{"project/src/**"}},
		{Name: "deletes", Operations: []string{"delete"}},
		{Name: "moves", Operations: []string{"move"}},
		{Name: "own", Subject: "extension:lint"},
		{Name: "told"},
	} {
		spec.Before, spec.After = i < 6, i == 6
		check.OK(t, h.AddHook(t.Context(), spec, &fake{}))
	}
	for _, c := range []struct {
		change operator.HookedChange
		part   bool
		want   string
	}{
		{operator.HookedChange{Operation: "replace", Path: "project/a.go"}, false, "all go own"},
		{operator.HookedChange{Operation: "replace", Path: "project/A.GO"}, false, "all go own"}, // as a file system may fold it
		{operator.HookedChange{Operation: "append", Path: "project/src/x"}, false, "all src own"},
		{operator.HookedChange{Operation: "remove", Path: "project/src"}, false, "all src deletes own"},
		{operator.HookedChange{Operation: "mkdir", Path: "x", Subject: "extension:lint"}, false, "all"},
		{operator.HookedChange{Operation: "rename", Path: "x", To: "a.go"}, false, "all go moves own"},
		{operator.HookedChange{Operation: "rename", Path: "project", To: "x"}, false, "all src moves own"}, // src would be found at x no more
		{operator.HookedChange{Operation: "rename", Path: "x", To: "y"}, false, "all moves own"},
		{operator.HookedChange{Operation: "replace", Path: "x"}, true, "all moves own"},
	} {
		if got := strings.Join(h.Asked(hook.Change{HookedChange: c.change, Part: c.part}), " "); got != c.want {
			t.Errorf("%+v: %s rather than %s", c.change, got, c.want)
		}
	}
}

// A hook that only moved to another line of the configuration is not registered again.
func TestMovedLine(t *testing.T) {
	db := database.Memory()
	defer db.Close()
	lint := operator.Hook{Name: "lint", Command: []string{"/bin/true"}, Before: true, Source: "capd.yaml:3:5"}
	h := opened(t, db, hook.Options{File: []operator.Hook{lint}, Dir: t.TempDir()})
	defer h.end(t)
	times := func() (n int) {
		check.OK(t, db.Read(t.Context(), func(r *database.Rows) error { return r.Row("SELECT count(*) FROM record").Scan(&n) }))
		return n
	}
	was := times()
	lint.Source = "capd.yaml:9:5"
	check.OK(t, h.Exchange(t.Context(), []operator.Hook{lint}))
	if n := times(); n != was {
		t.Errorf("%d entries were added for a hook that moved to another line", n-was)
	}
	list, err := h.ListHooks(t.Context())
	check.OK(t, err)
	equal(t, list[0].Source, "capd.yaml:9:5")
	lint.Observe = true
	check.OK(t, h.Exchange(t.Context(), []operator.Hook{lint}))
	equal(t, times(), was+1)
}

// TestRegistered: what cannot be registered, and what is there after a restart.
func TestRegistered(t *testing.T) {
	db := database.Memory()
	defer db.Close()
	file := []operator.Hook{{Name: "first", Command: []string{"/bin/true"}, Before: true, Source: "capd.yaml:3:5"}, {Name: "second", Command: []string{"/bin/true"}, After: true, Source: "capd.yaml:4:5"}}
	h := opened(t, db, hook.Options{File: file, Dir: t.TempDir()})
	for _, c := range []struct {
		spec operator.Hook
		code vfs.Code
	}{
		{operator.Hook{Name: "A", Before: true}, vfs.Invalid},
		{operator.Hook{Name: "a"}, vfs.Invalid},
		{operator.Hook{Name: "a", After: true, Observe: true}, vfs.Invalid},
		{operator.Hook{Name: "a", Before: true, Operations: []string{"read"}}, vfs.Invalid},
		{operator.Hook{Name: "a", Before: true, Patterns: []string{"["}}, vfs.Invalid},
		{operator.Hook{Name: "a", Before: true, Subject: "robot:x"}, vfs.Invalid},
		{operator.Hook{Name: "first", Before: true}, vfs.Exists},
	} {
		check.Is(t, "it", h.AddHook(t.Context(), c.spec, &fake{}), c.code)
	}
	check.Is(t, "it", h.RemoveHook(t.Context(), "first"), vfs.Denied)
	check.Is(t, "it", h.RemoveHook(t.Context(), "third"), vfs.NotFound)
	for i := len(file); i < hook.MaxHooks; i++ {
		h.add(t, operator.Hook{Name: fmt.Sprintf("z%d", 99-i)}, &fake{})
	}
	check.Is(t, "it", h.AddHook(t.Context(), operator.Hook{Name: "more", Before: true}, &fake{}), vfs.Limit)
	for i := len(file) + 2; i < hook.MaxHooks; i++ {
		check.OK(t, h.RemoveHook(t.Context(), fmt.Sprintf("z%d", 99-i)))
	}
	h.end(t)

	h = opened(t, db, hook.Options{File: file[1:], Dir: t.TempDir()})
	defer h.end(t)
	list, err := h.ListHooks(t.Context())
	check.OK(t, err)
	var got []string
	for _, s := range list {
		got = append(got, fmt.Sprintf("%s from %s gone %v", s.Name, s.Source, s.Gone))
	}
	equal(t, got, []string{"second from capd.yaml:4:5 gone false", "z97 from console gone true", "z96 from console gone true"})
	equal(t, h.before(t.Context(), put), "[] z97(failed: it is not connected; the host's operator can start it again, or remove it with capd hooks rm) denied: the hook z97 is not connected; the host's operator can start it again, or remove it with capd hooks rm")
	h.add(t, operator.Hook{Name: "z97"}, &fake{answer: operator.HookOK})
	check.OK(t, h.RemoveHook(t.Context(), "z96"))
	equal(t, h.before(t.Context(), put), "[] z97()")
}
