package worlds

import (
	"bufio"
	"context"
	"errors"
	"strings"
	"testing"
)

// steady returns a contender that takes almost no time, and ends with check.
func steady(name string, turns *[]string, check error) *contender {
	return &contender{name: name, run: func(context.Context) (func() error, error) {
		*turns = append(*turns, name)
		return func() error { return check }, nil
	}}
}

func TestMeasure(t *testing.T) {
	var turns []string
	ready := func(context.Context) error { return nil }
	a, b := steady("a", &turns, nil), steady("b", &turns, nil)
	wrong := steady("wrong", &turns, errors.New("a wrong outcome"))
	absent := &contender{name: "absent", missing: "absent is not installed"}
	for _, c := range []struct {
		name               string
		world              world
		turns              string
		base, value, ratio bool
		err                string
	}{
		{"both", world{rows: []row{{name: "r", floor: a, capd: b}}, setup: ready}, "a b b a a b", true, true, true, ""},
		{"long", world{rows: []row{{name: "r", floor: a, capd: b}}, setup: ready, long: true}, "b a a b", true, true, true, ""},
		{"missing", world{rows: []row{{name: "r", floor: absent, capd: b}}, setup: ready}, "b b b", false, true, false, "absent is not installed"},
		{"wrong", world{rows: []row{{name: "r", floor: a, capd: wrong}}, setup: ready}, "a wrong a a", true, false, false, "a wrong outcome"},
		{"no setup", world{rows: []row{{name: "r", floor: a, capd: b}}, setup: func(context.Context) error { return errors.New("no tree") }}, "", false, false, false, "no tree"},
	} {
		t.Run(c.name, func(t *testing.T) {
			turns = nil
			rows := c.world.measure(t.Context(), 2)
			if len(rows) != 1 {
				t.Fatalf("%d rows", len(rows))
			}
			r := rows[0]
			if got := strings.Join(turns, " "); got != c.turns {
				t.Errorf("turns were %q, not %q", got, c.turns)
			}
			if (r.Base > 0) != c.base || (r.Value > 0) != c.value || (r.Ratio > 0) != c.ratio || r.Err != c.err {
				t.Errorf("the row is %+v", r)
			}
		})
	}
}

// TestDifferences checks that a wrong outcome is noticed.
func TestDifferences(t *testing.T) {
	for _, got := range [][]string{{}, {"a"}, {"a", "c"}, {"a", "a"}, {"a", "b", "b"}} {
		if same(got, []string{"b", "a"}) == nil {
			t.Errorf("%q is taken for the same", got)
		}
	}
	if err := same([]string{"a", "b"}, []string{"b", "a"}); err != nil {
		t.Error(err)
	}
	var one, other tally
	one.add([]byte("content"))
	other.add([]byte("contenu"))
	if one.is("a tally", other) == nil || one.is("a tally", one) != nil {
		t.Error("tallies are compared wrongly")
	}
	h := &hoard{want: map[string]string{"f": "1"}}
	for _, got := range []map[string]string{nil, {"f": "2"}, {"f": "1", "g": "1"}, {"g": "1"}} {
		if h.summed(got) == nil {
			t.Errorf("%v is taken for the same", got)
		}
	}
}

func TestBatch(t *testing.T) {
	for _, c := range []struct {
		in    string
		files int64
		ok    bool
	}{
		{"", 0, true},
		{"aa blob 3\nabc\nbb blob 0\n\n", 2, true},
		{"aa missing\n", 0, false},
		{"aa blob 3\nab", 0, false},
		{"aa blob x\nabc\n", 0, false},
		{"aa blob -1\n\n", 0, false},
		{"aa blob 3", 0, false},
	} {
		var got tally
		err := got.batch(bufio.NewReader(strings.NewReader(c.in)))
		if (err == nil) != c.ok || c.ok && got.files != c.files {
			t.Errorf("%q: %d files, %v", c.in, got.files, err)
		}
	}
}
