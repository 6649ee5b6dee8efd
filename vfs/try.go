package vfs

import (
	"context"
	"errors"
)

// ErrWouldBlock is the error of a call with the context of [Trying] that might have to
// wait. The caller then asks again with a context that allows waiting. No other call
// returns it, and it has no code.
var ErrWouldBlock = errors.New("vfs: it would block")

var trying = WithCall(context.Background(), Call{Trying: true})

// Trying returns the context for a goroutine that must not wait, usually for a disk.
// Use it for Stat, Lookup, Target and ReadAt of a node that [CanTry], and for walking
// from one.
func Trying() context.Context { return trying }

// IsTrying reports whether ctx descends from [Trying].
func IsTrying(ctx context.Context) bool { return callOf(ctx).Trying }

// Trier is a node that supports the context of [Trying]. With that context its Stat,
// Lookup, Target and ReadAt return at once. A node found in it may be a Trier too. ReadAt
// may have written to its buffer when it answers ErrWouldBlock.
type Trier interface {
	Tries() bool
}

// CanTry reports whether n may be used with the context of [Trying].
func CanTry(n Node) bool {
	t, ok := n.(Trier)
	return ok && t.Tries()
}
