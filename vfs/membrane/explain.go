package membrane

import (
	"context"

	"capd/vfs"
)

// Question asks whether an operation could be done now.
type Question struct {
	Right Rights // exactly one: Read, Write (a whole file), Delete, List, Metadata or Move
	Path  string // below the node that is asked about; "" for a file itself, or to read what a directory is
	To    string // Move: the new path, below the same node
}

// Explanation is the answer to a Question.
type Explanation struct {
	Err     error    // with which the operation would fail now, or nil
	Asks    []string // why it waits for an approval first; none if it does not
	Reasons []Reason // what decides, in the order in which it is asked
	Kind    OpKind   // what was tried
	Places  []string // where, and for a move where to, from the root of n's membrane
}

// Reason is one thing that decides about an operation.
type Reason struct {
	What   string // "rights": see the constants
	Err    error  // with which it refuses the operation, or nil
	Text   string // what it says, for people
	Source string // where it is written, for the host alone; may be ""
	Locked bool   // the host has locked what is missing, and may unlock it
	Within bool   // it belongs to a mount, inside the grant; a guest is told of it only if it refuses
}

// What decides about an operation.
const (
	AboutPath     = "path"     // the directories and links on the way
	AboutGate     = "gate"     // revoked, expired, unmounted, or in use
	AboutRights   = "rights"   // what the capability was given, less what the host has locked
	AboutWithheld = "withheld" // paths that a guard hides
	AboutRule     = "rule"     // the host's rules
	AboutBounds   = "bounds"   // of the rules: sizes, links
	AboutApproval = "approval" // what waits for a human
	AboutControl  = "control"  // places that the host holds
	AboutQuota    = "quota"    // how much may be stored
	AboutStore    = "store"    // what is stored there
)

// Explain says whether what q asks about could be done through n now, and what decides. A change is tried up to the point
// at which it would become visible, and dropped; nobody is asked for an approval. Of a read, everything but the store's own
// read is tried. It answers invalid for a question about another right.
func Explain(ctx context.Context, n vfs.Node, q Question) (Explanation, error) {
	kind, err := q.kind()
	if err != nil {
		return Explanation{}, err
	}
	x := &explaining{ctx: ctx, kind: kind}
	if kind.Changes() {
		x.change(n, q)
	} else {
		x.read(n, q)
	}
	x.Kind = kind
	if kind == OpRename {
		x.Err = Refusal(ctx, n, q.To, Onto(kind), x.Err)
	}
	if kind.Changes() {
		x.Err = Refusal(ctx, n, q.Path, To(kind), x.Err)
	}
	x.missing()
	x.waits(n)
	return x.Explanation, nil
}

func (q Question) kind() (OpKind, error) {
	switch q.Right {
	case Read:
		return OpRead, nil
	case Write:
		return OpReplace, nil
	case Delete:
		return OpRemove, nil
	case List:
		return OpList, nil
	case Metadata:
		return OpStat, nil
	case Move:
		if q.To != "" {
			return OpRename, nil
		}
		return 0, vfs.Errorf(vfs.Invalid, "a move has two ends; say where to")
	}
	if q.Right == 0 {
		return 0, vfs.Errorf(vfs.Invalid, "this is no right that is known here; ask about read, write, delete, list, metadata or move")
	}
	return 0, vfs.Errorf(vfs.Invalid, "nothing is decided about the right %q alone; ask about read, write, delete, list, metadata or move", q.Right)
}
