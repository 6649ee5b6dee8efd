package operator

import (
	"context"
	"time"

	"capd/vfs"
	"capd/vfs/membrane"
)

// Ask is a change that needs an approval, or a [Wish]: one that waits for a decision, or one that got it.
// What the guest chose (Path, To, Diff, Words) may be anything; show it through [vfs.Printable].
type Ask struct {
	ID        string    `json:"id"`    // 32 hexadecimal digits
	Guest     string    `json:"guest"` // who asks, as grants has it
	Grant     string    `json:"grant"` // id of the root grant
	Operation string    `json:"operation"`
	Path      string    `json:"path"` // in the host's tree
	To        string    `json:"to,omitempty"`
	Why       []string  `json:"why,omitempty"`  // what asks: "project: **/.git/**"
	Size      int64     `json:"size,omitempty"` // bytes that are to be written
	Diff      string    `json:"diff,omitempty"` // at most [MaxAskDiff] bytes; kept until 10 minutes after the decision
	Asked     time.Time `json:"asked"`

	// Of a Wish: the root that it names, the rights, its reason, and the rights that the answer gives. Then Grant is that
	// which was made, if one was.
	Root   string          `json:"root,omitempty"`
	Access membrane.Rights `json:"access,omitempty"`
	Words  string          `json:"words,omitempty"`
	Given  membrane.Rights `json:"given,omitempty"`

	Answer  Answer    `json:"answer,omitempty"` // "" while it waits
	Reason  string    `json:"reason,omitempty"` // what the guest is told with a no
	By      string    `json:"by,omitempty"`
	Decided time.Time `json:"decided,omitzero"`
	Used    bool      `json:"used,omitempty"` // the change was made
}

// MaxAskDiff bounds the text of the change that an [Ask] shows, in bytes.
const MaxAskDiff = 64 << 10

// Answer is what an operator says to an [Ask].
type Answer string

// The answers.
const (
	Once   Answer = "once"   // this change may be made, within 10 minutes; or a grant is made, until nobody uses it for as long
	Always Answer = "always" // so may each later one of this operation and path through the grant; or a grant is made
	Deny   Answer = "deny"   // it may not be made
)

// Verdict is a decision about an [Ask].
type Verdict struct {
	Answer Answer
	Reason string // of a no, at most [MaxReason] bytes; the guest is told

	// Pattern, with Always, approves the paths that match it, not only that of the Ask.
	// It is matched against paths in the host's tree.
	Pattern string
	For     time.Duration // how long Always holds; 0 means [StandingFor]

	// Rights, with Once and Always about a [Wish], are those that are given. 0 means all that were asked for.
	Rights membrane.Rights
}

const (
	MaxReason   = 1 << 10             // bytes
	StandingFor = 30 * 24 * time.Hour // how long an approval with Always holds by default
)

// Check answers invalid for a verdict that means nothing.
func (v Verdict) Check() error {
	switch v.Answer {
	case Once, Always, Deny:
	default:
		return vfs.Errorf(vfs.Invalid, "the answer is once, always or deny")
	}
	switch {
	case v.Reason != "" && v.Answer != Deny:
		return vfs.Errorf(vfs.Invalid, "only deny has a reason")
	case len(v.Reason) > MaxReason:
		return vfs.Errorf(vfs.Invalid, "a reason has at most %d bytes", MaxReason)
	case v.Answer != Always && (v.Pattern != "" || v.For != 0):
		return vfs.Errorf(vfs.Invalid, "a pattern and a time belong to always")
	case v.Answer == Deny && v.Rights != 0:
		return vfs.Errorf(vfs.Invalid, "rights belong to once and always")
	case v.For < 0:
		return vfs.Errorf(vfs.Invalid, "always ends in the future")
	}
	return nil
}

// Standing is an approval that was given with [Always].
type Standing struct {
	ID        int64     `json:"id"`
	Ask       string    `json:"ask"`   // id of the [Ask] that it answered
	Grant     string    `json:"grant"` // id of the root grant
	Operation string    `json:"operation"`
	Path      string    `json:"path"` // exactly this path, unless there is a pattern
	To        string    `json:"to,omitempty"`
	Pattern   string    `json:"pattern,omitempty"`
	Until     time.Time `json:"until"`
}

// Approvals are the changes that wait for an approval, and who decided about them.
type Approvals interface {
	// List returns at most 256 requests that wait, or with all those decided in the last 30 days, too, without
	// their Diff. The oldest comes first. after is the last one that the caller has, or the zero Ask.
	List(ctx context.Context, all bool, after Ask) ([]Ask, error)
	// Show returns the request that ref names, with its Diff: the id, or the first 6 digits of it or more. It answers
	// notFound, and invalid for what names several.
	Show(ctx context.Context, ref string) (Ask, error)
	// Decide decides about a request and returns its id. by says who decides. The first decision counts: a second
	// answers conflict. It answers what Show answers, and what [Verdict.Check] does.
	Decide(ref string, v Verdict, by string) (id string, err error)
	// Listen says that somebody sees what waits, until stop is called.
	Listen() (stop func())
	// Standing returns the approvals with [Always] that hold, and End ends one. End answers notFound.
	Standing(ctx context.Context) ([]Standing, error)
	End(id int64) error
}
