// Package config parses the file that says what a host serves, and to whom. It opens no
// files and no stores: it turns bytes into a [Config], or says which lines are wrong.
// docs/configuration.md describes the file for its authors.
package config

import (
	_ "embed"
	"time"

	"capd/meter"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Config is the content of the file. Host paths in it may be relative to the directory
// of the file.
type Config struct {
	State     string   // the host's state directory; "" for the default
	Listen    []string // each tls:HOST:PORT
	Advertise string   // HOST or HOST:PORT, an IPv6 address in brackets; "" for none
	// Who may connect to the guests' Unix socket, and where it is; "" for the default.
	SocketMode  string // octal, such as 0660
	SocketGroup string
	SocketDir   string

	Limits      meter.Limits // of all guests together; where it is silent, meter.HostLimits holds
	GuestLimits meter.Limits // of each grant; where it is silent, meter.GrantLimits holds

	Record  Record
	History History

	Mounts []Mount // at least one
	Roots  []Root  // what some of the mounts are for
	Guests []Guest // those who get a grant when the host starts

	Invites []Invite // those who may ask for grants

	Approvals string // ApprovalsListen or ApprovalsWait; "" for ApprovalsListen

	Hooks []operator.Hook // each a program, with its Source, "NAME:LINE:COLUMN"

	Rules  []operator.Rule // each with its Source, "NAME:LINE:COLUMN"; not yet checked together
	Policy Policy
}

// Mount is one store, and the path at which guests see it.
type Mount struct {
	Path     string // unique; "" for the root of the tree
	URL      string // SCHEME:REST; only the letters of the scheme are checked
	ReadOnly bool
	Links    string   // LinksFollow or LinksRefuse
	Deny     []string // patterns for package deny; nil for the default of such a store
	Ask      []string // as Deny
	Quota    Quota
	Where    string // "NAME:LINE:COLUMN" of the mount in the file, for errors found when it is opened
}

// Values of Mount.Links.
const (
	LinksFollow = "follow" // follow links that stay within the mount; the default
	LinksRefuse = "refuse"
)

// Values of Config.Approvals.
const (
	ApprovalsListen = "listen" // a change waits for an approval while somebody listens
	ApprovalsWait   = "wait"   // it waits always
)

// Guest is somebody who gets a grant.
type Guest struct {
	Name     string // of its subject, as operator.ParseSubject reads it; unique
	Root     string // the id of the root that it gets, or a part of; "" for a path in the tree
	Path     string // in what the guest sees of the root, or in the tree; "" for all of it. It need not be in a mount, nor exist
	ReadOnly bool
	Rights   membrane.Rights // 0 for what is usual
	Links    bool            // the right link besides
	// Permissions are what it gets besides without asking anybody, if it asks with an invitation; at most operator.MaxPermissions. They
	// hold as long as the guest is among those of Server.Reconcile; Server.Grant and Server.Keep do not regard them.
	Permissions []operator.Permission
	// BeyondDefault grants what the defaults of a root's kind do not give; see docs/roots.md.
	BeyondDefault bool
	Scratch       Scratch
	Limits        meter.Limits // where it is silent, Config.GuestLimits holds
	// Expires is after how long the grant ends, from when it was made; Unused, after how long without use; Uses, how often
	// its locator can be used. 0 is no bound.
	Expires, Unused time.Duration
	Uses            int64
	Where           string // "NAME:LINE:COLUMN" of the guest in the file
	// The file on the host that the guest's locator is written to; "" for none.
	LocatorFile string
}

// Scratch is what an agent keeps for itself beside a workspace, in a directory of its own.
type Scratch struct {
	Bytes Size // at most; 0 for no such directory
}

// Policy is what holds besides Config.Rules.
type Policy struct {
	Default operator.RuleEffect // where no rule matches: RuleDeny, or RuleAllow or "" for what rights say
}

// Quota bounds what may be added to a mount. A zero field means no bound.
type Quota struct {
	Bytes Size  // of content
	Nodes int64 // files, directories and links
}

// MaxFile is the size, in bytes, of the longest file.
const MaxFile = 1 << 20

// Parse parses data, the content of the file called name. It is YAML in UTF-8; JSON is
// a part of YAML. Errors are for the host. An error is a [*vfs.Error] with the code
// invalid, or tooLarge above [MaxFile]. Its Msg has one line for each mistake,
// "NAME:LINE:COLUMN: what is wrong; what to write instead", in the order of the file
// and at most 20.
func Parse(name string, data []byte) (*Config, error) {
	r := &reader{name: vfs.Printable(name)}
	if len(data) > MaxFile {
		return nil, vfs.Errorf(vfs.TooLarge, "%s: the file is longer than %d MiB; write fewer mounts and guests", r.where(start), MaxFile>>20)
	}
	root := r.document(data)
	if root == nil {
		return nil, r.err()
	}
	c := r.config(root)
	if err := r.err(); err != nil {
		return nil, err
	}
	return c, nil
}

//go:embed capd.schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of the file, for editors. It accepts
// everything that [Parse] accepts.
func Schema() []byte { return append([]byte(nil), schema...) }
