//nolint:staticcheck // the suite asks for what the newest revision deprecates
package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The fixtures of MCP's conformance suite: tools, prompts and resources that it calls by their names, and that no directory has. They are added to those of
// front/mcp, over the connections and the HTTP of front/mcp and front/web.

// pixel and silence are the smallest PNG and WAV files.
var (
	pixel = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00:~\x9bU\x00\x00\x00\nIDATx\x9cc`\x00\x00\x00\x02\x00\x01H\xaf\xa4q\x00\x00\x00\x00IEND\xaeB`\x82")

	silence = []byte("RIFF$\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00@\x1f\x00\x00@\x1f\x00\x00\x01\x00\x08\x00data\x00\x00\x00\x00")
)

func saying(text string, more ...sdk.Content) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: append([]sdk.Content{&sdk.TextContent{Text: text}}, more...)}
}

func needs(what sdk.InputRequestMap, state string) *sdk.CallToolResult {
	return &sdk.CallToolResult{InputRequests: what, RequestState: state}
}

// form asks a person for one field.
func form(name, kind string) *sdk.ElicitParams {
	return &sdk.ElicitParams{Message: "Say your " + name, RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{name: map[string]any{"type": kind}}, "required": []string{name},
	}}
}

func sample(text string) *sdk.CreateMessageParams {
	return &sdk.CreateMessageParams{MaxTokens: 50, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: text}}}}
}

// filled returns a field of a form that a person has filled in; nil for none.
func filled(all sdk.InputResponseMap, key, field string) any {
	if r, _ := all[key].(*sdk.ElicitResult); r != nil && r.Action == "accept" {
		return r.Content[field]
	}
	return nil
}

// sampled returns what a model has said.
func sampled(all sdk.InputResponseMap, key string) (string, bool) {
	r, _ := all[key].(*sdk.CreateMessageWithToolsResult)
	if r == nil || len(r.Content) == 0 {
		return "", false
	}
	text, ok := r.Content[0].(*sdk.TextContent)
	return text.Text, ok
}

var errState = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "this is not the state that was given"}

type fixture func(ctx context.Context, r *sdk.CallToolRequest, args map[string]any) (*sdk.CallToolResult, error)

// askedOf returns a fixture that asks a person in the middle of the call.
func askedOf(schema map[string]any) fixture {
	return func(ctx context.Context, r *sdk.CallToolRequest, args map[string]any) (*sdk.CallToolResult, error) {
		message, _ := args["message"].(string)
		got, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: message, RequestedSchema: map[string]any{"type": "object", "properties": schema}})
		if err != nil {
			return nil, err
		}
		return saying(fmt.Sprintf("action=%s, content=%v", got.Action, got.Content)), nil
	}
}

func titled(pairs ...string) (all []map[string]any) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, map[string]any{"const": pairs[i], "title": pairs[i+1]})
	}
	return all
}

// confirmed is a fixture with a state that goes to the client and comes back.
func confirmed(_ context.Context, r *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, error) {
	const state = "given"
	switch {
	case r.Params.RequestState != "" && r.Params.RequestState != state:
		return nil, errState
	case r.Params.RequestState != "" && filled(r.Params.InputResponses, "confirm", "ok") != nil:
		return saying("state-ok"), nil
	}
	return needs(sdk.InputRequestMap{"confirm": form("ok", "boolean")}, state), nil
}

