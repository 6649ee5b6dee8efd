package server

import (
	"path/filepath"
	"slices"
	"strings"

	"capd/config"
	"capd/operator"
	"capd/policy"
	"capd/state"
	"capd/vfs"
)

// Root gives a purpose to a mount: ID, Kind, Path, Name and Labels. The kind decides what each kind of guest
// gets there by default; docs/roots.md has the table. The host itself makes the directory of a root for temporary
// files, and that of an extension storage without a Path, and mounts it at the root's ID. See [operator.Root].
type Root = operator.Root

// rootsOf returns the roots of a configuration.
func rootsOf(c *config.Config) (all []Root) {
	for _, r := range c.Roots {
		all = append(all, Root{ID: r.ID, Kind: r.Kind, Path: r.Mount, Name: r.Name, Labels: r.Labels, Access: r.Access, Scope: r.Scope})
	}
	return all
}

// made reports whether the host makes the directory of r.
func made(r Root) bool {
	return r.Kind == operator.Temp || r.Kind == operator.ExtensionStorage && r.Path == ""
}

// placed returns the roots of s, each with its path. It answers invalid for a root that is no mount of s, and for
// one that is wrong in itself.
func (s *Server) placed() (*policy.Roots, error) {
	all := slices.Clone(s.Roots)
	for i, r := range all {
		if err := s.placeable(r); err != nil {
			return nil, err
		}
		if made(r) {
			all[i].Path = r.ID
		}
	}
	return policy.NewRoots(all)
}

func (s *Server) placeable(r Root) error {
	path := r.Path
	if made(r) {
		path = r.ID
	}
	i := slices.IndexFunc(s.Mounts, func(m Mount) bool { return m.Path == path })
	id := vfs.Printable(r.ID)
	switch {
	case r.Kind == operator.Temp && r.Path != "":
		return vfs.Errorf(vfs.Invalid, "the root %s is for temporary files, and the host itself makes its directory; leave its path out", id)
	case r.CheckDraft() != nil:
		return r.CheckDraft()
	case made(r) && i >= 0:
		return vfs.Errorf(vfs.Invalid, "the root %s is mounted at its id, where something else is mounted; give it another id", id)
	case !made(r) && i < 0:
		return vfs.Errorf(vfs.Invalid, "the root %s is at %q, where nothing is mounted; give it the path of a mount", id, r.Path)
	case r.Kind == operator.Downloads && !strings.HasPrefix(s.Mounts[i].URL, "overlay:"):
		return vfs.Errorf(vfs.Invalid, "the root %s is for downloads, which wait until they are applied; mount an overlay there", id)
	case r.Drafted() && strings.HasPrefix(s.Mounts[i].URL, "overlay:"):
		return vfs.Errorf(vfs.Invalid, "the root %s has drafts, which cannot lie on an overlay; mount what is below it", id)
	}
	return nil
}

// rootMounts makes the directories of roots that the host itself makes, and returns their mounts. Nothing in them is
// withheld or guarded.
func (s *Server) rootMounts(roots []Root) (all []Mount, err error) {
	for _, r := range roots {
		if !made(r) {
			continue
		}
		dir := filepath.Join(s.state.Roots(), r.ID)
		if err := state.MakeDir(dir); err != nil {
			return nil, s.state.Unusable(err)
		}
		all = append(all, Mount{Path: r.ID, URL: PhysicalURL(dir), Attenuation: Attenuation{Deny: []string{}, Ask: []string{}}})
	}
	return all, nil
}
