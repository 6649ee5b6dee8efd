package server

import (
	"context"
	"os"
	"slices"

	"capd/hook"
	"capd/operator"
	"capd/state"
	"capd/vfs"
)

// Hook is a program that is asked before guests change something, or told afterwards; docs/hooks.md describes hooks.
type Hook = operator.Hook

// checkHooks answers what is wrong with s.Hooks.
func (s *Server) checkHooks() error {
	for _, h := range s.Hooks {
		if err := hook.Check(h); err != nil {
			return said(h, err)
		}
		if len(h.Command) == 0 {
			return said(h, vfs.Errorf(vfs.Invalid, "the hook %s has no command; write the program's absolute path", h.Name))
		}
		fi, err := os.Stat(h.Command[0])
		switch {
		case err != nil:
			return said(h, vfs.Errorf(vfs.Invalid, "the program of the hook %s, %s, cannot be run: %v", h.Name, vfs.Printable(h.Command[0]), state.Reason(err)))
		case !fi.Mode().IsRegular():
			return said(h, vfs.Errorf(vfs.Invalid, "the program of the hook %s, %s, is not a file", h.Name, vfs.Printable(h.Command[0])))
		}
	}
	return nil
}

// said returns err with the place where h is registered.
func said(h Hook, err error) error {
	if h.Source == "" {
		return err
	}
	return vfs.Errorf(vfs.CodeOf(err), "%s: %s", h.Source, vfs.Message(err))
}

// openHooks begins with the hooks.
func (s *Server) openHooks(ctx context.Context, roots []Root) (err error) {
	s.hooks, err = hook.Open(ctx, s.db, hook.Options{Record: s.record, Dir: s.state.Hooks(), File: s.Hooks, Roots: roots, Logf: s.logf})
	return err
}

// hookBoth has the hooks of to asked, and those of from that it does not have: nothing is without a hook while mounts change, and
// a hook that stays after all is told on from where it was.
func (s *Server) hookBoth(ctx context.Context, from, to layout) error {
	if err := s.unserved(programs(to.hooks)); err != nil {
		return err
	}
	both := slices.Clone(to.hooks)
	for _, h := range from.hooks {
		if !slices.ContainsFunc(both, func(o Hook) bool { return o.Name == h.Name }) {
			both = append(both, h)
		}
	}
	return s.hookThese(ctx, both)
}

// hookOnly has only the hooks of l asked from now on, besides those that were registered over the console.
func (s *Server) hookOnly(ctx context.Context, l layout) error { return s.hookThese(ctx, l.hooks) }

func (s *Server) hookThese(ctx context.Context, hooks []Hook) error {
	if err := s.hooks.Exchange(ctx, hooks); err != nil {
		return err
	}
	s.hooked.Store(&hooks)
	return nil
}
