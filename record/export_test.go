package record

import (
	"bytes"
	"strings"
	"testing"

	"capd/database"
	"capd/state"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// TestExportVerifies: what was exported is checked without the database, also after old entries were removed, and whatever is
// done to it shows.
func TestExportVerifies(t *testing.T) {
	d, early := trimmed(t)
	db, l := opened(t, d)
	fill(t, db, l, 3)
	given, err := l.Checkpoint(true)
	check.OK(t, err)
	fill(t, db, l, 10)
	var out bytes.Buffer
	done, err := Export(t.Context(), db, &out)
	check.OK(t, err)
	if done.Left != 10 || done.Entries < blockSize {
		t.Errorf("%+v", done)
	}
	fill(t, db, l, 2)
	later, err := l.Checkpoint(true)
	check.OK(t, err)
	closed(t, db, l)

	text := out.String()
	lines := strings.SplitAfter(text, "\n")
	swapped := strings.Join(append([]string{lines[0], lines[2], lines[1]}, lines[3:]...), "")
	const one = `"result":"done"`
	for what, c := range map[string]struct{ text, since, says string }{
		"sound":          {text, "", ""},
		"since":          {text, given, ""},
		"removed":        {lines[0] + strings.Join(lines[2:], ""), "", "some were removed or added"},
		"changed":        {strings.Replace(text, one, `"result":"none"`, 1), "", "one of the"},
		"swapped":        {swapped, "", "one of the"},
		"cut off":        {text[:strings.Index(text, "\ncapd/")+1], "", "the end was cut off"},
		"no signature":   {text[:strings.LastIndex(text, "—")], "", "the checkpoint at the end"},
		"another start":  {strings.Replace(text, `"before":["`, `"before":["AAAA`, 1), "", "no export"},
		"since too late": {text, later, "an old record was put back"},
		"since too old":  {text, early, "it cannot be compared"},
	} {
		t.Run(what, func(t *testing.T) {
			if what != "sound" && what[:5] != "since" && c.text == text {
				t.Fatal("nothing was changed")
			}
			r, err := VerifyExport(t.Context(), strings.NewReader(c.text), VerifyOptions{Key: keyLine(t), Since: c.since})
			switch c.says {
			case "no export":
				check.Is(t, what, err, vfs.Invalid)
			case "":
				if check.OK(t, err); len(r.Problems) > 0 || r.Entries != done.Entries || r.Checkpoints == 0 {
					t.Errorf("%+v", r)
				}
			default:
				check.OK(t, err)
				says(t, r, c.says)
			}
		})
	}
	empty, err := database.Open(state.Dir(t.TempDir()), database.Options{})
	check.OK(t, err)
	defer empty.Close()
	_, err = Export(t.Context(), empty, &out)
	check.Is(t, "nothing", err, vfs.NotFound)
}
