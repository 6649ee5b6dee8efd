package config

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Root gives a purpose to a mount. See docs/roots.md.
type Root struct {
	ID     string // unique
	Kind   string // one of operator.RootKinds
	Mount  string // the path of one of Config.Mounts; "" where the host makes a directory, which it mounts at ID
	Name   string // for people; "" for none
	Labels []string
	Access string // of a workspace, and Scope of its drafts: as operator.Root has them
	Scope  string
	Where  string // "NAME:LINE:COLUMN" of the root in the file
}

// roots are those that were read, and what is checked when the whole file was read.
type roots struct {
	ids, mounts map[string]place
	kinds       map[string]string // by mount
	drafted     map[string]bool   // likewise: guests work in drafts of it
	made        []named           // roots whose directories the host makes
	named       []named           // by guests
}

// named is the id of a root, and where it is written.
type named struct {
	id string
	at place
}

func (r *reader) root(n ast.Node, all *roots) Root {
	root := Root{Where: r.where(placeOf(n))}
	var mount *place
	r.mapping(n, "a root",
		key{"id", "a name, such as id: project", r.text("id", &root.ID, func(at place, s string) {
			if err := operator.CheckRootID(s); err != nil {
				r.mistake(at, "%s: %s", quote(s), vfs.Message(err))
			}
			r.once(all.ids, s, at, "id")
		})},
		key{"kind", "what it is for, such as kind: workspace", r.text("kind", &root.Kind, func(at place, s string) {
			if kinds := operator.RootKinds(); !slices.Contains(kinds, s) {
				r.mistake(at, "%s is no kind of root%s; write one of %s", quote(s), didYouMean(s, kinds), strings.Join(kinds, ", "))
			}
		})},
		key{"mount", "", r.text("mount", &root.Mount, func(at place, s string) {
			r.once(all.mounts, s, at, "mount")
			mount = &at
		})},
		key{"name", "", r.text("name", &root.Name, r.some("name", "what people read, or leave it out"))},
		key{"labels", "", r.texts("labels", &root.Labels, r.some("a label", "a word, or leave it out"))},
		key{"access", "", r.text("access", &root.Access, r.some("access", "rw, ro or none"))},
		key{"scope", "", r.text("scope", &root.Scope, r.some("scope", "session, agent or shared"))},
	)
	drafts := operator.Root{ID: root.ID, Kind: root.Kind, Access: root.Access, Scope: root.Scope}
	if err := drafts.CheckDraft(); err != nil {
		r.mistake(placeOf(n), "%s", vfs.Message(err))
	}
	all.drafted[root.Mount] = drafts.Drafted()
	switch {
	case mount != nil && (root.Kind == operator.Temp || root.Kind == operator.ExtensionStorage && root.Mount == ""):
		r.mistake(*mount, "the host makes the directory of this root and mounts it at the root's id; leave mount out")
	case mount != nil:
		all.kinds[root.Mount] = root.Kind
	case root.Kind == operator.Temp || root.Kind == operator.ExtensionStorage:
		all.made = append(all.made, named{root.ID, placeOf(n)})
	default:
		r.mistake(placeOf(n), "a root has no mount; write the path of the mount that it is, such as mount: project")
	}
	return root
}

// once reports a second root with the same value of key.
func (r *reader) once(seen map[string]place, value string, at place, key string) {
	if other, taken := seen[value]; taken {
		r.mistake(at, "the root in line %d has the %s %s too; write another", other.line, key, quote(value))
		return
	}
	seen[value] = at
}

// rooted checks what roots, mounts and guests say of each other.
func (r *reader) rooted(c *Config, all *roots) {
	for mount, at := range all.mounts {
		i := slices.IndexFunc(c.Mounts, func(m Mount) bool { return m.Path == mount })
		switch {
		case i < 0:
			r.mistake(at, "nothing is mounted at %s; write the path of a mount in this file", quote(mount))
		case all.kinds[mount] == operator.Downloads && !strings.HasPrefix(c.Mounts[i].URL, "overlay:"):
			r.mistake(at, "downloads wait until they are applied, and this mount keeps nothing back; write overlay: before its url")
		case all.drafted[mount] && strings.HasPrefix(c.Mounts[i].URL, "overlay:"):
			r.mistake(at, "a draft cannot lie on an overlay; mount what is below it")
		case all.drafted[mount] && strings.HasPrefix(c.Mounts[i].URL, "memory:"):
			r.mistake(at, "a draft cannot lie on what is only in memory; mount a directory or a git revision")
		}
	}
	for _, n := range all.made {
		if slices.ContainsFunc(c.Mounts, func(m Mount) bool { return m.Path == n.id }) {
			r.mistake(n.at, "this root is mounted at its id, and %s is a mount too; write another id", quote(n.id))
		}
	}
	for _, n := range all.named {
		if _, there := all.ids[n.id]; !there {
			r.mistake(n.at, "no root has the id %s; write one of those under roots, or path", quote(n.id))
		}
	}
}

// rights reads a list of the names of rights.
func (r *reader) rights(into *membrane.Rights) func(ast.Node) {
	return func(n ast.Node) {
		var names []string
		r.texts("rights", &names, func(at place, s string) {
			right, err := membrane.ParseRights(s)
			if err != nil || !slices.Contains(membrane.EveryRight.Names(), s) {
				r.mistake(at, "%s is no right%s; write some of %s", quote(s), didYouMean(s, membrane.EveryRight.Names()), strings.Join(membrane.EveryRight.Names(), ", "))
			}
			*into |= right
		})(n)
		if s, ok := n.(*ast.SequenceNode); ok && len(s.Values) == 0 {
			r.mistake(placeOf(n), "rights is empty; write at least one of %s, or leave it out for what is usual", strings.Join(membrane.EveryRight.Names(), ", "))
		}
	}
}
