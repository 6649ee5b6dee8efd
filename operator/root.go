package operator

import (
	"crypto/sha256"
	"fmt"
	"regexp"
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
}

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
	return r.Kind != ExtensionStorage && r.Kind != Temp && r.Kind != Downloads
}

// Own returns the path of the directory of s in r. Its name is that of s, with + for each
// colon. If that has capital letters, or is no name of a file, a sum is added, so that no two
// subjects share a directory where case does not count.
func (r Root) Own(s Subject) string {
	name := strings.ReplaceAll(s.Name(), ":", "+")
	if strings.ToLower(name) != name || strings.Trim(name, ".") == "" {
		name = fmt.Sprintf("%s+%.4x", name, sha256.Sum256([]byte(name)))
	}
	return vfs.Join(r.Path, name)
}
