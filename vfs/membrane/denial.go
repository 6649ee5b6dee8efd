package membrane

import (
	"errors"
	"slices"

	"capd/meter"
	"capd/vfs"
)

// Denial is a call that was refused.
type Denial struct {
	By   *meter.Meter // of the capability that was called; nil for none
	ID   int64        // of that capability, or of the nearest that it was derived from; see [Control.Keep]. 0 for none
	Op   OpKind
	Path string
	To   string // OpRename: the new path, if the target is in the same tree
	Err  error
}

// denials are the codes that a gate, a guard, a rule, a quota or a human answers, and no store.
var denials = []vfs.Code{vfs.Denied, vfs.ReadOnly, vfs.Revoked, vfs.Expired, vfs.Quota, vfs.AskDenied, vfs.AskTimeout}

// IsDenial reports whether err has the code of a refusal.
func IsDenial(err error) bool { return err != nil && slices.Contains(denials, vfs.CodeOf(err)) }

// Denied tells the guards of n that a call on n has failed with err: kind, at path below n, and with to as its new path. It
// does nothing if err says that something else went wrong.
func Denied(n vfs.Node, kind OpKind, path, to string, err error) {
	v := viewIn(n)
	if v == nil || v.guards.denied == nil || !IsDenial(err) {
		return
	}
	d := Denial{By: v.base.meter, ID: v.base.holder(), Op: kind, Path: v.path, Err: err}
	if !v.leaf && path != "" {
		d.Path = vfs.Join(v.path, path)
	}
	if to != "" {
		d.To = vfs.Join(v.path, to)
	}
	d.Err = v.guards.because(d.Path, err)
	v.guards.denied(d)
}

// because returns err with the rule that withholds path as its cause, if it has none and one does. The guest that was refused
// is not told.
func (s *guardSet) because(path string, err error) error {
	if _, ok := errors.AsType[*Ruled](err); ok || s.policy == nil || vfs.CodeOf(err) != vfs.Denied {
		return err
	}
	r := s.at(s.policy.Judge(), path)
	if r.judge == nil || r.judge.Passage() != Withheld {
		return err
	}
	return &vfs.Error{Code: vfs.Denied, Cause: r.judge.Why(r.judge.Judge(EveryRight))}
}

// viewIn returns the view that n is, or nil.
func viewIn(n vfs.Node) *view {
	switch n := n.(type) {
	case *dirView:
		return &n.view
	case *fileView:
		return &n.view
	}
	return nil
}

// holder returns the id under which g, or the nearest gate that g comes from, is kept. It returns 0 if none is.
func (g *Gate) holder() int64 {
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	for g.kept == 0 && len(g.parents) > 0 {
		g = g.parents[0]
	}
	return g.kept
}
