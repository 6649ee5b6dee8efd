package materialize

import (
	"errors"

	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/membrane"
)

// isPolicy reports errors that say that the Dir refuses a change at one path.
func isPolicy(err error) bool {
	if _, ok := errors.AsType[*diff.Conflicts](err); ok {
		return false
	}
	switch vfs.CodeOf(err) {
	case vfs.Denied, vfs.AskDenied, vfs.AskTimeout, vfs.ReadOnly, vfs.Unsupported, vfs.Invalid:
		return true
	}
	return false
}

// refusePolicy leaves out path, with the reason in err.
func (l *comparison) refusePolicy(path string, err error) {
	why := err.Error()
	if e, ok := errors.AsType[*vfs.Error](err); ok {
		bare := *e
		bare.Path = ""
		why = bare.Error()
	}
	l.refuse(path, why)
}

// ask asks the Dir's guards about ops. A Dir of a remote host cannot be asked.
func (l *comparison) ask(ops ...membrane.Op) error {
	_, release, err := membrane.Hold(l.ctx, l.t.from, ops)
	if err == nil {
		release()
	}
	return err
}

// askEach asks about every finding separately, and leaves out the refused ones.
func (l *comparison) askEach() error {
	for _, f := range l.found {
		if l.out[f.path] {
			continue
		}
		err := l.ask(f.ops()...)
		if isPolicy(err) {
			l.refusePolicy(f.path, err)
		} else if err != nil {
			return vfs.At(f.path, err)
		}
	}
	return nil
}

// ops returns the operations for a finding, as guards see them.
func (f finding) ops() []membrane.Op {
	var all []membrane.Op
	was, becomes := f.was(), f.becomes()
	if !was.Absent() && (becomes.Kind != was.Kind || was.Kind == vfs.LinkKind) {
		all = append(all, membrane.Op{Kind: membrane.OpRemove, Path: f.path})
	}
	switch becomes.Kind {
	case vfs.FileKind:
		all = append(all, membrane.Op{Kind: membrane.OpReplace, Path: f.path})
	case vfs.DirKind:
		all = append(all, membrane.Op{Kind: membrane.OpMkdir, Path: f.path})
	case vfs.LinkKind:
		all = append(all, membrane.Op{Kind: membrane.OpSymlink, Path: f.path})
	}
	return all
}

// refuseUnable leaves out what the Dir cannot store at all. It also leaves out links to
// paths that the guards let nobody write: writing to such a link would write there.
func (l *comparison) refuseUnable() error {
	_, links := l.t.from.(vfs.Symlinker)
	_, execs := l.t.from.(vfs.Installer)
	for _, f := range l.found {
		was, becomes := f.was(), f.becomes()
		switch {
		case l.out[f.path]:
		case !links && (was.Kind == vfs.LinkKind || becomes.Kind == vfs.LinkKind):
			l.refuse(f.path, "the tree that it came from takes no links from here")
		case !execs && was.Exec != becomes.Exec:
			l.refuse(f.path, "the tree that it came from is not told from here what can be executed")
		case becomes.Kind == vfs.LinkKind:
			why, err := l.against(f.path)
			if err != nil {
				return err
			}
			if why != "" {
				l.refuse(f.path, "a link "+why)
			}
		}
	}
	for _, path := range l.turned() {
		why, err := l.against(path)
		if err != nil {
			return err
		}
		if why != "" {
			l.refuseLinks("with it, " + vfs.Printable(path) + " would be a link " + why)
			break // no link changes without another
		}
	}
	return nil
}

// against returns why the link at path must not be brought back, or "": the Dir's
// guards, or an exclusion, forbid the place it will lead to.
func (l *comparison) against(path string) (why string, err error) {
	to := l.resolve(path)
	if to == "" || to == path {
		return "", nil
	}
	if len(l.t.exclude) > 0 {
		n, err := vfs.Walk(l.ctx, l.t.from, to)
		if vfs.CodeOf(err) == vfs.Outside {
			return "that leads out of the tree", nil
		}
		if err == nil {
			n.Close()
		}
	}
	err = l.ask(membrane.Op{Kind: membrane.OpSymlink, Path: to})
	if isPolicy(err) {
		return "to what may not be changed", nil
	}
	return "", vfs.At(path, err)
}
