package vfs

import (
	"context"
	"errors"
)

// ErrWouldBlock is what a node answers to the context of [Trying] where it might have
// to wait, and never otherwise: it is no code. Whoever asked asks again with another
// context, where waiting is allowed.
var ErrWouldBlock = errors.New("vfs: it would block")

type tryingKey struct{}

var trying = context.WithValue(context.Background(), tryingKey{}, true)

// Trying returns the context for a goroutine that must not wait, for the disk as a
// rule. It is for Stat, Lookup, Target and ReadAt of a node that [CanTry], and for
// walking from one.
func Trying() context.Context { return trying }

// IsTrying reports whether ctx descends from [Trying].
func IsTrying(ctx context.Context) bool { return ctx.Value(tryingKey{}) != nil }

// Trier is a node that knows how to try: with the context of [Trying] its Stat,
// Lookup, Target and ReadAt return at once, as do those of the nodes found in it that
// are Triers. ReadAt may have written to its buffer when it answers ErrWouldBlock.
type Trier interface {
	Tries() bool
}

// CanTry reports whether n may be used with the context of [Trying].
func CanTry(n Node) bool {
	t, ok := n.(Trier)
	return ok && t.Tries()
}
