package config_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"capd/config"
	"capd/meter"
	"capd/operator"
	"capd/vfs/deny"
)

// compiled is the schema, ready to validate.
func compiled(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	const name = "capd.schema.json"
	if err := c.AddResource(name, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// valid reports whether the schema accepts file, read as an editor reads it.
func valid(t testing.TB, s *jsonschema.Schema, file string) error {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte(strings.TrimPrefix(file, "\ufeff")))
	if err != nil {
		t.Fatalf("%q: %v", file, err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("null")
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%q: %v", file, err)
	}
	return s.Validate(v)
}

// TestSchemaRefuses: the schema refuses the mistakes that are marked so. Parse refuses all of them
// (TestMistakes).
func TestSchemaRefuses(t *testing.T) {
	s, refused := compiled(t), 0
	for _, m := range mistakes {
		if !m.schema {
			continue
		}
		refused++
		if strings.Contains(m.file, ".nan") { // JSON has no such number
			continue
		}
		if valid(t, s, m.file) == nil {
			t.Errorf("the schema takes %q", m.file)
		}
	}
	if refused == 0 {
		t.Error("the schema refuses nothing")
	}
}

// TestSchemaTakes: the schema accepts what Parse accepts.
func TestSchemaTakes(t *testing.T) {
	s := compiled(t)
	files := []string{
		top("listen: []"), top("advertise: h"), top("advertise: '[::1]:7'"), top("guests: []"), top("invites: []"), invite("permissions: [], source: core"), invite("permissions: ['filesystem:temp:all', 'filesystem:workspace:read,write,list']"),
		mount("quota: {}"), mount("quota: {bytes: '7'}"), mount("quota: {bytes: 9223372036854775807}"),
		mount("quota: {bytes: 9223372036854775807B}"), mount("quota: {nodes: 9223372036854775807}"),
		mount("quota: {bytes: 1kB}"), mount("quota: {bytes: 1KiB}"), mount("quota: {bytes: 8388607TiB}"),
		mount("links: follow"), mount("deny: ['**', '{a,b}/c', '[a-z]', '**/.env.*']"), mount("readOnly: True"),
		guest("name: g"), guest("name: 'person:g1'"), guest("name: 'agent-run:talk:3'"), guest("name: g1x"), guest("name: '.'"), guest("name: a, path: '...'"),
		top("limits: {}"), top("record: off"), top("record: {}"), top("record: {keep: none, size: none}"), top("guestLimits: {storedBytes: none, threads: none, nodes: 9223372036854775807, replyBytes: 1KiB}"),
		guest("name: a, limits: {callBytes: '7'}"), guest("name: a, limits: {callBytes: 7}"),
		mounts(`path: é b/.c, url: "cas:DIR#x"`), top("roots: []"), root(""), top("roots: [{id: b, kind: temp}, {id: c, kind: extension-storage}]"), root("name: x, labels: []"), root("access: rw"), drafted("access: none"), drafted("access: ro, scope: shared"),
		guest("name: a, rights: [archive, watch]"), guest("name: a, beyondDefault: false"),
		guest("name: a, expires: 1.5h30m, unused: 36500d, uses: 9223372036854775807"), guest("name: a, expires: '+7d', unused: 1µs"),
		top("policy: {default: allow}"), top("rules: []"), rule("subject: '*'"), rule("subject: 'agent-run:talk:*'"), rule("subject: bob, root: secret"), rule("operations: [], except: []"), rule("maxFileBytes: '7'"),
		top("hooks: []"), hook("before: true"), hook("after: true, before: false, observe: false"), hook("before: true, observe: true, operations: [], patterns: ['**'], subject: lint"),
	}
	for _, name := range testFiles(t) {
		files = append(files, string(read(t, name)))
	}
	for _, file := range files {
		if _, err := config.Parse("f", []byte(file)); err != nil {
			t.Errorf("%q: %v", file, err)
		}
		if err := valid(t, s, file); err != nil {
			t.Errorf("%q: %v", file, err)
		}
	}
}

func testFiles(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	return files
}

// object is a part of the schema.
type object struct {
	Ref        string            `json:"$ref"`
	Properties map[string]object `json:"properties"`
	Additional *bool             `json:"additionalProperties"`
	Items      *object           `json:"items"`
	Defs       map[string]object `json:"$defs"`
	Text       string            `json:"description"`
}

func parsed(t *testing.T) object {
	t.Helper()
	var root object
	if err := json.Unmarshal(config.Schema(), &root); err != nil {
		t.Fatal(err)
	}
	return root
}

// resolve follows the reference of o, if it has one.
func (o object) resolve(root object) object {
	if name, ok := strings.CutPrefix(o.Ref, "#/$defs/"); ok {
		return root.Defs[name]
	}
	return o
}

// keyOf returns the key whose value the field holds.
func keyOf(field string) string {
	if strings.ToUpper(field) == field {
		return strings.ToLower(field)
	}
	return strings.ToLower(field[:1]) + field[1:]
}

// TestSchemaAgrees: the schema has the same keys as the types. A file with all of them sets every
// field.
func TestSchemaAgrees(t *testing.T) {
	root := parsed(t)
	c, err := config.Parse("full.yaml", read(t, "testdata/full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	agree(t, root, root, reflect.ValueOf(*c), "file")
}

func agree(t *testing.T, root, o object, v reflect.Value, at string) {
	t.Helper()
	var keys []string
	for i := range v.NumField() {
		field, f := v.Type().Field(i), v.Field(i)
		if field.Name == "Where" || field.Name == "Source" && v.Type() != reflect.TypeFor[config.Invite]() {
			continue
		}
		key := keyOf(field.Name)
		keys = append(keys, key)
		if f.IsZero() {
			t.Errorf("%s: nothing sets %s", at, key)
		}
		if o.Properties[key].Text == "" {
			t.Errorf("%s: the schema does not describe %s", at, key)
		}
		p := o.Properties[key].resolve(root)
		switch {
		case f.Type() == reflect.TypeFor[operator.RuleRoot](), f.Type() == reflect.TypeFor[config.Record](), f.Type() == reflect.TypeFor[[]operator.Permission](): // words, or a word or a mapping
		case f.Kind() == reflect.Struct:
			agree(t, root, p, f, at+"."+key)
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct && f.Len() > 0:
			agree(t, root, p.Items.resolve(root), f.Index(0), at+"."+key)
		}
	}
	slices.Sort(keys)
	if in := slices.Sorted(maps.Keys(o.Properties)); !slices.Equal(in, keys) {
		t.Errorf("%s: the schema has %q, the type %q", at, in, keys)
	}
	if o.Additional == nil || *o.Additional {
		t.Errorf("%s: the schema takes unknown keys", at)
	}
}

// TestSchemaLimits: the schema has all kinds in their order, and the same description for kinds of
// the same type.
func TestSchemaLimits(t *testing.T) {
	of := parsed(t).Defs["limits"].Properties
	for k := range meter.Kinds {
		want := "#/$defs/countLimit"
		if k.Bytes() {
			want = "#/$defs/bytesLimit"
		}
		if of[k.String()].Ref != want || of[k.String()].Text == "" {
			t.Errorf("of %s the schema says %q, %q", k, of[k.String()].Ref, of[k.String()].Text)
		}
	}
	if len(of) != int(meter.Kinds) {
		t.Errorf("the schema has %d kinds, there are %d", len(of), meter.Kinds)
	}
}

// TestSchemaIsTheCallers: a change to one copy of the schema does not show in the next.
func TestSchemaIsTheCallers(t *testing.T) {
	want := read(t, "capd.schema.json")
	clear(config.Schema())
	if !bytes.Equal(config.Schema(), want) {
		t.Error("the schema was changed")
	}
}

// block is a block of code in the documentation.
var block = regexp.MustCompile("(?ms)^```(yaml|json)\n(.*?)^```$")

// TestDocumentation: the examples are valid for Parse and for the schema. Together with the table
// they have every key.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	roots, err := os.ReadFile("../docs/roots.md")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile("../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := slices.Concat(block.FindAllSubmatch(text, -1), block.FindAllSubmatch(roots, -1), block.FindAllSubmatch(rules, -1))
	if len(blocks) < 2 {
		t.Fatal("no examples")
	}
	s := compiled(t)
	for _, b := range blocks {
		if _, err := config.Parse("configuration.md", b[2]); err != nil {
			t.Errorf("%s\n%v", b[2], err)
		}
		if err := valid(t, s, string(b[2])); err != nil {
			t.Errorf("%s\n%v", b[2], err)
		}
	}
	for _, pattern := range slices.Concat(deny.Secrets, deny.Triggers) {
		if !strings.Contains(string(text), "`"+pattern+"`") {
			t.Errorf("%s is a default, and is not there", pattern)
		}
	}
	root := parsed(t)
	for _, o := range []object{root, root.Defs["mount"], root.Defs["root"], root.Defs["guest"], root.Defs["invite"], root.Defs["quota"], root.Defs["rule"]} {
		for key := range o.Properties {
			if !strings.Contains(string(text), "\n| `"+key+"` | ") {
				t.Errorf("no row says what %s is", key)
			}
		}
	}
}

func drafted(keys string) string { return strings.Replace(root(keys), "memory:", "physical:x", 1) }
