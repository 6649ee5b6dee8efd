package operator

import "context"

// Hook is a hook as it is registered: what is asked before guests' changes, or told of them afterwards. docs/hooks.md
// describes hooks.
type Hook struct {
	Name       string   `json:"name"`
	Command    []string `json:"command,omitempty"`    // a program of the host's, and its arguments; none for a capability
	Operations []string `json:"operations,omitempty"` // of write, delete and move; none for all three
	Patterns   []string `json:"patterns,omitempty"`   // none for every path
	Subject    string   `json:"subject,omitempty"`    // whose changes skip it; "" for nobody
	Before     bool     `json:"before"`               // it is asked before
	After      bool     `json:"after"`                // it is told afterwards
	Observe    bool     `json:"observe"`              // what it answers before is only noted
	Source     string   `json:"source,omitempty"`     // where it is registered: "capd.yaml:31:5", or [ConsoleSource]
}

// ConsoleSource is the Source of a hook that was registered over the console.
const ConsoleSource = "console"

// HookState is a registered hook.
type HookState struct {
	Hook
	Gone    bool   `json:"gone,omitempty"`    // its capability is not there
	Behind  uint64 `json:"behind"`            // entries of the record that it was not told of yet
	Failing string `json:"failing,omitempty"` // why it could not be told of the next
}

// HookedChange is a change that a guest makes, as hooks see it.
type HookedChange struct {
	Operation string // such as replace, write, remove, rename
	Path      string // in the host's tree
	To        string // of a rename
	Root      string // the id of the root that Path is in, or ""
	Subject   string // who makes it, KIND:ID
	Grant     string // the id of the grant or share that it comes through
}

// HookOutcome is how a change ended.
type HookOutcome struct {
	ID     string // of the change: c and a number
	Result string // done, failed, not done or unknown
	Code   string // why it failed, or ""
	AtMs   int64  // when that was recorded, in milliseconds since 1970
}

// HookAnswer is what a hook says about a change before it is made.
type HookAnswer string

// The answers.
const (
	HookOK   HookAnswer = "ok"   // nothing against it
	HookDeny HookAnswer = "deny" // it is not made
	HookAsk  HookAnswer = "ask"  // an operator has to approve it
)

// HookCalls are what a hook implements. Each returns when ctx ends.
type HookCalls interface {
	// Before asks about a change. reason is for deny and ask.
	Before(ctx context.Context, c HookedChange) (answer HookAnswer, reason string, err error)
	// After tells of a change that has ended. After an error it is told again.
	After(ctx context.Context, c HookedChange, o HookOutcome) error
}

// HookCaller calls a hook.
type HookCaller interface {
	HookCalls
	// Gone reports whether nobody can be called any more.
	Gone() bool
}

// Hooks are the hooks of a host, as its operator uses them.
type Hooks interface {
	// AddHook registers a hook that by calls. It replaces one of the same name.
	AddHook(ctx context.Context, h Hook, by HookCaller) error
	// ListHooks returns them in the order in which they are asked.
	ListHooks(ctx context.Context) ([]HookState, error)
	// RemoveHook takes back what AddHook has registered.
	RemoveHook(ctx context.Context, name string) error
}
