package server

import (
	"context"
	"maps"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strings"

	"capd/authority"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/virtualfs"
)

// draftBytes and draftNodes bound what a draft that is kept may hold.
const (
	draftBytes = "1GiB"
	draftNodes = "1048576"
)

// scope mounts what subject gets at path, which operator.Root.ScopeOf returned: a workspace, a draft of it, or both, and the
// subject's scratch if there is one or scratch is above 0. What is mounted there already stays. subject is "" if nothing new is
// to be made.
func (s *Server) scope(ctx context.Context, subject operator.Subject, path string, scratch int64) error {
	s.scoping.Lock()
	defer s.scoping.Unlock()
	all, err := s.drafts.scoped(path)
	if err != nil {
		return err
	}
	own, err := s.scratchAt(subject, path, scratch)
	if err != nil {
		return err
	}
	if r, _ := s.drafts.rootOf(path); own == nil && !r.Drafted() {
		return errNoScope
	}
	if own != nil {
		all = append(all, own.mount(path))
		defer s.letGo()
	}
	before := slices.Collect(maps.Keys(s.scoped))
	for _, m := range all {
		if err := s.enter(ctx, m); err != nil {
			for at := range maps.Clone(s.scoped) {
				if !slices.Contains(before, at) {
					_ = s.unscope(context.WithoutCancel(ctx), at)
				}
			}
			return m.said(err)
		}
	}
	return nil
}

// enter mounts m, which is in a scope, unless something is mounted there. The caller holds scoping.
func (s *Server) enter(ctx context.Context, m Mount) error {
	as := m.Attenuation
	if r, err := s.drafts.rootOf(m.Path); err == nil && !r.Drafted() && (m.Bytes > 0 || m.Nodes > 0) {
		as.Bytes, as.Nodes = 0, 0 // the workspace has one quota, wherever it is mounted
		as.Guards = append(slices.Clone(as.Guards), Guard{Meter: s.fs.Quota(r.Path)})
	}
	err := s.fs.Mount(ctx, m.Path, m.URL, as)
	switch {
	case vfs.CodeOf(err) == vfs.Exists:
		return nil
	case err == nil:
		s.scoped[m.Path] = m
	}
	return err
}

// unscope unmounts what scope has mounted. The caller holds scoping.
func (s *Server) unscope(ctx context.Context, path string) error {
	err := s.fs.Unmount(ctx, path)
	if err == nil || vfs.CodeOf(err) == vfs.NotFound { // the operator was faster
		delete(s.scoped, path)
		s.letGo()
		return nil
	}
	return err
}

// otherwise returns those mounts in scopes that are not as l has them.
func (s *Server) otherwise(l layout) []Mounted {
	s.scoping.Lock()
	defer s.scoping.Unlock()
	return slices.DeleteFunc(s.fs.Mounts(), func(m Mounted) bool {
		as, ours := s.scoped[m.Path]
		return !ours || l.following(as)
	})
}

// scoped returns the mounts at at, which is a scope. It answers notFound if there is no such scope.
func (l *layout) scoped(at string) (all []Mount, err error) {
	r, err := l.rootOf(at)
	if err != nil {
		return nil, err
	}
	of := l.mounts[slices.IndexFunc(l.mounts, func(m Mount) bool { return m.Path == r.Path })]
	draft := of
	of.Path = vfs.Join(at, r.ID)
	if !r.Drafted() {
		return append(all, of), nil
	}
	if r.Access == operator.AccessRO {
		of.ReadOnly = true
		all = append(all, of)
	}
	draft.Path, draft.URL, draft.ReadOnly = vfs.Join(at, r.Draft()), draftOf(r, of.URL), false
	return append(all, draft), nil
}

// draftOf returns the URL of a draft of r over the store with that URL.
func draftOf(r Root, below string) string {
	u := &URL{Scheme: "overlay", Query: url.Values{}}
	u.Below, _ = virtualfs.ParseURL(below)
	if r.Scope != operator.SessionScope {
		u.Query = url.Values{"keep": {""}, "max": {draftBytes}, "nodes": {draftNodes}}
	}
	return u.String()
}

