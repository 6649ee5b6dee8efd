package authority

import (
	"slices"

	"capd/operator"
)

// manifests are what the guests of the configuration get without asking anybody, with any invitation.
type manifests map[operator.Subject][]operator.Permission

// setManifests makes the permissions of all those that hold from now on. What was granted stays.
func (h *Host) setManifests(all []Wanted) {
	m := manifests{}
	for _, w := range all {
		if s, err := operator.ParseSubject(w.Guest); err == nil && len(w.Permissions) > 0 {
			m[s] = w.Permissions
		}
	}
	h.manifests.Store(&m)
}

// permissions returns what the invitation i gives, and after it what the configuration gives its subject besides.
func (h *Host) permissions(i operator.Invite) []operator.Permission {
	all := slices.Clone(i.Permissions)
	if m := h.manifests.Load(); m != nil {
		for _, p := range (*m)[i.Subject] {
			if !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	return all
}

// giver says who gives w without asking anybody: who said so of the invitation, or else the manifest in the configuration.
func (p *Petitioner) giver(w *wish) string {
	if by := p.data(); w.Access&^operator.Permitted(by.Permissions, w.offer.Kind) == 0 {
		return by.Source
	}
	return operator.ByManifest
}