var fixtures = map[string]fixture{
	"test_simple_text": func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error) {
		return saying("This is a simple text response for testing."), nil
	},
	"test_image_content": func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{Data: pixel, MIMEType: "image/png"}}}, nil
	},
	"test_audio_content": func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.AudioContent{Data: silence, MIMEType: "audio/wav"}}}, nil
	},
	"test_embedded_resource": func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{embedded("test://embedded-resource")}}, nil
	},
	"test_multiple_content_types": func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error) {
		return saying("several kinds", &sdk.ImageContent{Data: pixel, MIMEType: "image/png"}, embedded("test://mixed-content-resource")), nil
	},
	"test_tool_with_logging": func(ctx context.Context, r *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, error) {
		for _, text := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
			_ = r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: text})
			time.Sleep(50 * time.Millisecond)
		}
		return saying("logged"), nil
	},
	"test_tool_with_progress": func(ctx context.Context, r *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, error) {
		token := r.Params.GetProgressToken()
		for _, done := range []float64{0, 50, 100} {
			_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: done, Total: 100})
			time.Sleep(50 * time.Millisecond)
		}
		return saying(fmt.Sprint(token)), nil
	},
	"test_error_handling": func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error) {
		r := saying("This tool intentionally returns an error for testing")
		r.IsError = true
		return r, nil
	},
	"test_sampling": func(ctx context.Context, r *sdk.CallToolRequest, args map[string]any) (*sdk.CallToolResult, error) {
		prompt, _ := args["prompt"].(string)
		got, err := r.Session.CreateMessage(ctx, sample(prompt))
		if err != nil {
			return nil, err
		}
		text, _ := got.Content.(*sdk.TextContent)
		return saying("LLM response: " + text.Text), nil
	},
	"test_elicitation": askedOf(map[string]any{"username": map[string]any{"type": "string"}, "email": map[string]any{"type": "string"}}),
	"test_elicitation_sep1034_defaults": askedOf(map[string]any{
		"name": map[string]any{"type": "string", "default": "John Doe"}, "age": map[string]any{"type": "integer", "default": 30},
		"score": map[string]any{"type": "number", "default": 95.5}, "verified": map[string]any{"type": "boolean", "default": true},
		"status": map[string]any{"type": "string", "enum": []string{"active", "inactive", "pending"}, "default": "active"},
	}),
	"test_elicitation_sep1330_enums": askedOf(map[string]any{
		"untitledSingle": map[string]any{"type": "string", "enum": []string{"option1", "option2", "option3"}},
		"titledSingle":   map[string]any{"type": "string", "oneOf": titled("value1", "First", "value2", "Second", "value3", "Third")},
		"legacyEnum":     map[string]any{"type": "string", "enum": []string{"opt1", "opt2", "opt3"}, "enumNames": []string{"One", "Two", "Three"}},
		"untitledMulti":  map[string]any{"type": "array", "items": map[string]any{"type": "string", "enum": []string{"option1", "option2", "option3"}}},
		"titledMulti":    map[string]any{"type": "array", "items": map[string]any{"anyOf": titled("value1", "First", "value2", "Second", "value3", "Third")}},
	}),
	"test_reconnection": func(_ context.Context, r *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, error) {
		if r.Extra != nil && r.Extra.CloseSSEStream != nil {
			r.Extra.CloseSSEStream(sdk.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
		}
		time.Sleep(100 * time.Millisecond)
		return saying("answered after the stream was closed"), nil
	},
	"test_missing_capability": func(_ context.Context, r *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, error) {
		if has := r.ClientCapabilities(); has != nil && has.Sampling != nil {
			return saying("the client can sample"), nil
		}
		data, err := json.Marshal(sdk.MissingRequiredClientCapabilityData{RequiredCapabilities: &sdk.ClientCapabilities{Sampling: &sdk.SamplingCapabilities{}}})
		if err != nil {
			return nil, err
		}
		return nil, &jsonrpc.Error{Code: sdk.CodeMissingRequiredClientCapabilities, Message: "the client cannot sample", Data: data}
	},
	"test_streaming_elicitation": func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error) {
		return saying("nothing was asked on the stream"), nil
	},
	"test_logging_tool": func(ctx context.Context, r *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, error) {
		_ = r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: "only for clients that asked"})
		return saying("logged, or not"), nil
	},
	"test_input_required_result_elicitation": func(_ context.Context, r *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, error) {
		if name, _ := filled(r.Params.InputResponses, "user_name", "name").(string); name != "" {
			return saying("Hello, " + name + "!"), nil
		}
		return needs(sdk.InputRequestMap{"user_name": form("name", "string")}, ""), nil
	},
	"test_input_required_result_sampling": func(_ context.Context, r *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, error) {
		if text, ok := sampled(r.Params.InputResponses, "capital_question"); ok {
			return saying("the model says " + text), nil
		}
		return needs(sdk.InputRequestMap{"capital_question": sample("What is the capital of France?")}, ""), nil
	},
	"test_input_required_result_list_roots": func(_ context.Context, r *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, error) {
		if got, _ := r.Params.InputResponses["client_roots"].(*sdk.ListRootsResult); got != nil {
			return saying(fmt.Sprintf("the client has %d roots", len(got.Roots))), nil
		}
		return needs(sdk.InputRequestMap{"client_roots": &sdk.ListRootsParams{}}, ""), nil
	},
	"test_input_required_result_request_state":  confirmed,
	"test_input_required_result_tampered_state": confirmed,
	"test_input_required_result_multiple_inputs": func(_ context.Context, r *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, error) {
		in := r.Params.InputResponses
		name, _ := filled(in, "user_name", "name").(string)
		greeting, greeted := sampled(in, "greeting")
		roots, _ := in["client_roots"].(*sdk.ListRootsResult)
		if name != "" && greeted && roots != nil {
			return saying(fmt.Sprintf("%s %s, of %d roots", greeting, name, len(roots.Roots))), nil
		}
		return needs(sdk.InputRequestMap{"user_name": form("name", "string"), "greeting": sample("Generate a greeting"), "client_roots": &sdk.ListRootsParams{}}, "several"), nil
	},
	"test_input_required_result_multi_round": func(_ context.Context, r *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, error) {
		const second = "second "
		switch name, ok := strings.CutPrefix(r.Params.RequestState, second); {
		case r.Params.RequestState == "":
			return needs(sdk.InputRequestMap{"step1": form("name", "string")}, "first"), nil
		case !ok:
			return needs(sdk.InputRequestMap{"step2": form("color", "string")}, second+fmt.Sprint(filled(r.Params.InputResponses, "step1", "name"))), nil
		default:
			return saying(fmt.Sprintf("%s likes %v", name, filled(r.Params.InputResponses, "step2", "color"))), nil
		}
	},
	"test_input_required_result_capabilities": func(_ context.Context, r *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, error) {
		has, all := r.ClientCapabilities(), sdk.InputRequestMap{}
		if has == nil || len(r.Params.InputResponses) > 0 {
			return saying("enough"), nil
		}
		if has.Elicitation != nil {
			all["user_name"] = form("name", "string")
		}
		if has.Sampling != nil {
			all["greeting"] = sample("Generate a greeting")
		}
		if len(all) == 0 {
			return saying("there is nobody to ask"), nil
		}
		return needs(all, ""), nil
	},
}

