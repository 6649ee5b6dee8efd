package main

import (
	"strings"
	"testing"

	"capd/vfs/diff"
)

// TestOutline: capd run shows no binary content, and only the beginning of a long
// text. A diff that is written to a file is complete.
func TestOutline(t *testing.T) {
	long := "diff --git a/f b/f\n" + strings.Repeat("+x\n", 500)
	tests := []struct{ name, text, outline string }{
		{"short", "@@ -1 +1 @@\n-a\n+b\n", "@@ -1 +1 @@\n-a\n+b\n"},
		{"binary", "diff --git a/f b/f\nGIT binary patch\nliteral 3\nzcmZ\n\n", "diff --git a/f b/f\n(binary)\n"},
		{"many lines", long, long[:strings.Index(long, "+")] + strings.Repeat("+x\n", 399) + "(101 more lines)\n"},
		{"one more line", strings.Repeat("+\n", 401), strings.Repeat("+\n", 400) + "(1 more line)\n"},
		{"as many as there may be", strings.Repeat("+\n", 400), strings.Repeat("+\n", 400)},
		{"a long line", "+" + strings.Repeat("y", 5000) + "\n", "+" + strings.Repeat("y", 1999) + " (and 3001 more bytes)\n"},
		{"for a terminal", "+\x1b[2J\n", `+\u001b[2J` + "\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for want, show := range map[string]func(*strings.Builder) *changes{
				test.outline: func(b *strings.Builder) *changes { return newOutline(b) },
				test.text:    func(b *strings.Builder) *changes { return newChanges(b) },
			} {
				var b strings.Builder
				if err := show(&b).change(diff.Change{Path: "f", Kind: diff.Modified, Text: test.text}); err != nil {
					t.Fatal(err)
				}
				if got := b.String(); got != "M f\n"+want {
					t.Errorf("shown is\n%s\nwant\n%s", got, "M f\n"+want)
				}
			}
		})
	}
}
