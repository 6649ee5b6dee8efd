package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"capd/client"
	"capd/vfs"
)

// tool is what an agent can call.
type tool struct {
	name, title, about string
	needs              client.Rights // without these the tool is not listed
	hints              string        // the annotations, in JSON
	in                 string        // the members of its input schema's properties, in JSON
	required           string        // names, separated by spaces
	out                string        // further members of its output schema's properties, in JSON, or the whole schema if it begins with {
	run                func(ctx context.Context, s *service, args []byte) (answer, error)
}

// The annotations of tools.
const (
	reads   = `{"readOnlyHint":true,"openWorldHint":false}`
	makes   = `{"readOnlyHint":false,"idempotentHint":true,"destructiveHint":false,"openWorldHint":false}`
	puts    = `{"readOnlyHint":false,"idempotentHint":true,"destructiveHint":true,"openWorldHint":false}`
	changes = `{"readOnlyHint":false,"idempotentHint":false,"destructiveHint":true,"openWorldHint":false}`
	gives   = `{"readOnlyHint":false,"idempotentHint":false,"destructiveHint":false,"openWorldHint":false}`
)

// Parts of schemas.
const (
	onePath   = `"path":{"type":"string"}`
	ifVersion = `"ifVersion":{"type":"string","description":"Only if the file has this version"}`
	versioned = `,"version":{"type":"string"}`
)

// tools are all of them, those of the reference first, in its order.
var tools = slices.Concat(readTools, writeTools, listTools, []tool{moveTool}, findTools, furtherTools)

var toolNamed = func() map[string]*tool {
	all := map[string]*tool{}
	for i := range tools {
		all[tools[i].name] = &tools[i]
	}
	return all
}()

// inputSchema returns the JSON schema of the arguments. Numbers are of the type number: agents send 10.0, and schemas that say integer refuse it.
func (t *tool) inputSchema() json.RawMessage {
	text := `{"type":"object","properties":{` + t.in + `}`
	if t.required != "" {
		text += `,"required":["` + strings.Join(strings.Fields(t.required), `","`) + `"]`
	}
	return json.RawMessage(text + `}`)
}

// outputSchema returns the JSON schema of the structured content.
func (t *tool) outputSchema() json.RawMessage {
	if strings.HasPrefix(t.out, "{") {
		return json.RawMessage(t.out)
	}
	return json.RawMessage(`{"type":"object","properties":{"content":{"type":"string"}` + t.out + `},"required":["content"]}`)
}

// handler makes run of a function with arguments of the type A.
func handler[A any](do func(ctx context.Context, s *service, a A) (answer, error)) func(context.Context, *service, []byte) (answer, error) {
	return func(ctx context.Context, s *service, args []byte) (answer, error) {
		var a A
		if len(args) > 0 && string(args) != "null" {
			if err := jsonv2.Unmarshal(args, &a, jsonv2.MatchCaseInsensitiveNames(true)); err != nil {
				return answer{}, vfs.Errorf(vfs.Invalid, "the arguments do not fit the tool's schema: %s", jsonMistake(err))
			}
		}
		return do(ctx, s, a)
	}
}

// jsonMistake returns what is wrong without the names of Go's types.
func jsonMistake(err error) string {
	if e, ok := err.(*jsonv2.SemanticError); ok && e.JSONPointer != "" {
		return "look at " + string(e.JSONPointer) + ", which is a JSON " + e.JSONKind.String()
	}
	return "they are not a JSON object"
}

// missing returns the first of the required arguments that is not there; "" if all are.
func (t *tool) missing(args []byte) string {
	if t.required == "" {
		return ""
	}
	there := map[string]bool{}
	d := jsontext.NewDecoder(bytes.NewReader(args))
	if k := d.PeekKind(); k != '{' {
		return strings.Fields(t.required)[0]
	}
	_, _ = d.ReadToken()
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			break
		}
		there[strings.ToLower(name.String())] = d.PeekKind() != 'n' // null is as good as nothing
		if d.SkipValue() != nil {
			break
		}
	}
	for name := range strings.FieldsSeq(t.required) {
		if !there[strings.ToLower(name)] {
			return name
		}
	}
	return ""
}

// number is a number that counts something; agents send 1.5 and 1e3, too.
type number float64

// whole returns n as a count of at most most. A part counts as a whole one.
func (n number) whole(most int) int {
	switch f := math.Ceil(float64(n)); {
	case f != f || f < 0:
		return 0
	case f > float64(most):
		return most
	default:
		return int(f)
	}
}

// condition returns the condition for a version that an agent has sent; "" is none.
func condition(version string) (vfs.If, error) {
	if version == "" {
		return vfs.If{}, nil
	}
	v, err := vfs.ParseVersion(version)
	if err != nil {
		return vfs.If{}, vfs.Errorf(vfs.Invalid, "ifVersion is no version; read_text_file and get_file_info answer it")
	}
	return vfs.If{Is: v}, nil
}