func embedded(uri string) *sdk.EmbeddedResource {
	return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: uri, MIMEType: "text/plain", Text: "This is an embedded resource content."}}
}

func prompted(all ...sdk.Content) *sdk.GetPromptResult {
	r := &sdk.GetPromptResult{Description: "of the suite"}
	for _, c := range all {
		r.Messages = append(r.Messages, &sdk.PromptMessage{Role: "user", Content: c})
	}
	return r
}

type promptFixture func(args map[string]string, r *sdk.GetPromptRequest) *sdk.GetPromptResult

var promptFixtures = map[string]promptFixture{
	"test_simple_prompt": func(map[string]string, *sdk.GetPromptRequest) *sdk.GetPromptResult {
		return prompted(&sdk.TextContent{Text: "This is a simple prompt for testing."})
	},
	"test_prompt_with_arguments arg1 arg2": func(a map[string]string, _ *sdk.GetPromptRequest) *sdk.GetPromptResult {
		return prompted(&sdk.TextContent{Text: fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", a["arg1"], a["arg2"])})
	},
	"test_prompt_with_embedded_resource resourceUri": func(a map[string]string, _ *sdk.GetPromptRequest) *sdk.GetPromptResult {
		return prompted(embedded(a["resourceUri"]), &sdk.TextContent{Text: "Please process the embedded resource above."})
	},
	"test_prompt_with_image": func(map[string]string, *sdk.GetPromptRequest) *sdk.GetPromptResult {
		return prompted(&sdk.ImageContent{Data: pixel, MIMEType: "image/png"}, &sdk.TextContent{Text: "Please analyze the image above."})
	},
	"test_input_required_result_prompt": func(_ map[string]string, r *sdk.GetPromptRequest) *sdk.GetPromptResult {
		if text := filled(r.Params.InputResponses, "user_context", "context"); text != nil {
			return prompted(&sdk.TextContent{Text: fmt.Sprint("Context: ", text)})
		}
		return &sdk.GetPromptResult{InputRequests: sdk.InputRequestMap{"user_context": form("context", "string")}}
	},
}

// addFixtures adds all fixtures to a server.
func addFixtures(s *sdk.Server) {
	add := func(name string, f fixture) {
		s.AddTool(&sdk.Tool{Name: name, Description: "of the suite", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			args := map[string]any{}
			if err := json.Unmarshal(r.Params.Arguments, &args); err != nil && len(r.Params.Arguments) > 0 {
				return nil, err
			}
			return f(ctx, r, args)
		})
	}
	for name, f := range fixtures {
		add(name, f)
	}
	nothing := func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error) {
		return saying(""), nil
	}
	add("test_trigger_tool_change", func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error) {
		add("test_of_a_moment", nothing)
		return saying("told"), nil
	})
	prompt := func(text string, f promptFixture) {
		name, args, _ := strings.Cut(text, " ")
		p := &sdk.Prompt{Name: name, Description: "of the suite"}
		for _, arg := range strings.Fields(args) {
			p.Arguments = append(p.Arguments, &sdk.PromptArgument{Name: arg, Required: true})
		}
		s.AddPrompt(p, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return f(r.Params.Arguments, r), nil
		})
	}
	for text, f := range promptFixtures {
		prompt(text, f)
	}
	add("test_trigger_prompt_change", func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, error) {
		prompt("test_of_a_moment", promptFixtures["test_simple_prompt"])
		return saying("told"), nil
	})
	for uri, c := range map[string]sdk.ResourceContents{
		"test://static-text": {MIMEType: "text/plain", Text: "static"}, "test://static-binary": {MIMEType: "image/png", Blob: pixel},
		"test://watched-resource": {MIMEType: "text/plain", Text: "watched"},
	} {
		s.AddResource(&sdk.Resource{URI: uri, Name: uri, MIMEType: c.MIMEType}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			c.URI = uri
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{&c}}, nil
		})
	}
	s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "test://template/{id}/data", Name: "template", MIMEType: "application/json"},
		func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(r.Params.URI, "test://template/"), "/data")
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, MIMEType: "application/json", Text: fmt.Sprintf(`{"id":%q}`, id)}}}, nil
		})
}