// rootOf returns the workspace that path is a scope of. It answers notFound.
func (l *layout) rootOf(path string) (Root, error) {
	names := strings.Split(path, "/")
	for _, r := range l.roots.All() {
		if r.Kind == operator.Workspace && len(names) >= 3 && names[0] == operator.ScopesDir && names[1] == r.ID {
			return r, nil
		}
	}
	return Root{}, errNoScope
}

var errNoScope = vfs.Errorf(vfs.NotFound, "the configuration has no draft and no scratch here any more")

// scopeOf returns the path of the scope that path is in.
func scopeOf(path string) string {
	names := strings.SplitN(path, "/", 4)
	return strings.Join(names[:min(3, len(names))], "/")
}

// following reports whether m, which is in a scope, is as l has it.
func (l *layout) following(m Mount) bool {
	all, err := l.scoped(scopeOf(m.Path))
	if path.Base(m.Path) == operator.ScratchName {
		return err == nil
	}
	return slices.ContainsFunc(all, func(o Mount) bool {
		return o.Path == m.Path && o.URL == m.URL && reflect.DeepEqual(o.Attenuation, m.Attenuation)
	})
}

// follow lets scopes follow l from now on, and unmounts what is otherwise.
func (s *Server) follow(ctx context.Context, l layout) error {
	gone := s.otherwise(l)
	s.scoping.Lock()
	defer s.scoping.Unlock()
	if s.scoped == nil {
		s.scoped = map[string]Mount{}
	}
	s.drafts = l
	for _, m := range gone {
		if err := s.unscope(ctx, m.Path); err != nil {
			return err
		}
	}
	return nil
}

// scopesAgain mounts, as l has it, what guests have by their grants, and drafts in which changes wait.
func (s *Server) scopesAgain(ctx context.Context, l layout) error {
	if err := s.follow(ctx, l); err != nil {
		return err
	}
	for _, r := range l.roots.All() {
		if r.Drafted() && !s.fs.Reopens(r.Path) {
			return vfs.Errorf(vfs.Invalid, "the root %s has drafts, and what is mounted at %s cannot be opened a second time; mount a directory or a git revision", r.ID, operator.Place(r.Path))
		}
	}
	paths, err := authority.HeldIn(ctx, s.db, operator.ScopesDir)
	if err != nil {
		return err
	}
	kept, err := keptIn(ctx, s.state)
	if err != nil {
		return err
	}
	for _, k := range kept {
		if k.waits && operator.InScopes(k.Path) {
			paths = append(paths, k.Path)
		}
	}
	for i, path := range paths {
		paths[i] = scopeOf(path)
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		if err := s.scope(ctx, "", path, 0); err != nil && ctx.Err() == nil {
			s.logf("capd: %s: %s", operator.Place(path), vfs.Message(s.noted("what is for a guest", err)))
		}
	}
	return ctx.Err()
}

// leaveScopes unmounts what is for guests that have no grant there any more. A draft that is kept stays mounted as long as
// changes wait in it.
func (s *Server) leaveScopes(ctx context.Context) error {
	s.scoping.Lock()
	mounted := slices.Sorted(maps.Keys(s.scoped))
	s.scoping.Unlock()
	if len(mounted) == 0 {
		return nil
	}
	return s.authority.Held(ctx, operator.ScopesDir, func(held []string) error {
		for _, at := range mounted {
			scope := scopeOf(at)
			if slices.ContainsFunc(held, func(path string) bool { return diff.Within(path, scope) }) {
				continue
			}
			s.leaveScope(ctx, at)
		}
		return nil
	})
}

// leaveScope unmounts what is at path, which no guest has any more.
func (s *Server) leaveScope(ctx context.Context, path string) {
	s.scoping.Lock()
	defer s.scoping.Unlock()
	r, err := s.drafts.rootOf(path)
	session, changed := err == nil && r.Scope == operator.SessionScope, s.fs.Changed(path)
	if changed && !session {
		return
	}
	if err := s.unscope(ctx, path); err != nil {
		s.logf("capd: %s: what no guest has any more is not unmounted: %s", operator.Place(path), vfs.Message(err))
		return
	}
	if changed {
		s.logf("capd: %s: the changes that waited there ended with the last grant of the guest's session", operator.Place(path))
	}
}
