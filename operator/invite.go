package operator

import (
	"slices"
	"strings"
	"time"

	"capd/vfs"
	"capd/vfs/membrane"
)

// Invite lets a subject ask for grants that it does not hold.
type Invite struct {
	ID          string       `json:"id"`                  // i and a number; not secret
	Subject     Subject      `json:"subject"`             // who asks
	Permissions []Permission `json:"permissions"`         // what is given without asking anybody
	Source      string       `json:"source"`              // who said so: ByManifest, ByConversation or ByCore
	MadeBy      string       `json:"madeBy"`              // who made it: ByOperator, or ByConfig
	State       State        `json:"state"`               // Active, Revoked or Expired
	MadeMs      int64        `json:"madeMs"`              // when it was made, in milliseconds since the Unix epoch
	ExpiresMs   int64        `json:"expiresMs,omitempty"` // when it expires, likewise; 0: never
}

// Who said what an [Invite] gives without asking anybody. The grants that are given so have that as their source.
const (
	ByManifest     = "manifest"     // the manifest of the program that asks
	ByConversation = "conversation" // a person, in a conversation with an agent
	ByCore         = "core"         // the program that runs the host
	ByApproval     = "approval"     // somebody who was asked
)

// InviteTerms are the terms of an [Invite].
type InviteTerms struct {
	Permissions []Permission
	Source      string        // "" is ByManifest
	Expires     time.Duration // after which it ends; 0 is never
}

// Check answers invalid for terms that mean nothing.
func (t InviteTerms) Check() error {
	switch t.Source {
	case "", ByManifest, ByConversation, ByCore:
	default:
		return vfs.Errorf(vfs.Invalid, "the source is manifest, conversation or core")
	}
	if t.Expires < 0 {
		return vfs.Errorf(vfs.Invalid, "a time is above 0; leave it out for no end")
	}
	if len(t.Permissions) > MaxPermissions {
		return vfs.Errorf(vfs.Invalid, "an invitation has at most %d permissions; write several rights in one", MaxPermissions)
	}
	return nil
}

// MaxPermissions is how many permissions an [Invite] has at most.
const MaxPermissions = 64

// Permission is some rights in the roots of one kind. As text it is filesystem:KIND:RIGHT,….
type Permission struct {
	Kind   string // one of RootKinds, but not Secret
	Rights membrane.Rights
}

// ParsePermission reads a Permission, such as filesystem:workspace:read,list. It answers invalid.
func ParsePermission(text string) (p Permission, err error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 || parts[0] != "filesystem" {
		return p, vfs.Errorf(vfs.Invalid, "%s is no permission; write filesystem:KIND:RIGHT,…, such as filesystem:workspace:read,list", Quote(vfs.Printable(text)))
	}
	switch kind := parts[1]; {
	case kind == Secret:
		return p, vfs.Errorf(vfs.Invalid, "nothing in a root of the kind secret is given to who asks; grant the root itself")
	case !slices.Contains(RootKinds(), kind):
		return p, vfs.Errorf(vfs.Invalid, "%s is no kind of root; write one of %s", Quote(vfs.Printable(kind)), strings.Join(RootKinds(), ", "))
	}
	p.Kind = parts[1]
	if p.Rights, err = membrane.ParseRights(parts[2]); err == nil && p.Rights == 0 {
		err = vfs.Errorf(vfs.Invalid, "a permission names at least one right")
	}
	return p, err
}

// String returns the text that ParsePermission reads.
func (p Permission) String() string { return "filesystem:" + p.Kind + ":" + p.Rights.String() }

// MarshalText implements encoding.TextMarshaler.
func (p Permission) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Permission) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePermission(string(text))
	return err
}

// Permitted returns the rights that all gives in roots of a kind.
func Permitted(all []Permission, kind string) (r membrane.Rights) {
	for _, p := range all {
		if p.Kind == kind {
			r |= p.Rights
		}
	}
	return r
}

// Offer is a root that a subject may ask for.
type Offer struct {
	ID      string          `json:"id"`
	Kind    string          `json:"kind"`
	Name    string          `json:"name,omitempty"`
	Labels  []string        `json:"labels,omitempty"`
	Rights  membrane.Rights `json:"rights"`  // the most that can be asked for
	Granted membrane.Rights `json:"granted"` // of these, what is given without asking anybody
}

// Wish is what a subject asks for.
type Wish struct {
	Root   string // the id of a root, or ID/PATH
	File   bool   // a file is there, and not a directory
	Rights membrane.Rights
	Reason string // for whoever decides; at most MaxReason bytes
}
