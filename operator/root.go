package operator

import (
	"regexp"
	"slices"
	"strings"

	"capd/vfs"
)

// Root is a directory of a host's tree with a purpose. Its kind says what each kind of
// subject may do there unless a grant goes beyond that; see docs/roots.md. A path belongs to
// the innermost root that it is in.
type Root struct {
	ID     string   `json:"id"`   // 1 to 64 of A-Z a-z 0-9 . _ -, unique
	Kind   string   `json:"kind"` // one of RootKinds
	Path   string   `json:"path"` // in the host's tree, unique; a mount
	Name   string   `json:"name,omitempty"`
	Labels []string `json:"labels,omitempty"`
	Access string   `json:"access,omitempty"` // of a workspace: one of Accesses; "" is AccessRW
	Scope  string   `json:"scope,omitempty"`  // of a workspace without AccessRW: one of DraftScopes; "" is AgentScope
}

// How guests that are neither core nor a person reach a workspace.
const (
	AccessRW   = "rw"   // the workspace itself
	AccessRO   = "ro"   // the workspace for reading, and beside it a draft
	AccessNone = "none" // a draft alone
)

// Accesses are the values of Root.Access.
func Accesses() []string { return []string{AccessRW, AccessRO, AccessNone} }

// Who works in one draft of a workspace, and how long it lasts.
const (
	SessionScope = "session" // one guest, until its last grant ends or the host does
	AgentScope   = "agent"   // one guest
	SharedScope  = "shared"  // all guests
)

// DraftScopes are the values of Root.Scope.
func DraftScopes() []string { return []string{SessionScope, AgentScope, SharedScope} }

// ScopesDir is the name in a host's tree below which the host mounts what is for one guest, or for those who share a
// draft. No grant that stands elsewhere sees it.
const ScopesDir = "scopes"

// ScratchName is the name in a scope of the directory that a guest keeps for itself.
const ScratchName = "scratch"

// InScopes reports whether path is ScopesDir or below it.
func InScopes(path string) bool {
	return path == ScopesDir || strings.HasPrefix(path, ScopesDir+"/")
}

// Drafted reports whether guests work in drafts of r.
func (r Root) Drafted() bool {
	return r.Kind == Workspace && (r.Access == AccessRO || r.Access == AccessNone)
}

// CheckDraft answers invalid for an Access or a Scope that r cannot have.
func (r Root) CheckDraft() error {
	switch {
	case r.Access != "" && r.Kind != Workspace:
		return vfs.Errorf(vfs.Invalid, "only a root of kind workspace has access; leave it out")
	case r.Access != "" && !slices.Contains(Accesses(), r.Access):
		return vfs.Errorf(vfs.Invalid, "access cannot be %q; write %s", r.Access, strings.Join(Accesses(), ", "))
	case r.Scope != "" && !slices.Contains(DraftScopes(), r.Scope):
		return vfs.Errorf(vfs.Invalid, "scope cannot be %q; write %s", r.Scope, strings.Join(DraftScopes(), ", "))
	case r.Scope != "" && !r.Drafted():
		return vfs.Errorf(vfs.Invalid, "scope is that of a workspace's drafts; write access: ro or access: none, or leave it out")
	case r.Kind == Workspace && r.ID == ScratchName:
		return vfs.Errorf(vfs.Invalid, "beside a workspace a guest may have a directory called %s; write another id", ScratchName)
	case r.Drafted() && (r.ID == "." || r.ID == ".."):
		return vfs.Errorf(vfs.Invalid, "a workspace with drafts is a directory with its id, and %s is none; write another id", r.ID)
	}
	return nil
}

// Draft returns the name that the draft of r has in a scope. r is Drafted.
func (r Root) Draft() string {
	if r.Access == AccessNone {
		return r.ID
	}
	return r.ID + "-draft"
}

// ScopeOf returns the path of the directory in which the host mounts what s gets of r.
func (r Root) ScopeOf(s Subject) string {
	name := s.DirName()
	if r.Drafted() && r.Scope == SharedScope {
		name = SharedName
	}
	return vfs.JoinAll(ScopesDir, []string{r.ID, name})
}

// SharedName is the name of a scope of all guests. No directory of a subject's own has it.
const SharedName = "+all"

// The kinds of roots.
const (
	Workspace        = "workspace"         // what agents work on
	ExtensionStorage = "extension-storage" // what extensions keep, each in a directory of its own
	Artifact         = "artifact"          // results, which are added and not taken away
	Temp             = "temp"              // what nobody needs later, in a directory for each subject
	Knowledge        = "knowledge"         // what is only read
	Downloads        = "downloads"         // what came from elsewhere and waits for the operator, in a directory for each subject
	Secret           = "secret"            // what nobody is given who does not ask for it by name
)

// RootKinds are the kinds of roots.
func RootKinds() []string {
	return []string{Workspace, ExtensionStorage, Artifact, Temp, Knowledge, Downloads, Secret}
}

// CheckRootID answers invalid for what is no id of a root.
func CheckRootID(id string) error {
	if !rootID.MatchString(id) {
		return vfs.Errorf(vfs.Invalid, "this is no root's id; write 1 to 64 of A-Z a-z 0-9 . _ -")
	}
	return nil
}

var rootID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Shared reports whether those who are given r see all of it. In a root that is not shared
// each subject is given [Root.Own].
func (r Root) Shared() bool {
	return r.Kind != ExtensionStorage && r.Kind != Temp && r.Kind != Downloads && !r.Drafted()
}

// Own returns the path of the directory that s is given of r, which is not shared: in r, or for a workspace that is
// Drafted its ScopeOf.
func (r Root) Own(s Subject) string {
	if r.Drafted() {
		return r.ScopeOf(s)
	}
	return vfs.Join(r.Path, s.DirName())
}
