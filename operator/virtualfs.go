package operator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/membrane"
)

// Attenuation restricts a mounted tree.
type Attenuation struct {
	ReadOnly bool     `json:"readOnly"`        // every change answers readOnly; in a [Mount] also set if the store never changes
	NoLinks  bool     `json:"noLinks"`         // links are denied instead of followed
	Deny     []string `json:"deny,omitempty"`  // patterns to withhold (see package deny); nil means the store's default
	Ask      []string `json:"ask,omitempty"`   // patterns whose changes need an approval; nil means the store's default
	Bytes    int64    `json:"bytes,omitempty"` // bytes by which the mount may grow; 0 means no bound of its own
	Nodes    int64    `json:"nodes,omitempty"` // files, directories and links by which it may grow; 0 means no bound of its own

	// Guards are the host's own policies. They are checked after those above. They can only be
	// set from Go.
	Guards []membrane.Guard `json:"-"`
}

// Mount is one mounted store.
type Mount struct {
	Path string `json:"path"` // in the namespace; "" is the root
	URL  string `json:"url"`  // as resolved
	Kind string `json:"kind"` // the URL's scheme
	Attenuation
	Detail  string `json:"detail"`  // the store's description, for people: "main at 1a2b3c4"; may be ""
	Changes bool   `json:"changes"` // changes wait in it for apply, commit or revert; diff shows them
	Kept    bool   `json:"kept"`    // its changes are kept on disk, and are there after a restart
}

// Place returns the path of a mount for people.
func Place(path string) string {
	if path == "" {
		return "(everything)"
	}
	return vfs.Printable(path) + "/"
}

// DiffOptions say what to compare. By default a mount's changes are compared with what
// they are based on; an overlay without changes shows those of a git store below it.
// From and To compare two revisions of a git mount instead.
type DiffOptions struct {
	Paths    []string // at and below these, relative to the mount; nil means all
	From, To string   // revisions; both "" means the mount's own changes
	Text     bool     // with unified text, at most [MaxText] bytes for each change
}

// MaxText is the largest size, in bytes, of the text of one change. What does not fit
// is left out, and Lacks says so.
const MaxText = 4 << 20

// ApplyOptions say what to apply.
type ApplyOptions struct {
	Paths []string // at and below these, relative to the mount; nil means all
	If    Review   // apply only if the changes are the reviewed ones; the zero Review applies any

	// Guarded lets in changes at guarded paths; see [Attenuation].Ask. Otherwise Apply answers askDenied for them, and
	// changes nothing.
	Guarded bool

	// Ours and Theirs decide where both the overlay and the tree below it changed. At
	// and below Ours the overlay wins. At and below Theirs the tree below stays, and
	// the overlay's changes are dropped. There must be a change at or below each path
	// (otherwise invalid).
	Ours, Theirs []string
}

// Review identifies the changes that somebody saw.
type Review [sha256.Size]byte

// String returns 64 hexadecimal digits.
func (r Review) String() string { return hex.EncodeToString(r[:]) }

// MarshalText is [Review.String].
func (r Review) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// ParseReview parses what String returns. It answers invalid.
func ParseReview(s string) (r Review, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(r) {
		return Review{}, vfs.Errorf(vfs.Invalid, "a review is 64 hexadecimal digits, as a diff answers them")
	}
	return Review(b), nil
}

// Applied is the result of an apply.
type Applied struct {
	ID      string   `json:"id,omitempty"`      // for Undo; "" if nothing was changed
	Changes int      `json:"changes"`           // as Diff lists them
	Dropped []string `json:"dropped,omitempty"` // the sorted paths at which the overlay's changes gave way to Theirs; Undo does not bring them back

	// DroppedTotal is the length of all of Dropped. A client receives only the first
	// 1000 paths.
	DroppedTotal int `json:"-"`
}

// Commit describes a commit of a git mount.
type Commit struct {
	Message       string
	Author, Email string // "" means those of the repository's configuration
	Ref           string // a branch; "" means the mount's own
	Old           string // the commit that Ref must have, in hexadecimal; "" means the one the mount was opened at, or none if Ref is new
	If            Review // commit only if the changes are the reviewed ones; the zero Review commits any
}

// Snapshot is a tree in a content-addressed store.
type Snapshot struct {
	Digest string // of the root: 64 hexadecimal digits
	Size   int64  // bytes of the root's message
	Files  int64
	Bytes  int64 // of all files
	New    int64 // bytes of these that were new to the store
}

// Progress reports how far long work has come: entries and bytes so far. It must not
// block. It may be nil.
type Progress func(entries, bytes int64)

// Steps returns a function that reports the steps that are done as entries. It is nil if p
// is.
func (p Progress) Steps() func(done, total int) {
	if p == nil {
		return nil
	}
	return func(done, _ int) { p(int64(done), 0) }
}

// Bounds limit how much may be materialized. A zero field means the default.
type Bounds struct {
	Entries int64
	Bytes   int64
}

// Tree is a materialized subtree. Close removes the directory.
type Tree interface {
	Path() string // on the host
	Changes(ctx context.Context) ([]diff.Change, []diff.Skipped, error)
	// Sync brings back what changed, all or nothing. It answers conflict with every
	// path that changed on both sides. Nothing may write to the directory meanwhile.
	Sync(ctx context.Context, progress Progress) (changes int, skipped []diff.Skipped, err error)
	Close() error
}

// VirtualFs changes the composition of a host's tree. Package virtualfs implements it for
// the host, and client/console for its operator.
type VirtualFs interface {
	// Mount mounts the store of url at path. It answers exists, invalid, limit, and
	// errors of opening the store.
	Mount(ctx context.Context, path, url string, a Attenuation) error
	// Unmount removes a mount. It drops changes that were neither applied nor
	// committed. It answers notFound, and busy while changes to the store are under
	// way.
	Unmount(ctx context.Context, path string) error
	// Diff yields changes in byte order of paths, beginning after the path after. The
	// Review identifies all changes at and below o.Paths, yielded or not. It is zero
	// where revisions are compared. For a path with neither a node nor a change Diff
	// answers notFound, as Apply and Revert do.
	Diff(ctx context.Context, path string, o DiffOptions, after string, yield func(diff.Change) bool) (Review, error)
	// Apply applies the chosen changes, all or none. It answers conflict when they are
	// no longer the reviewed ones.
	Apply(ctx context.Context, path string, o ApplyOptions, progress Progress) (Applied, error)
	// Undo reverses an apply. The applied changes wait again; dropped ones do not.
	Undo(ctx context.Context, path, id string) error
	// Revert drops the changes that Diff shows at and below paths (nil: all) and
	// returns their number.
	Revert(ctx context.Context, path string, paths []string) (int, error)
	// Commit commits a git mount's changes and returns the commit's id. It answers
	// conflict when they are no longer the reviewed ones.
	Commit(ctx context.Context, path string, c Commit) (string, error)
	// Snapshot puts the subtree at path into the content-addressed store called store;
	// "" means the host's own. It pins it under the name pin unless that is "".
	Snapshot(ctx context.Context, path, store, pin string, progress Progress) (Snapshot, error)
	// Materialize copies the subtree at path into a private directory.
	Materialize(ctx context.Context, path string, b Bounds, progress Progress) (Tree, error)
}
