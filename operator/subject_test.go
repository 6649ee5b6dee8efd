package operator_test

import (
	"strings"
	"testing"

	"capd/operator"
	"capd/vfs"
)

func TestParseSubject(t *testing.T) {
	long := strings.Repeat("x", 64)
	for text, want := range map[string]struct{ subject, kind, id, name string }{
		"agent":                          {"agent-run:agent", "agent-run", "agent", "agent"},
		"agent-run:agent":                {"agent-run:agent", "agent-run", "agent", "agent"},
		"agent-run:talk:3":               {"agent-run:talk:3", "agent-run", "talk:3", "agent-run:talk:3"},
		"person:ada":                     {"person:ada", "person", "ada", "person:ada"},
		"person:g1":                      {"person:g1", "person", "g1", "person:g1"},
		"core:index":                     {"core:index", "core", "index", "core:index"},
		"extension:" + long:              {"extension:" + long, "extension", long, "extension:" + long},
		"automation:a.b_c-d":             {"automation:a.b_c-d", "automation", "a.b_c-d", "automation:a.b_c-d"},
		"person":                         {"agent-run:person", "agent-run", "person", "person"},
		"agent-run:" + long + ":" + long: {"agent-run:" + long + ":" + long, "agent-run", long + ":" + long, "agent-run:" + long + ":" + long},
	} {
		s, err := operator.ParseSubject(text)
		if err != nil || string(s) != want.subject || s.Kind() != want.kind || s.ID() != want.id || s.Name() != want.name {
			t.Errorf("%q is %q, %v: kind %q, id %q, name %q", text, s, err, s.Kind(), s.ID(), s.Name())
		}
	}
	for text, says := range map[string]string{
		"": "1 to 64", "a/b": "1 to 64", "a b": "1 to 64", "é": "1 to 64", "a\n": "1 to 64", strings.Repeat("x", 65): "1 to 64",
		"g1": "grant's id", "agent-run:g1": "grant's id",
		"person:": "after person:", "person:a:b": "after person:", "agent-run:": "after agent-run:", "agent-run:a:b:c": "after agent-run:", "agent-run::a": "after agent-run:",
		":a": "no kind", "Person:ada": "no kind", "talk:3": "no kind of guest; write NAME alone, or KIND:NAME where KIND is core, agent-run, extension, automation, person",
	} {
		if s, err := operator.ParseSubject(text); vfs.CodeOf(err) != vfs.Invalid || !strings.Contains(vfs.Message(err), says) {
			t.Errorf("%q is %q, %v; want invalid, with %q", text, s, err, says)
		}
	}
}

func TestGuestName(t *testing.T) {
	for text, want := range map[string]string{
		"agent": "agent", "agent-run:agent": "agent", "agent-run:agent/2": "agent/2", "agent/2": "agent/2", "person:ada/1": "person:ada/1",
		"g3": "g3", "agent-run:g3": "agent-run:g3", "no body": "no body", "": "", "agent-run:talk:3/1": "agent-run:talk:3/1",
	} {
		if got := operator.GuestName(text); got != want {
			t.Errorf("%q means %q, want %q", text, got, want)
		}
	}
}

// What is parsed is said in one way, which parses to the same.
func FuzzParseSubject(f *testing.F) {
	for _, seed := range []string{"agent", "agent-run:a:b", "person:ada", "g1", "x:y", "a/1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := operator.ParseSubject(text)
		if err != nil {
			return
		}
		for _, again := range []string{string(s), s.Name()} {
			if same, err := operator.ParseSubject(again); err != nil || same != s {
				t.Errorf("%q is %q, but %q is %q, %v", text, s, again, same, err)
			}
		}
		if operator.GuestName(text) != s.Name() || operator.GuestName(s.Name()+"/7") != s.Name()+"/7" {
			t.Errorf("%q is %q and means %q", text, s, operator.GuestName(text))
		}
	})
}
