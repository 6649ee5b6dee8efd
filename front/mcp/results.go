package mcp

import (
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// annotations returns the hints of t for the protocol's library.
func (t *tool) annotations() *sdk.ToolAnnotations {
	a := &sdk.ToolAnnotations{}
	if err := json.Unmarshal([]byte(t.hints), a); err != nil {
		panic(err) // the tables are tested
	}
	return a
}

// result returns an answer for the protocol's library.
func (a answer) result() *sdk.CallToolResult {
	r := &sdk.CallToolResult{IsError: a.failed}
	if a.media != nil {
		r.Content = []sdk.Content{raw(a.media)}
	} else {
		r.Content = []sdk.Content{&sdk.TextContent{Text: a.text}}
	}
	if !a.failed {
		r.StructuredContent = json.RawMessage(a.appendStructured(nil))
	}
	return r
}

// raw decodes a content block that was encoded here.
func raw(block []byte) sdk.Content {
	var res sdk.CallToolResult
	if err := json.Unmarshal(append(append([]byte(`{"content":[`), block...), `]}`...), &res); err != nil || len(res.Content) != 1 {
		panic("a content block that the library does not read")
	}
	return res.Content[0]
}
