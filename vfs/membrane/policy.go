package membrane

import "capd/vfs"

// Says is what a host's rules say about an operation at a path.
type Says uint8

// The values of Says. A later one wins over an earlier one.
const (
	Silent Says = iota // no rule matches
	Allows
	Asks
	Denies
)

func (s Says) String() string { return [...]string{"nothing", "allow", "ask", "deny"}[s] }

// Verdict is what the rules say, and the rule that says it. The zero Verdict is Silent.
type Verdict struct {
	Says Says
	Rule int32 // for [Judge].Why
}

// Passage says whether a name may be looked up.
type Passage uint8

// The values of Passage.
const (
	Open     Passage = iota
	Through          // only a directory, since something below it may be looked at
	Withheld         // not at all; the answer is the same whether or not it exists
)

// Bounds restrict operations that the rules do not refuse.
type Bounds struct {
	MaxFileBytes int64  // of a file that is written; 0 for no bound
	NoLinks      bool   // no link is followed
	Inside       string // with LinksInside: a link leads to nothing outside this path
	LinksInside  bool
	NoHardLinks  bool // no file is used that has more than one name in its store
	AuditReads   bool // each read is told one by one; see [Reads]
}

// Judge decides about operations at one path by rules. It never changes; Step returns the
// Judge of a path one name below. Like a [Matcher] it must be comparable. Safe for
// concurrent use.
type Judge interface {
	// Judge returns the verdict on an operation that needs all of need.
	Judge(need Rights) Verdict

	// Passage says whether the path may be looked up.
	Passage() Passage

	// Bounds returns the bounds of an operation that needs any of need.
	Bounds(need Rights) Bounds

	// Why returns what a verdict is based on.
	Why(v Verdict) *Ruled

	// Step returns the Judge of the path with name added. It may be the same one.
	Step(name string) Judge

	// Same reports whether the rules say the same below this path as below that of to,
	// a Judge of the same rules.
	Same(to Judge) bool
}

// Policy has the rules that hold for a tree. They may be exchanged while views of the tree
// are in use: every view asks again at its next call. Safe for concurrent use.
type Policy interface {
	// Judge returns the Judge at the root. It is the same value until the rules are
	// exchanged.
	Judge() Judge
}

// Ruled is the cause of an error that a rule led to. It is for the host alone.
type Ruled struct {
	Says   Says
	Source string // where the rule is written
}

func (r *Ruled) Error() string {
	if r.Source == "" {
		return "no rule allows it"
	}
	return "the rule " + vfs.Printable(r.Source) + " says " + r.Says.String()
}
