// Package config reads the file that says what a host serves, and to whom. It
// reads no files itself, opens no store and knows nothing of any: it turns bytes
// into a [Config], or says in which line they are wrong. docs/configuration.md is
// for those who write such a file.
package config

import (
	_ "embed"

	"capd/meter"
	"capd/vfs"
)

// Config is what a file says. Paths of the host in it may be relative: they are
// meant from the directory that the file is in.
type Config struct {
	State     string   // the host's state directory; "" for the usual one
	Listen    []string // tls:HOST:PORT each
	Advertise string   // HOST or HOST:PORT, an IPv6 address in brackets; "" for none
	// Who may connect to the guests' Unix socket, and where it is; "" for the usual.
	SocketMode  string // octal, such as 0660
	SocketGroup string
	SocketDir   string

	Limits      meter.Limits // of all guests together; what it does not say is as meter.HostLimits has it
	GuestLimits meter.Limits // of each grant; what it does not say is as meter.GrantLimits has it

	Mounts []Mount // at least one
	Guests []Guest // who get a grant when the host starts
}

// Mount is one store, and where guests see it.
type Mount struct {
	Path     string // each at its own; "" for the root of the tree
	URL      string // SCHEME:REST; nothing but the scheme's letters is checked
	ReadOnly bool
	Links    string   // LinksFollow or LinksRefuse
	Deny     []string // patterns that package deny takes; nil for what is usual with such a store
	Ask      []string // likewise
	Quota    Quota
	Where    string // "NAME:LINE:COLUMN" of the mount in the file, for errors of who opens it
}

// What a mount may do about links.
const (
	LinksFollow = "follow" // those that stay within; the default
	LinksRefuse = "refuse"
)

// Guest is a holder of a grant.
type Guest struct {
	Name     string // each its own
	Path     string // in the tree; "" for all of it. It need not lie in a mount, nor exist
	ReadOnly bool
	Limits   meter.Limits // what it does not say is as Config.GuestLimits has it
	Where    string       // "NAME:LINE:COLUMN" of the guest in the file
}

// Quota bounds what may be added to a mount. A zero field is no bound.
type Quota struct {
	Bytes Size  // of content
	Nodes int64 // files, directories and links
}

// MaxFile is how long a file may be, in bytes.
const MaxFile = 1 << 20

// Parse reads data, the content of the file called name: YAML in UTF-8, of which
// JSON is a part. Its errors are for the host. Each is a [*vfs.Error] whose Msg has
// one line, "NAME:LINE:COLUMN: what is wrong; what to write instead", for every
// mistake that was found, in the order of the file and up to 20 of them; the code is
// invalid, or tooLarge above [MaxFile].
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

// Schema returns the JSON Schema (draft 2020-12) of such a file, for editors. It
// refuses nothing that [Parse] takes.
func Schema() []byte { return append([]byte(nil), schema...) }
