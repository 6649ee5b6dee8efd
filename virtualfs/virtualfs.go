// Package virtualfs composes, for a host, one tree of many: it mounts stores that
// are named by URL, each with its own attenuation, and does with them what only a
// host may: see what a copy-on-write layer or a git revision holds that is new, let
// it in or drop it, commit it, take a snapshot, and materialize a part as a private
// directory.
//
// It opens nothing itself: [Options] says who does, for each scheme of URLs. So it
// knows no backend, and a host adds its own.
package virtualfs

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"capd/vfs"
	"capd/vfs/batch"
)

// Attenuation is what a mount takes away from the tree that is mounted.
type Attenuation struct {
	ReadOnly bool     // every change answers readOnly; of a [Mount], also because the store never changes
	NoLinks  bool     // links are refused (denied) rather than followed
	Deny     []string // patterns of what is withheld (see package deny); nil: as the store's kind has it by default
	Ask      []string // patterns of what may be read and not changed; nil: likewise
	Bytes    int64    // by which the mount may grow; 0: no bound of its own
	Nodes    int64    // likewise, in files, directories and links

	// Guards are policies of the host's own, which have their say after those above. No interface carries them:
	// they are given in Go.
	Guards []vfs.Guard
}

// Mount is one mounted store.
type Mount struct {
	Path        string // in the namespace; "" is its root
	URL         string // as it was resolved
	Kind        string // the URL's scheme
	Attenuation Attenuation
	Detail      string // what the store says of itself, for people: "main at 1a2b3c4"; may be ""
	Changes     bool   // it holds changes that diff shows and apply, commit or revert settles
}

// ChangeKind says how something differs.
type ChangeKind string

// The kinds of change.
const (
	Added    ChangeKind = "added"
	Removed  ChangeKind = "removed"
	Modified ChangeKind = "modified"
	Renamed  ChangeKind = "renamed"
	Mode     ChangeKind = "mode" // the executable bit alone
	Type     ChangeKind = "type" // a file where a link or a directory was, and so on
)

// Change is one difference. Paths are relative to the mount.
type Change struct {
	Path string
	From string // of what was renamed; "" otherwise
	Kind ChangeKind
	Was  batch.State
	Is   batch.State
	Text string // unified, where it was asked for; "" where there is none

	// Lacks says what Text lacks of the change, for people; "": git apply makes of the
	// texts of all changes together what they are.
	Lacks string

	Own any // what the store that yielded it calls the change; see [Own]
}

// KindOf is the kind of a change in place from was to is.
func KindOf(was, is batch.State) ChangeKind {
	switch {
	case was.Absent():
		return Added
	case is.Absent():
		return Removed
	case was.Kind != is.Kind:
		return Type
	case was.Version == is.Version && was.Target == is.Target:
		return Mode
	}
	return Modified
}

// DiffOptions says what to compare. A mount with changes of its own is compared
// with what lies beneath it, and an overlay that has none shows what waits in a git
// revision beneath; From and To name two revisions of a git mount instead.
type DiffOptions struct {
	Paths    []string // at and below these, relative to the mount; nil: all
	From, To string   // revisions; both "": the mount's own changes
	Text     bool     // with unified text, at most [MaxText] bytes a change
}

// MaxText is how long the text of one change may be, in bytes; of a longer one what
// does not fit is left out, and Lacks says so.
const MaxText = 4 << 20

// ApplyOptions says what to apply.
type ApplyOptions struct {
	Paths []string // at and below these, relative to the mount; nil: all
	If    Review   // apply only what was reviewed; the zero Review: whatever is there

	// Where the tree beneath changed as well, at and below Ours what was written to the
	// overlay wins. At and below Theirs what is beneath stays, and what was written is
	// dropped. Each is where there is a change, or above one (invalid).
	Ours, Theirs []string
}

// Review stands for the changes that somebody saw.
type Review [sha256.Size]byte

// String returns 64 hexadecimal digits.
func (r Review) String() string { return hex.EncodeToString(r[:]) }

// ParseReview reads what String wrote. It answers invalid.
func ParseReview(s string) (r Review, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(r) {
		return Review{}, vfs.Errorf(vfs.Invalid, "a review is 64 hexadecimal digits, as capd diff prints them")
	}
	return Review(b), nil
}

// Reviewer makes the Review of changes that it is told in the order of a diff. The zero
// Reviewer has seen none.
type Reviewer struct{ seen []byte }

