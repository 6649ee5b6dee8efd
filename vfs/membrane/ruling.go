package membrane

import (
	"context"
	"math/bits"

	"capd/vfs"
)

// ruled returns the error with which the policy refuses an operation on v that needs need.
// It is denied where a rule denies it, and askDenied where one asks. Before a file is read, somebody
// is asked; see readasks.go.
func (v *view) ruled(need mode) error {
	if v.guards.policy == nil {
		return nil
	}
	r := v.standing()
	if need&blind != 0 && r.judge != nil && r.judge.Passage() == Withheld {
		return vfs.Denied
	}
	if v.wide {
		return nil
	}
	return r.refuse(need, Asks)
}

// refuse returns the error for an operation that needs need if the policy says at least
// from.
func (r *rules) refuse(need mode, from Says) error {
	rights := Rights(need & noRights)
	if r.judge == nil || rights == 0 {
		return nil
	}
	v := r.judge.Judge(rights)
	switch {
	case v.Says < from:
		return nil
	case v.Says == Asks:
		return &vfs.Error{Code: vfs.AskDenied, Msg: "a rule of the host asks before a " + r.word(rights, Asks) + " here, and nobody is asked", Cause: r.judge.Why(v)}
	}
	return &vfs.Error{Code: vfs.Denied, Msg: "a rule of the host does not allow " + r.word(rights, Denies) + " here", Cause: r.judge.Why(v)}
}

// word returns the first of rights of which the policy says says.
func (r *rules) word(rights Rights, says Says) string {
	for more := uint16(rights); more != 0; more &= more - 1 {
		i := bits.TrailingZeros16(more)
		if r.judge.Judge(1<<i).Says == says {
			return rightNames[i]
		}
	}
	return "it"
}

// ruled returns the error with which the policy refuses the change. A change that Hold was
// asked about was allowed then.
func (t target) ruled(ctx context.Context) error {
	s := t.view.guards
	if s.policy == nil || s.allowedAhead(ctx, t.path) {
		return nil
	}
	return s.current(t.rules, t.path).refuse(t.need, Denies)
}

// why returns the rule that asks before the change, or "".
func (t target) why() string {
	if t.rules.judge == nil {
		return ""
	}
	v := t.rules.judge.Judge(Rights(t.askable() & noRights))
	if v.Says != Asks {
		return ""
	}
	return "rule " + t.rules.judge.Why(v).Source
}

// exchanged judges a change again, when it is committed, if the rules were exchanged since
// it began.
func (t target) exchanged(ctx context.Context) error {
	s := t.view.guards
	if s.policy == nil || s.policy.Judge() == t.rules.root || s.allowedAhead(ctx, t.path) {
		return nil
	}
	now := s.current(t.rules, t.path)
	if s.hides(now) {
		return vfs.Denied
	}
	if err := now.refuse(t.need, Denies); err != nil {
		return err
	}
	if t.rules.refuse(t.askable(), Asks) == nil {
		return now.refuse(t.askable(), Asks)
	}
	return nil
}

// allowedAhead reports whether ctx belongs to a batch under way that Hold was asked about
// path for.
func (s *guardSet) allowedAhead(ctx context.Context, path string) bool {
	for b := batchOf(ctx); b != nil; b = b.outer {
		if b.UnderWay() && b.asked[guardedPath{s, path}] {
			return true
		}
	}
	return false
}

// passed returns what a lookup found at r. Where only what lies below may be looked at, that
// is a directory or denied, whatever is there.
func (r *rules) passed(n vfs.Node, err error) (vfs.Node, error) {
	if !r.through() {
		return n, err
	}
	switch n.(type) {
	case vfs.Dir:
		return n, err
	case nil:
		if c := vfs.CodeOf(err); c == vfs.NotFound || c == vfs.NotRegular {
			err = vfs.Denied
		}
		return nil, err
	}
	n.Close()
	return nil, vfs.Denied
}

func (r *rules) through() bool { return r.judge != nil && r.judge.Passage() == Through }
