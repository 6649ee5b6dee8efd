package record_test

import (
	"encoding/json"
	"strings"
	"testing"

	"capd/record"
	"capd/vfs/vfstest/check"
)

// TestPathText: the text of a path has no character that a terminal acts on or that deceives a reader, and no other meaning.
func TestPathText(t *testing.T) {
	for path, want := range map[string]string{
		"a/é": `"a/é"`, "a\u202eb": `"a\u202eb"`, "\u2066": `"\u2066"`, "a\U000e0041": `"a\udb40\udc41"`, "\u009b31m": `"\u009b31m"`, "\x7f": `"\u007f"`,
		"\n\x1b": `"\n\u001b"`, "😀\ufeff": `"😀\ufeff"`, `\u202e`: `"\\u202e"`, "\xff": `{"bytes":"/w=="}`, "\ufffd": "\"\ufffd\"",
	} {
		text, err := json.Marshal(struct{ Path record.Path }{record.Path(path)})
		check.OK(t, err)
		if got := strings.TrimSuffix(strings.TrimPrefix(string(text), `{"Path":`), "}"); got != want {
			t.Errorf("%q is written as %s, want %s", path, got, want)
		}
		var back struct{ Path record.Path }
		if check.OK(t, json.Unmarshal(text, &back)); string(back.Path) != path {
			t.Errorf("%q is read as %q", path, back.Path)
		}
	}
}
