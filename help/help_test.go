package help_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"capd/capnp"
	"capd/help"
	"capd/vfs"
)

// guest lists the interfaces that a guest can hold or host.
var guest = []string{"Session", "Dir", "File", "Writer", "Sink", "Revoker", "Petitioner"}

func TestEveryMethodHasItsSection(t *testing.T) {
	for _, i := range capnp.Interfaces {
		got := help.Methods(i.Name)
		if !slices.Equal(got, i.Methods) {
			t.Errorf("%s: the page describes %v, the schema has %v", i.Name, got, i.Methods)
		}
	}
}

func TestEveryPageHasItsInterface(t *testing.T) {
	_, err := help.Text("", "")
	if vfs.CodeOf(err) != vfs.NotFound {
		t.Fatalf("no interface: %v", err)
	}
	_, list, _ := strings.Cut(err.Error(), "there is on ")
	var want []string
	for _, i := range capnp.Interfaces {
		want = append(want, i.Name)
	}
	slices.Sort(want)
	if got := strings.Split(list, ", "); !slices.Equal(got, want) {
		t.Errorf("pages for %v, the schema has %v", got, want)
	}
}

func TestText(t *testing.T) {
	for _, i := range capnp.Interfaces {
		whole, err := help.Text(strings.ToLower(i.Name), "")
		if err != nil {
			t.Fatal(err)
		}
		intro, _, _ := strings.Cut(whole, "\n## ")
		if !strings.HasPrefix(intro, "# "+i.Name+"\n") {
			t.Errorf("%s: the page does not begin with its name", i.Name)
		}
		if !strings.Contains(flat(intro), "Methods: "+strings.Join(i.Methods, ", ")+".") {
			t.Errorf("%s: the introduction does not list the methods in the schema's order", i.Name)
		}
		for _, m := range i.Methods {
			text, err := help.Text(i.Name, m)
			if err != nil {
				t.Fatal(err)
			}
			checkSection(t, i.Name+"."+m, m, text)
		}
	}
}

// The pages give each method's parameters and results as the schemas do.
func TestSignatures(t *testing.T) {
	schemas, err := filepath.Glob("../schema/*.capnp")
	if err != nil || len(schemas) == 0 {
		t.Fatalf("no schemas: %v", err)
	}
	checked := 0
	for _, name := range schemas {
		schema, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		iface := ""
		for line := range strings.Lines(string(schema)) {
			if m := ifaceLine.FindStringSubmatch(line); m != nil {
				iface = m[1]
			}
			m := methodLine.FindStringSubmatch(line)
			if m == nil || iface == "" {
				continue
			}
			checked++
			results := "stream"
			if m[3] != "stream" {
				results = "(" + names(m[3]) + ")"
			}
			want := "`" + m[1] + "(" + names(m[2]) + ") → " + results + "`"
			text, err := help.Text(iface, m[1])
			if err != nil {
				t.Error(err)
				continue
			}
			if got := strings.Split(text, "\n")[2]; got != want {
				t.Errorf("%s: the page has %s, the schema %s", iface, got, want)
			}
			for name := range strings.FieldsFuncSeq(names(m[2])+","+strings.Trim(results, "()"), func(r rune) bool { return r == ',' || r == ' ' }) {
				if name != "stream" && !strings.Contains(text, "\n- `"+name+"`") {
					t.Errorf("%s.%s: %s is not explained", iface, m[1], name)
				}
			}
		}
	}
	methods := 0
	for _, i := range capnp.Interfaces {
		methods += len(i.Methods)
	}
	if checked != methods {
		t.Errorf("%d methods found in the schemas, want %d; does this test still read them?", checked, methods)
	}
}

var (
	ifaceLine  = regexp.MustCompile(`^interface (\w+)`)
	methodLine = regexp.MustCompile(`^\s+(\w+) @\d+ \(([^)]*(?:\([^)]*\)[^)]*)*)\) -> (stream|\(.*\));`)
)

// names returns the names of a list of parameters, without their types.
func names(params string) string {
	var all []string
	for p := range strings.SplitSeq(strings.Trim(params, "()"), ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(p), " ")
		all = append(all, name)
	}
	return strings.Join(all, ", ")
}

var (
	quoted = regexp.MustCompile("`([a-zA-Z]+)`") // a word; not a path or a name such as `..`
	fences = regexp.MustCompile("(?m)^```$")
)

// checkSection checks that text, the section on method, has a signature, an
// Errors paragraph that names codes, all of which exist, and an example.
func checkSection(t *testing.T, where, method, text string) {
	t.Helper()
	if !strings.HasPrefix(text, "# "+where+"\n\n`"+method+"(") {
		t.Errorf("%s: does not begin with its name and signature", where)
	}
	_, errs, ok := strings.Cut(text, "\n\nErrors: ")
	if !ok {
		t.Fatalf("%s: no Errors paragraph", where)
	}
	errs, rest, ok := strings.Cut(errs, "\n\nExample:\n\n```\n")
	if !ok || len(fences.FindAllString(rest, -1)) != 1 {
		t.Errorf("%s: no example, of one block, after the errors", where)
	}
	named := 0
	for _, m := range quoted.FindAllStringSubmatch(errs, -1) {
		if !slices.Contains(vfs.Codes, vfs.Code(m[1])) {
			t.Errorf("%s: %q is no code (write other words without quotes here)", where, m[1])
			continue
		}
		named++
	}
	if named == 0 && !strings.HasPrefix(errs, "none beyond the common.") {
		t.Errorf("%s: names no code, and does not say that there is none", where)
	}
}

// Every word in quotes that stands where a code stands must be one, also in the
// introductions.
func TestCommonErrorsExist(t *testing.T) {
	for _, i := range capnp.Interfaces {
		whole, err := help.Text(i.Name, "")
		if err != nil {
			t.Fatal(err)
		}
		intro, _, _ := strings.Cut(flat(whole), " ## ")
		_, common, ok := strings.Cut(intro, "Common errors")
		if !ok {
			t.Errorf("%s: the introduction does not say which errors are common", i.Name)
		}
		for _, m := range quoted.FindAllStringSubmatch(common, -1) {
			if !slices.Contains(vfs.Codes, vfs.Code(m[1])) {
				t.Errorf("%s: %q is no code", i.Name, m[1])
			}
		}
	}
}

func TestNoSuchMethod(t *testing.T) {
	for _, method := range []string{"chmod", "List", " list", "list\n", "Methods"} {
		_, err := help.Text("Dir", method)
		if vfs.CodeOf(err) != vfs.NotFound || !strings.Contains(err.Error(), "list, get, walk") {
			t.Errorf("help(%q): %v", method, err)
		}
	}
	if got := help.Methods("Mount"); got != nil {
		t.Errorf("methods of nothing: %v", got)
	}
}

// A guest sees nothing of what is composed, stored and switched behind its back.
func TestGuestPagesKeepToTheGuest(t *testing.T) {
	hostWords := regexp.MustCompile(`(?i)\b(mount\w*|backends?|control\w*|console|namespaces?|guards?|gates?|routes?|physical)\b`)
	for _, name := range guest {
		text, err := help.Text(name, "")
		if err != nil {
			t.Fatal(err)
		}
		if w := hostWords.FindString(text); w != "" {
			t.Errorf("%s: speaks of %q", name, w)
		}
	}
}

// A caller may not change what the next one reads.
func TestMethodsIsACopy(t *testing.T) {
	help.Methods("Dir")[0] = "x"
	if help.Methods("Dir")[0] != "list" {
		t.Error("Methods gave away its own slice")
	}
}

// flat is text on one line.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }
