package vfs

import "context"

// Historian is a Dir that knows what was changed below it, and can undo it. What it knows is what was done through
// the same grant, and through what was shared from that.
type Historian interface {
	// History returns a page of what was changed, the newest first. It needs the right to read.
	History(ctx context.Context, q PastQuery) (PastPage, error)

	// Undo makes the changes that take back what w says. All are made, or it answers an error and none is left. If a place is not
	// what the change left, it answers conflict, and Undone says at which places. It needs the rights that the inverse changes need.
	Undo(ctx context.Context, w Undo) (Undone, error)

	// Past opens the content that the file at path had when its version was v, as far as history has it. It needs the
	// right to read path. It answers notFound.
	Past(ctx context.Context, path string, v Version) (Content, error)
}

// PastQuery asks for a page of history.
type PastQuery struct {
	Before int64 // only what is older than the entry with this id; 0: from the newest on
	Limit  int   // most entries
}

// PastPage is a page of history.
type PastPage struct {
	Entries []Past
	More    bool  // there are older ones
	SinceMs int64 // of what was changed until then something is missing; 0: nothing is
}

// Past is an entry of history: what was done together.
type Past struct {
	ID       int64
	AtMs     int64
	Turn     string // as whoever made it named it
	Undoes   bool   // it is an undo
	UndoneBy int64  // the id of the entry that has undone it; 0: none has
	Outside  bool   // it reached out of the directory, and cannot be undone there
	Lost     bool   // what it displaced is not kept, so it cannot be undone
	Changes  []PastChange
	More     int // how many changes are not among them, since there are too many
}

// PastChange is the change of one place.
type PastChange struct {
	Op            string // create, mkdir, replace, remove, rename, write, truncate, append, symlink, attributes
	Path          string
	To            string  // of a rename, where to
	Before, After Version // of a file, if it is known
	Kind          Kind    // of what is there afterwards, or was there before it was removed
	Existed       bool    // something was at the place before
	BytesBefore   int64   // of a file
	BytesThen     int64
}

// Undo says what is undone: exactly one of the first four.
type Undo struct {
	ID      int64  // the entry with this id
	Last    int    // so many entries, the newest that are neither undone nor an undo themselves
	Turn    string // everything of this turn
	SinceMs int64  // everything from that moment on
	DryRun  bool   // only say what would be done
}

// Undone is what an undo did, or why it could not.
type Undone struct {
	ID      int64 // its entry of history; 0: nothing had to be changed
	Entries []int64
	Steps   []UndoStep
}

// UndoStep is a change that undo makes, or cannot make.
type UndoStep struct {
	Op   string // as in [PastChange]
	Path string
	To   string
	Err  error // why it cannot be made; nil if it can
}

// MaxTurn is how many bytes the name of a turn has at most.
const MaxTurn = 256

// CheckTurn answers invalid unless name can be that of a turn: it is printable, and not too long.
func CheckTurn(name string) error {
	if len(name) > MaxTurn || Printable(name) != name {
		return Errorf(Invalid, "the name of a turn is at most %d bytes of printable text", MaxTurn)
	}
	return nil
}

// History is [Historian].History of d. It answers unsupported when d is none.
func History(ctx context.Context, d Dir, q PastQuery) (PastPage, error) {
	if h, ok := d.(Historian); ok {
		return h.History(ctx, q)
	}
	return PastPage{}, errNoHistory
}

// UndoIn is [Historian].Undo of d. It answers unsupported when d is none.
func UndoIn(ctx context.Context, d Dir, w Undo) (Undone, error) {
	if h, ok := d.(Historian); ok {
		return h.Undo(ctx, w)
	}
	return Undone{}, errNoHistory
}

// OpenPast is [Historian].Past of d. It answers unsupported when d is none.
func OpenPast(ctx context.Context, d Dir, path string, v Version) (Content, error) {
	if h, ok := d.(Historian); ok {
		return h.Past(ctx, path, v)
	}
	return nil, errNoHistory
}

var errNoHistory = Errorf(Unsupported, "this host keeps no history of changes")
