package config

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"capd/operator"
	"capd/vfs"
)

// TestBounds: the documentation states the bounds.
func TestBounds(t *testing.T) {
	text, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	says := fmt.Sprintf("at most %d MiB (`tooLarge`). It may have at most %d,%03d words and signs, %d levels, %d keys in a mapping, and %d tabs",
		MaxFile>>20, maxTokens/1000, maxTokens%1000, maxLevels, maxKeys, maxAhead)
	folded := strings.Join(strings.Fields(string(text)), " ")
	if !strings.Contains(folded, says) {
		t.Errorf("it does not say %q", says)
	}
	if says = fmt.Sprintf("up to %d at once", maxMistakes); !strings.Contains(folded, says) {
		t.Errorf("it does not say %q", says)
	}
}

// TestPatterns: the schema has the same patterns and bounds as Parse.
func TestPatterns(t *testing.T) {
	type text struct {
		Pattern   string
		MaxLength int
		Items     *text
		Not       *text
		Enum      []string
	}
	type object struct{ Properties map[string]text }
	var s struct {
		Properties map[string]text
		Defs       struct {
			Mount, Guest object
			Path         text
			Patterns     text
		} `json:"$defs"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		t.Fatal(err)
	}
	guest := s.Defs.Guest.Properties["name"]
	is, isNot := regexp.MustCompile(guest.Pattern), regexp.MustCompile(guest.Not.Pattern)
	long := strings.Repeat("x", 64)
	for _, name := range []string{"a", "g1", "g1x", "person:g1", "agent-run:g1", "agent-run:a", "agent-run:a:b", "agent-run:a:b:c", "person:a:b", "core:", ":a",
		"", long, long + "x", "person:" + long, "person:" + long + "x", "agent-run:" + long + ":" + long, "robot:a", "a/1", "a b", "person"} {
		_, err := operator.ParseSubject(name)
		if accepts := is.MatchString(name) && !isNot.MatchString(name); accepts != (err == nil) {
			t.Errorf("the schema accepts %q: %v; Parse: %v", name, accepts, err)
		}
	}
	for _, c := range []struct {
		got  string
		want *regexp.Regexp
	}{
		{s.Properties["listen"].Items.Pattern, tlsAddress},
		{s.Properties["advertise"].Pattern, advertised},
		{s.Properties["socketMode"].Pattern, socketMode},
		{s.Defs.Mount.Properties["url"].Pattern, schemeAt},
	} {
		if c.got != c.want.String() {
			t.Errorf("the schema has %q, Parse %q", c.got, c.want)
		}
	}
	if n := s.Defs.Path.MaxLength; n != vfs.MaxPath {
		t.Errorf("a path in the schema: %d", n)
	}
	if n := s.Defs.Patterns.Items.MaxLength; n != vfs.MaxPath {
		t.Errorf("a pattern in the schema: %d", n)
	}
	if links := s.Defs.Mount.Properties["links"].Enum; len(links) != 2 || links[0] != LinksFollow || links[1] != LinksRefuse {
		t.Errorf("links in the schema: %q", links)
	}
}
