// Package hook asks programs and capabilities about changes before guests make them, and tells them of changes afterwards.
//
// A hook that is asked may pass a change, deny it, or have an operator asked; it cannot allow what is denied otherwise. Whatever
// goes wrong with it denies the change, unless the hook only observes. What hooks are told comes from the host's record: each
// change at least once, in order.
package hook

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"capd/operator"
	"capd/vfs"
	"capd/vfs/pattern"
)

// Bounds of what hooks may be.
const (
	MaxHooks    = 64   // of a host
	MaxPatterns = 256  // of one hook
	MaxReason   = 1024 // bytes that a hook gives as a reason; what is beyond them is cut off
)

// hook is one registered hook.
type hook struct {
	operator.Hook
	set  *pattern.Set        // of its patterns; nil for every path
	by   operator.HookCaller // nil until it is added again
	stop func()              // ends the telling; nil while it is not told. Chain.mu guards it
	told chan struct{}       // closed when the telling has ended; nil likewise

	mu      sync.Mutex
	cursor  int64  // the number of the next entry of the record that it is told of
	failing string // why it could not be told of the next; "" while it can
}

// at returns how far h was told, and what is wrong.
func (h *hook) at() (cursor int64, failing string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cursor, h.failing
}

// reached keeps what at returns.
func (h *hook) reached(cursor int64, failing string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cursor, h.failing = cursor, failing
}

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// Operations are what hooks can be registered for.
var Operations = []string{"write", "delete", "move"}

// Check answers invalid if h cannot be registered.
func Check(h operator.Hook) error {
	switch {
	case !nameForm.MatchString(h.Name):
		return vfs.Errorf(vfs.Invalid, "a hook cannot be called %q; write 1 to 64 of a-z 0-9 . _ -, the first a letter or a digit", vfs.Printable(h.Name))
	case !h.Before && !h.After:
		return vfs.Errorf(vfs.Invalid, "the hook %s is called neither before changes nor after them; write one of both", h.Name)
	case h.Observe && !h.Before:
		return vfs.Errorf(vfs.Invalid, "the hook %s observes, which concerns what it answers before a change, and it is not asked before", h.Name)
	case len(h.Patterns) > MaxPatterns:
		return vfs.Errorf(vfs.Invalid, "the hook %s has %d patterns; at most %d are matched", h.Name, len(h.Patterns), MaxPatterns)
	case len(h.Command) > 0 && !filepath.IsAbs(h.Command[0]):
		return vfs.Errorf(vfs.Invalid, "the hook %s runs %s; write the program's absolute path", h.Name, vfs.Printable(h.Command[0]))
	}
	for _, op := range h.Operations {
		if !slices.Contains(Operations, op) {
			return vfs.Errorf(vfs.Invalid, "the hook %s has the operation %q; hooks are about changes: write some of %s", h.Name, vfs.Printable(op), strings.Join(Operations, ", "))
		}
	}
	if h.Subject != "" {
		if _, err := operator.ParseSubject(h.Subject); err != nil {
			return vfs.Errorf(vfs.Invalid, "the subject of the hook %s: %s", h.Name, vfs.Message(err))
		}
	}
	if _, err := pattern.Compile(h.Patterns, nil); err != nil {
		return vfs.Errorf(vfs.Invalid, "a pattern of the hook %s: %s", h.Name, vfs.Message(err))
	}
	return nil
}

// compile returns h, which by calls.
func compile(h operator.Hook, by operator.HookCaller) (*hook, error) {
	if err := Check(h); err != nil {
		return nil, err
	}
	c := &hook{Hook: h, by: by}
	if s, err := operator.ParseSubject(h.Subject); err == nil {
		c.Subject = string(s)
	}
	if len(h.Patterns) > 0 {
		c.set, _ = pattern.Compile(h.Patterns, nil) // Check has compiled them
	}
	return c, nil
}

// Change is a change that a guest makes.
type Change struct {
	operator.HookedChange
	// Part says that the change is a part of a move between two trees. A hook about moves is asked about each.
	Part bool
}

// operations are the words for what changes need.
var operations = map[string]string{
	"create": "write", "mkdir": "write", "replace": "write", "write": "write", "truncate": "write", "append": "write", "symlink": "write", "attributes": "write", "copy": "write",
	"remove": "delete", "rename": "move",
}

// concerns reports whether c concerns h.
func (h *hook) concerns(c *Change) bool {
	if h.Subject != "" && h.Subject == c.Subject {
		return false
	}
	op := operations[c.Operation]
	if len(h.Operations) > 0 && !slices.Contains(h.Operations, op) && (!c.Part || !slices.Contains(h.Operations, "move")) {
		return false
	}
	if h.set == nil {
		return true
	}
	from := h.set.At(c.Path)
	if from.Any() || c.Operation != "rename" || c.To == "" {
		return from.Any()
	}
	to := h.set.At(c.To)
	return to.Any() || !from.Same(to) // what lies below a directory may match at one end alone
}

// spec returns the JSON that the database has of h.
func (h *hook) spec() (string, error) {
	text, err := json.Marshal(h.Hook)
	return string(text), err
}

// Limits of time. A hook that has not answered by then has failed.
const (
	Each     = 2 * time.Second // for one hook
	Together = 5 * time.Second // for all hooks about one change
)
