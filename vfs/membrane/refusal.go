package membrane

import (
	"context"
	"errors"
	"slices"

	"capd/vfs"
)

// precedence is the order in which refusals are answered.
var precedence = []vfs.Code{vfs.Revoked, vfs.Expired, vfs.Denied, vfs.ReadOnly, vfs.Unsupported}

// rank returns the position of err in precedence. Other errors come after, nil comes
// last.
func rank(err error) int {
	if err == nil {
		return len(precedence) + 1
	}
	if i := slices.Index(precedence, vfs.CodeOf(err)); i >= 0 {
		return i
	}
	return len(precedence)
}

// foremost returns the error that comes first: revoked, expired, denied, readOnly,
// unsupported, then the first of the others. Every refusal keeps this order.
func foremost(errs ...error) (most error) {
	for _, err := range errs {
		if rank(err) < rank(most) {
			most = err
		}
	}
	return most
}

// Refusal returns the error to answer for a call on n that failed with err. As a rule
// it is err. But if n's rights, or the policy on path, refuse every such call with a
// code that comes before err's (revoked, expired, denied, readOnly), it is that
// refusal. So the answer does not depend on what was checked first. path is below n, or
// "". If err is nil, Refusal returns nil.
func Refusal(ctx context.Context, n vfs.Node, path string, need Need, err error) error {
	if err == nil {
		return nil
	}
	own := forbids(n, mode(need))
	if rank(own) > rank(vfs.Denied) && wrongCall(err) {
		own = foremost(own, policy(ctx, n, path, mode(need)))
	}
	if rank(own) >= rank(err) {
		return err
	}
	if e, ok := errors.AsType[*vfs.Error](err); ok {
		path = e.Path
	}
	return vfs.At(path, own)
}

// May returns the error with which n's own capability refuses now what needs need, or nil.
// It asks no rule and no store.
func May(n vfs.Node, need Need) error {
	if v, ok := n.(gated); ok {
		return v.check(mode(need))
	}
	return nil
}

// forbids is May, also for a store that never changes.
func forbids(n vfs.Node, need mode) error {
	if _, ok := n.(gated); !ok {
		return nil
	}
	if err := May(n, Need(need)); err != nil {
		return err
	}
	if need&changes != 0 && vfs.IsImmutable(n) {
		return vfs.ReadOnly
	}
	return nil
}

// wrongCall reports an error in the call's arguments, found before policy or the store
// was asked.
func wrongCall(err error) bool {
	switch vfs.CodeOf(err) {
	case vfs.Invalid, vfs.TooLarge, vfs.Unsupported:
		return true
	}
	return false
}

// policy returns what forbids a change at path. A read needs no check here: the walk
// made it.
func policy(ctx context.Context, n vfs.Node, path string, need mode) error {
	d, ok := n.(vfs.Dir)
	if !ok || path == "" || need&changes == 0 {
		return nil
	}
	parent, name, release, err := vfs.WalkParent(ctx, d, path)
	if err != nil {
		return err
	}
	defer release()
	v, ok := parent.(*dirView)
	if !ok {
		return nil
	}
	if _, err = v.target(ctx, name, vfs.CheckName, need, false); err == nil && Withholds(v, name) {
		err = vfs.Denied
	}
	return err
}
