package membrane

import (
	"context"

	"capd/vfs"
)

// noVersion is the version of no file. A condition on it never holds.
var noVersion = vfs.Version{0: 1}

// compares reads the file for the condition c of a change at t where the policy asks before reads: the store compares only
// with a version that was approved for reading, so that nobody can guess a content. read returns the file's version after
// that approval. compares answers conflict if c does not hold, and as a read that nobody approves. It returns the condition to
// change with.
func (t *target) compares(ctx context.Context, c vfs.If, read func(context.Context) (vfs.Version, error)) (vfs.If, error) {
	if reads(c) == 0 || t.view.wide { // what a batch compares is its own
		return c, nil
	}
	if j := t.rules.judge; j == nil || j.Judge(Read).Says != Asks {
		t.noteRead()
		return c, nil
	}
	is, err := read(ctx)
	switch vfs.CodeOf(err) {
	case vfs.NotFound, vfs.IsDir, vfs.NotRegular: // the store says so, even if a file comes there meanwhile
		c.Is = noVersion
		return c, nil
	}
	if err == nil {
		err = c.Check(true, is)
	}
	t.compared = true
	return c, err
}

// version returns how the version of the file called name is read.
func (v *dirView) version(name string) func(context.Context) (vfs.Version, error) {
	return func(ctx context.Context) (is vfs.Version, err error) {
		n, err := v.Lookup(ctx, name)
		if err != nil {
			return is, err
		}
		defer n.Close()
		f, ok := n.(*fileView)
		if !ok {
			return is, vfs.NotRegular
		}
		return f.Version(ctx)
	}
}

// noteRead tells a condition on a version as a read, where each read is told one by one.
func (t *target) noteRead() {
	v := t.view
	s := v.guards.reads
	if s == nil || v.base.meter == nil {
		return
	}
	dir := directory(t.path)
	if t.rules.audited(OpRead) || s.Each != nil && s.Each(dir) {
		v.noteIn(s.at(v.base, OpRead, dir), OpRead, t.path, dir, t.rules)
	}
}

// askable returns the rights that the policy is asked about: the change and, if it has a condition on a version, the read of
// that, unless it was approved by itself.
func (t target) askable() mode {
	if t.compared {
		return t.need &^ noRead
	}
	return t.need
}
