package help_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"capd/cap/wire"
	"capd/meter"
	"capd/vfs"
	"capd/vfs/deny"
)

// docs/errors.md has one row for each code, and says of it what the code does.
func TestErrorTable(t *testing.T) {
	text, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\| (\\w+) \\| (\\w*) ?\\| (.+) \\| (.+) \\|$")
	var seen []vfs.Code
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		code := vfs.Code(m[1])
		seen = append(seen, code)
		category := "operational"
		if code.Policy() {
			category = "policy"
		}
		if m[2] != category {
			t.Errorf("%s: the table says %s, it is %s", code, m[2], category)
		}
		if want := wire.Encode(code).Type.String(); m[3] != want {
			t.Errorf("%s: the table says %s, on the wire it is %s", code, m[3], want)
		}
		if want := standard(code); m[4] != want {
			t.Errorf("%s: the table says %q, in io/fs it is %q", code, m[4], want)
		}
	}
	slices.Sort(seen)
	if want := slices.Sorted(slices.Values(vfs.Codes)); !slices.Equal(seen, want) {
		t.Errorf("the table has %v\nthe set is %v", seen, want)
	}
}

// docs/limits.md has one row for each kind that a meter counts, in their order, with what there is
// of it unless somebody says otherwise, and one for each lane.
func TestLimitsTable(t *testing.T) {
	text, err := os.ReadFile("../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| .+ \\| (.+) \\| (.+) \\| (.+) \\| .+ \\|$").FindAllStringSubmatch(string(text), -1)
	if len(rows) != int(meter.Kinds) {
		t.Fatalf("the table has %d kinds, there are %d", len(rows), meter.Kinds)
	}
	for k := range meter.Kinds {
		want := []string{k.String(), written(k, meter.GrantLimits()), written(k, meter.HostLimits()), written(k, meter.StrangerLimits())}
		if have := rows[k][1:]; !slices.Equal(have, want) {
			t.Errorf("the table has %q, there is %q", have, want)
		}
	}
	for _, l := range meter.NewHost(nil).All().Turns() {
		if !strings.Contains(string(text), "\n| `"+l.Lane.String()+"` | ") {
			t.Errorf("no row says what the lane %s is", l.Lane)
		}
	}
}

// written is how the table has l's limit of k.
func written(k meter.Kind, l meter.Limits) string {
	n := l[k]
	switch {
	case n == 0:
		return "none"
	case k.Bytes() && n >= 1<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case k.Bytes():
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1000:
		return fmt.Sprintf("%d,%03d", n/1000, n%1000)
	}
	return fmt.Sprint(n)
}

// standard is the name of the error of io/fs that code matches, or "".
func standard(code vfs.Code) string {
	var all []string
	for name, err := range map[string]error{
		"ErrNotExist": fs.ErrNotExist, "ErrExist": fs.ErrExist, "ErrPermission": fs.ErrPermission,
		"ErrInvalid": fs.ErrInvalid, "ErrClosed": fs.ErrClosed,
	} {
		if code.Is(err) {
			all = append(all, name)
		}
	}
	return strings.Join(all, " ")
}

// docs/semantics.md lists what is withheld and guarded by default.
func TestDefaultPatterns(t *testing.T) {
	text, err := os.ReadFile("../docs/semantics.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "    **/") {
			listed = append(listed, strings.Fields(line)...)
		}
	}
	if want := slices.Concat(deny.Secrets, deny.Triggers); !slices.Equal(listed, want) {
		t.Errorf("listed are %v\nthe defaults are %v", listed, want)
	}
}

// SECURITY.md names, in the form `package: TestName`, the tests that hold its
// promises.
func TestSecurityNamesTests(t *testing.T) {
	text, err := os.ReadFile("../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z/]+): ((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(string(text), -1)
	if len(named) == 0 {
		t.Fatal("SECURITY.md names no tests; does this one still read it?")
	}
	var missing []string
	for _, m := range named {
		if !declared(t, "../"+m[1], m[2]) {
			missing = append(missing, m[1]+": "+m[2])
		}
	}
	if missing != nil {
		t.Errorf("SECURITY.md names what is not there: %s", strings.Join(missing, ", "))
	}
}

// declared reports whether a test file of dir has the function name.
func declared(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), "\nfunc "+name+"(")
	})
}
