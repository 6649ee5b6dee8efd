package vfs

import (
	"context"
	"strconv"
	"strings"
)

// Attributes are what [SetAttributes] sets. A nil field stays as it is.
type Attributes struct {
	Exec       *bool  // whether the file can be executed by whoever can read it
	ModifiedMs *int64 // milliseconds since the Unix epoch, at most [MaxModifiedMs]
}

// MaxModifiedMs is the last moment that a file can be said to be modified: the end of the year 2261.
const MaxModifiedMs = 9214646399999

// Check answers invalid for nothing to set, and for a time before the Unix epoch or after
// [MaxModifiedMs].
func (a Attributes) Check() error {
	switch {
	case a.Exec == nil && a.ModifiedMs == nil:
		return Errorf(Invalid, "there is nothing to set; say what")
	case a.ModifiedMs != nil && (*a.ModifiedMs < 0 || *a.ModifiedMs > MaxModifiedMs):
		return Errorf(Invalid, "a time is from 0 to %d milliseconds since the Unix epoch", int64(MaxModifiedMs))
	}
	return nil
}

// CheckFor is Check for the attributes of n. It answers nil if n is immutable, which answers readOnly
// for any.
func (a Attributes) CheckFor(n Node) error {
	if IsImmutable(n) {
		return nil
	}
	return a.Check()
}

// Change reports whether setting a changes a file that is as i says.
func (a Attributes) Change(i Info) bool {
	return a.Exec != nil && *a.Exec != i.Exec || a.ModifiedMs != nil && *a.ModifiedMs != i.ModifiedMs
}

// String returns a for people: "executable, modified 1700000000000".
func (a Attributes) String() string {
	var all []string
	if a.Exec != nil {
		all = append(all, map[bool]string{true: "executable", false: "not executable"}[*a.Exec])
	}
	if a.ModifiedMs != nil {
		all = append(all, "modified "+strconv.FormatInt(*a.ModifiedMs, 10))
	}
	return strings.Join(all, ", ")
}

// Attributer is a File whose attributes can be set by themselves.
type Attributer interface {
	// SetAttributes sets a. Like a write in place it concerns the file that has the name
	// now, and is on disk after a Sync. It answers the error of a.Check, and conflict when
	// c does not hold.
	SetAttributes(ctx context.Context, a Attributes, c If) error
}

// SetAttributes sets a of the file f, if c holds. The content, and so the version, stays. It
// answers invalid, conflict, denied for a file with several names (hard links), and
// unsupported when f is not an [Attributer].
func SetAttributes(ctx context.Context, f File, a Attributes, c If) error {
	set, ok := f.(Attributer)
	if !ok {
		return Errorf(Unsupported, "this store keeps no attributes")
	}
	return set.SetAttributes(ctx, a, c)
}
