package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"capd/operator"
	"capd/server"
	"capd/state"
	"capd/vfs"
	"capd/vfs/diff"
)

// aftermath is what capd run does after its program has ended. It shows what the program
// changed, and syncs it back or keeps it elsewhere. Only --no-apply drops changes.
type aftermath struct {
	command *runCommand
	env     *env
	state   state.Dir
	from    *source
	tree    *server.Materialized
	code    int   // of the program
	stopped error // why it was stopped, or did not start

	changed []diff.Change
	left    []diff.Skipped
	stuck   bool // the tree could not be kept elsewhere, so it must not be removed
}

// close removes the tree.
func (a *aftermath) close() error {
	if a.stuck {
		return nil
	}
	return a.tree.Close()
}

func (a *aftermath) settle(ctx context.Context) (err error) {
	if errors.Is(a.stopped, syscall.EPIPE) { // other commands end silently when that happens
		a.stopped = localError{"nobody reads the program's output any more, so it was ended"}
	} else if pe, ok := errors.AsType[*fs.PathError](a.stopped); ok && pe.Op == "write" {
		a.stopped = localError{"the program's output cannot be written, so it was ended: " + pe.Err.Error()}
	}
	if a.changed, a.left, err = a.tree.Changes(ctx); err != nil {
		a.env.logf("capd: what it changed cannot be told, and nothing was synced back")
		return errors.Join(a.stopped, err, a.keep(nil))
	}
	show := newOutline(a.env.stderr)
	for _, ch := range a.changed {
		_ = show.change(ch) // the changes count even if nobody reads them
	}
	a.name(a.left)
	if len(a.changed)+len(a.left) == 0 {
		return a.ended(nil)
	}
	n := count(len(a.changed), "change")
	switch {
	case a.lost():
		a.env.logf("capd: %s, not synced back, since its tree cannot be written any more", n)
		return a.ended(a.keep(nil))
	case a.stopped != nil && !a.command.Apply:
		a.env.logf("capd: %s, not synced back, since the program was stopped; with --apply %s would be", n, a.them())
		return a.ended(a.keep(nil))
	case a.stopped == nil && a.command.NoApply:
		a.env.logf("capd: %s, not synced back", n)
		return a.ended(nil)
	case a.code != 0 && !a.command.Apply:
		a.env.logf("capd: %s, not synced back, since the program failed; --apply syncs nevertheless", n)
		return a.ended(a.keep(a.paths()))
	}
	return a.sync(ctx)
}

// lost reports whether the program was stopped because its tree's capability was revoked.
func (a *aftermath) lost() bool {
	return a.stopped != nil && a.from.ctx.Err() != nil && a.env.Err() == nil
}

func (a *aftermath) them() string {
	if len(a.changed) == 1 {
		return "it"
	}
	return "they"
}

// name prints what is not synced back.
func (a *aftermath) name(left []diff.Skipped) {
	for _, s := range left {
		a.env.logf("capd: stays behind: %s: %s", vfs.Printable(s.Path), s.Why)
	}
}

// sync syncs back what it can, and keeps the rest.
func (a *aftermath) sync(ctx context.Context) error {
	n, left, err := a.syncEach(ctx)
	if err != nil {
		if n == 0 {
			a.env.logf("capd: nothing was synced back")
		} else {
			a.env.logf("capd: synced %s back, and not the rest", count(n, "change"))
		}
		err = errors.Join(err, a.keep(a.paths()))
		if a.stopped != nil || a.code != 0 { // then capd's exit code is about that alone
			report(a.env, err)
			err = nil
		}
		return a.ended(err)
	}
	known := map[diff.Skipped]bool{}
	for _, s := range a.left {
		known[s] = true
	}
	a.left = left
	for _, s := range left {
		if !known[s] {
			a.name([]diff.Skipped{s})
		}
	}
	if n == 0 {
		a.env.logf("capd: nothing was synced back")
	} else {
		a.env.logf("capd: synced %s back", count(n, "change"))
	}
	if len(left) == 0 {
		return a.ended(nil)
	}
	a.changed = nil
	return a.ended(errors.Join(localError{count(len(left), "path") + " stayed behind"}, a.keep(a.paths())))
}

// ended returns how capd ends: as the program did, unless something went wrong.
func (a *aftermath) ended(err error) error {
	switch {
	case a.stopped != nil:
		return errors.Join(notStarted(a.stopped), err)
	case a.code != 0:
		return errors.Join(exitError(a.code), err)
	}
	return err
}

// paths returns the paths that the program made or changed, without those it only
// removed.
func (a *aftermath) paths() []string {
	all := []string{}
	for _, ch := range a.changed {
		if !ch.Is.Absent() {
			all = append(all, ch.Path)
		}
	}
	for _, s := range a.left {
		if _, err := os.Lstat(filepath.Join(a.tree.Path(), filepath.FromSlash(s.Path))); err == nil {
			all = append(all, s.Path)
		}
	}
	return all
}

// keep moves what is at paths, or the whole tree if they are nil, to a place where it
// stays until somebody removes it.
func (a *aftermath) keep(paths []string) error {
	if paths != nil && len(paths) == 0 {
		return nil
	}
	to, err := a.state.Unsynced()
	if err == nil && paths != nil {
		err = a.tree.Prune(paths)
	}
	if err == nil {
		err = moveTree(a.tree.Path(), to)
	}
	if err != nil {
		a.stuck = true
		a.env.logf("capd: what it did is in %s, and the next capd run removes it", a.tree.Path())
		return vfs.Errorf(vfs.Internal, "it could not be kept elsewhere: %v", state.Reason(err))
	}
	if paths != nil {
		a.env.logf("capd: what it made there is kept in %s until you remove it", to)
		return nil
	}
	a.env.logf("capd: the whole tree as it left it is kept in %s until you remove it", to)
	if a.command.Cap == "" {
		a.env.logf("capd: to compare it: diff -r %s %s", operator.Quote(cmp.Or(trimPath(a.command.Path), ".")), operator.Quote(to))
	}
	return nil
}

// moveTree puts the directory at from, in which nobody works any more, in place of the
// empty directory at to, and gives it to this user.
func moveTree(from, to string) error {
	if err := os.Chmod(from, 0o700); err != nil {
		return err
	}
	if err := os.Remove(to); err != nil { // os.Rename does not replace directories
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if os.Geteuid() != 0 { // only root's programs run as other users
		return nil
	}
	return filepath.WalkDir(to, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, 0, 0))
	})
}

// homeOf returns path relative to the directory home, and whether path lies there.
func homeOf(home, path string) (string, bool) {
	if path == home {
		return "", true
	}
	return strings.CutPrefix(path, home+string(filepath.Separator))
}
