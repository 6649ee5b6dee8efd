package vfs

import (
	"context"
	"strings"
)

// LinkMaker is a Dir in which whoever holds it may make links, by the rules for guests; a [Symlinker] is for hosts. A Dir of a remote host is one.
type LinkMaker interface {
	// MakeLink makes a link at path with the text target. The directory of path must exist.
	MakeLink(ctx context.Context, path, target string) error
}

// CheckOwnTarget checks the text of a link that a guest makes: what [CheckTarget] checks, and that it is a relative path which goes up
// at its beginning alone, to names that a guest could make. Such a link never rises further than its text says, whatever links are on its way.
// It answers outside, invalid or limit.
func CheckOwnTarget(target string) error {
	if err := CheckTarget(target); err != nil {
		return err
	}
	if target[0] == '/' {
		return Errorf(Outside, "a link's target is relative here, such as ../lib/a.js; an absolute one would lead out")
	}
	down := false
	for name := range strings.SplitSeq(strings.TrimSuffix(target, "/"), "/") {
		switch {
		case name == ".." && down:
			return Errorf(Outside, "a link's target goes up at its beginning alone; write it without .. after a name")
		case name == "..", name == ".":
		default:
			down = true
			if err := CheckNewName(name); err != nil {
				return Errorf(CodeOf(err), "in the link's target: %s", Message(err))
			}
		}
	}
	return nil
}

// CheckOwnLink checks a link that a guest of d makes in the directory at path, which is below d and "" for d itself: that target leads to a
// place in d, also through other links, or to nothing. The link itself need not exist. It answers outside, denied and limit as [Walk] does.
func CheckOwnLink(ctx context.Context, d Dir, path, target string) error {
	w := walker{ctx: ctx, root: d}
	defer w.close()
	if path != "" {
		w.rest = []string{path}
		if err := w.walk(true); err != nil {
			return err
		}
	}
	w.rest = []string{target}
	switch err := w.walk(true); CodeOf(err) {
	case NotFound, NotDir, NotRegular: // it leads to nothing
		return nil
	default:
		return err
	}
}