// Add is told the next change: what it is, and not the text, which its versions say.
func (r *Reviewer) Add(c Change) {
	for _, field := range []string{c.Path, c.From, string(c.Kind), state(c.Was), state(c.Is)} {
		r.seen = binary.AppendUvarint(r.seen, uint64(len(field)))
		r.seen = append(r.seen, field...)
	}
	if len(r.seen) > 64<<10 {
		r.seen = append([]byte{'+'}, r.sum()...)
	}
}

func (r *Reviewer) sum() []byte {
	sum := sha256.Sum256(r.seen)
	return sum[:]
}

// Review stands for what Add was told.
func (r *Reviewer) Review() Review { return Review(r.sum()) }

func state(s batch.State) string {
	return fmt.Sprintf("%d %v %v %s", s.Kind, s.Exec, s.Version, s.Target)
}

// Applied is what an apply did.
type Applied struct {
	ID      string // for Undo
	Changes int
	Dropped []string // the paths, sorted, at which what was written gave way to Theirs; Undo brings none back

	// DroppedTotal counts Dropped; a client is told of the first 1000 paths alone.
	DroppedTotal int
}

// Commit is what a commit of a git mount says.
type Commit struct {
	Message       string
	Author, Email string // "": as the repository's configuration has it
	Ref           string // a branch; "": the mount's own
	Old           string // the commit that Ref must point to, in hexadecimal; "": what the mount was opened at, or nothing if Ref is new
}

// Snapshot is a tree that was put into a content-addressed store.
type Snapshot struct {
	Digest string // of the root: 64 hexadecimal digits
	Size   int64  // bytes of the root's message
	Files  int64
	Bytes  int64 // of all files
	New    int64 // of these, bytes that the store did not have
}

// Progress is told how far long work has come: entries and bytes done so far. It
// must not block. It may be nil.
type Progress func(entries, bytes int64)

// Bounds are how much may be materialized; a zero field is the default.
type Bounds struct {
	Entries int64
	Bytes   int64
}

// Skipped is something that was left out, and why.
type Skipped struct {
	Path string
	Why  string
}

// Tree is a materialized subtree. Close removes the directory.
type Tree interface {
	Path() string // on the host
	Changes(ctx context.Context) ([]Change, []Skipped, error)
	// Sync brings back what changed, all or nothing, and answers conflict with every
	// path that changed on both sides. Nothing may write in the directory meanwhile.
	Sync(ctx context.Context, progress Progress) (changes int, skipped []Skipped, err error)
	Close() error
}

// Host is what this package offers, as the wire serves it. [FS] implements it.
type Host interface {
	// Mount answers exists, invalid, limit, and what opening the store answers.
	Mount(ctx context.Context, path, url string, a Attenuation) error
	// Unmount answers notFound, and busy while changes to the store are under way.
	// Changes that were neither applied nor committed go with it.
	Unmount(ctx context.Context, path string) error
	Mounts() []Mount // byte order of paths
	// Root returns the whole tree, with a control of its own.
	Root(ctx context.Context) (vfs.Dir, *vfs.Control, error)
	// Diff yields changes in byte order of paths, those after the path after. The
	// Review stands for all changes at and below o.Paths, whether or not they were
	// yielded. It is the zero Review unless they are an overlay's, which Apply takes. It answers
	// notFound for a path at which there is nothing, and no change, as Apply and Revert do.
	Diff(ctx context.Context, path string, o DiffOptions, after string, yield func(Change) bool) (Review, error)
	// Apply lets in changes, all that are chosen or none of them. It answers conflict when
	// they are no longer what was reviewed.
	Apply(ctx context.Context, path string, o ApplyOptions, progress Progress) (Applied, error)
	// Undo takes an apply back; what it let in is pending again, and what it dropped is not.
	Undo(ctx context.Context, path, id string) error
	// Revert drops the changes that Diff shows at and below paths (nil: all) and counts
	// them.
	Revert(ctx context.Context, path string, paths []string) (int, error)
	// Commit commits a git mount's changes and returns the commit's id.
	Commit(ctx context.Context, path string, c Commit) (string, error)
	// Snapshot puts the subtree at any path into the content-addressed store that
	// store names ("": the host's own), pinned under the name pin unless that is "".
	Snapshot(ctx context.Context, path, store, pin string, progress Progress) (Snapshot, error)
	// Materialize copies the subtree at path into a private directory.
	Materialize(ctx context.Context, path string, b Bounds, progress Progress) (Tree, error)
}
