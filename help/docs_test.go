package help_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"capd/cap/wire"
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
