package policy

import (
	"cmp"
	"slices"
	"strings"

	"capd/operator"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/membrane"
)

// Wanted is what an operator wants to grant to a subject.
type Wanted struct {
	Subject operator.Subject
	Root    string          // the id of the root that the grant names; "" if it names none
	Path    string          // below what the subject sees of that root, or in the host's tree
	Rights  membrane.Rights // 0 means what is usual
	Links   bool            // and the right link besides
	Beyond  bool            // the defaults of the roots do not bound the grant
	Scratch bool            // it gets a directory that the subject keeps for itself, beside the root
}

// Roots are the roots of a host. They never change. The zero value has none.
type Roots struct{ all []operator.Root }

// NewRoots returns the roots of a host. It answers invalid if one of them has no id or no
// kind, or if two have the same id or the same path.
func NewRoots(roots []operator.Root) (*Roots, error) {
	for i, r := range roots {
		if err := operator.CheckRootID(r.ID); err != nil {
			return nil, err
		}
		if !slices.Contains(operator.RootKinds(), r.Kind) {
			return nil, vfs.Errorf(vfs.Invalid, "the root %s has no kind; write one of %s", r.ID, strings.Join(operator.RootKinds(), ", "))
		}
		if slices.ContainsFunc(roots[:i], func(o operator.Root) bool { return o.ID == r.ID || o.Path == r.Path }) {
			return nil, vfs.Errorf(vfs.Invalid, "another root has the id or the path of %s; write one root for each mount", r.ID)
		}
	}
	return &Roots{roots}, nil
}

// All returns the roots, in the order of their declaration.
func (r *Roots) All() []operator.Root { return slices.Clone(r.all) }

// Find returns the path in the host's tree that w is about. own is the directory on the way
// that belongs to the subject alone and that the caller makes if it is missing, or "". Find
// answers notFound for a root that does not exist, and what Admit answers.
func (r *Roots) Find(w Wanted) (path, own string, err error) {
	path = w.Path
	if w.Scratch && w.Root == "" {
		return "", "", vfs.Errorf(vfs.Invalid, "scratch is beside a workspace; name a root of that kind")
	}
	if w.Root != "" {
		i := slices.IndexFunc(r.all, func(o operator.Root) bool { return o.ID == w.Root })
		if i < 0 {
			return "", "", vfs.Errorf(vfs.NotFound, "no root has the id %s; the configuration declares them under roots", vfs.Printable(w.Root))
		}
		path = r.all[i].Path
		switch {
		case w.Scratch:
			own = r.all[i].ScopeOf(w.Subject)
			path, err = own, scratched(r.all[i], w)
		case !seesAll(r.all[i], w.Subject) && !w.Beyond:
			own = r.all[i].Own(w.Subject)
			path = own
		}
		if err != nil {
			return "", "", err
		}
		if w.Path != "" {
			path = vfs.Join(path, w.Path)
		}
	}
	_, _, err = r.Admit(w, path)
	return path, own, err
}

// scratched answers invalid if w, which names root, can get no scratch there.
func scratched(root operator.Root, w Wanted) error {
	switch {
	case root.Kind != operator.Workspace:
		return vfs.Errorf(vfs.Invalid, "scratch is beside a workspace, and the root %s is %s; name another root", root.ID, root.Kind)
	case w.Subject.Kind() != operator.AgentRun:
		return vfs.Errorf(vfs.Invalid, "scratch is for agents, and this is %s; grant without it", kindOf(w.Subject))
	case w.Beyond:
		return vfs.Errorf(vfs.Invalid, "a grant that goes beyond the default is of the workspace itself, which has no scratch; grant without one of them")
	case root.Drafted() && root.Scope == operator.SharedScope:
		return vfs.Errorf(vfs.Invalid, "all guests share what they get of the root %s, and scratch is for one; grant without it", root.ID)
	}
	return nil
}

// Admit returns the rights of a grant that stands at path in the host's tree, and the id of
// the root that path is in, or "". On path no name is a link: Admit is asked again after the
// walk to what Find returned, which may have followed links. If w names no rights they are those that are usual in the root,
// without those that a root below path does not give. Admit answers denied for what is beyond
// the defaults, unless w says so.
func (r *Roots) Admit(w Wanted, path string) (rights membrane.Rights, root string, err error) {
	in, err := r.around(path, w.Subject)
	if err != nil && !w.Beyond {
		return 0, "", err
	}
	if w.Beyond {
		return cmp.Or(w.Rights, membrane.AllRights) | w.links(), in.ID, nil
	}
	most, usual := membrane.EveryRight, membrane.AllRights
	if in.ID != "" {
		if err := inside(in, w, path); err != nil {
			return 0, "", err
		}
		d := Defaults(in.Kind, w.Subject.Kind())
		most, usual = d.Most, d.Usual
	}
	for _, below := range r.all {
		if below.Path == path || !diff.Within(below.Path, path) {
			continue
		}
		d := Defaults(below.Kind, w.Subject.Kind())
		if d.Most == 0 || d.Named || !seesAll(below, w.Subject) {
			return 0, "", beyond("this holds the root %s, which is not given to %s as a part of something else; grant a root by itself", below.ID, kindOf(w.Subject))
		}
		most, usual = most&d.Most, usual&d.Most
	}
	switch {
	case usual == 0:
		return 0, "", beyond("the roots here leave %s no right; grant one of them by itself", kindOf(w.Subject))
	case (w.Rights|w.links())&^most != 0:
		return 0, "", beyond("%s may have %s here, and not %s; name fewer rights", kindOf(w.Subject), most, (w.Rights|w.links())&^most)
	}
	return cmp.Or(w.Rights, usual) | w.links(), in.ID, nil
}

// links returns the right link, if w asks for it.
func (w Wanted) links() membrane.Rights {
	if w.Links {
		return membrane.Link
	}
	return 0
}

// inside answers denied if w, whose path is in root, is about what is not given to its
// subject.
func inside(root operator.Root, w Wanted, path string) error {
	d := Defaults(root.Kind, w.Subject.Kind())
	switch {
	case d.Most == 0:
		return beyond("the root %s is %s, where %s is given nothing; grant another root", root.ID, root.Kind, kindOf(w.Subject))
	case d.Named && w.Root != root.ID:
		return beyond("nothing in the root %s, which is %s, is given by its path; name the root", root.ID, root.Kind)
	case root.Drafted() && !seesAll(root, w.Subject) && !diff.Within(path, root.ScopeOf(w.Subject)):
		return beyond("in the root %s %s works in a draft; name the root", root.ID, kindOf(w.Subject))
	case !seesAll(root, w.Subject) && !diff.Within(path, root.Own(w.Subject)):
		return beyond("in the root %s, which is %s, %s is given a directory of its own; name the root", root.ID, root.Kind, kindOf(w.Subject))
	}
	return nil
}

// InSecret reports whether path is in a root whose kind is secret.
func (r *Roots) InSecret(path string) bool {
	return slices.ContainsFunc(r.all, func(o operator.Root) bool { return o.Kind == operator.Secret && diff.Within(path, o.Path) })
}

// around returns the innermost root that path is in, or the zero Root. What the host has mounted for s is in the root that it
// shows. It answers denied for what was mounted for others.
func (r *Roots) around(path string, s operator.Subject) (in operator.Root, err error) {
	if operator.InScopes(path) {
		for _, root := range r.all {
			if root.Kind == operator.Workspace && diff.Within(path, root.ScopeOf(s)) {
				return root, nil
			}
		}
		return in, beyond("what is below %s is each for one guest alone; name a root", operator.ScopesDir)
	}
	for _, root := range r.all {
		if diff.Within(path, root.Path) && (in.ID == "" || len(root.Path) > len(in.Path)) {
			in = root
		}
	}
	return in, nil
}

// seesAll reports whether s is given all of root, and not just a directory of its own.
func seesAll(root operator.Root, s operator.Subject) bool {
	return root.Shared() || s.Kind() == operator.Core || s.Kind() == operator.Person
}

// kindOf names the kind of s, as in "an extension".
func kindOf(s operator.Subject) string {
	switch kind := s.Kind(); kind {
	case operator.AgentRun, operator.Extension, operator.Automation:
		return "an " + kind
	case operator.Person:
		return "a person"
	}
	return "core"
}

// Beyond is the cause of a denied grant that goes beyond the defaults. Its text is for the host.
type Beyond struct{ text string }

func (b *Beyond) Error() string { return b.text }

func beyond(format string, args ...any) error {
	err := vfs.Errorf(vfs.Denied, format+", or say that the grant goes beyond the default", args...)
	return &vfs.Error{Code: vfs.Denied, Msg: vfs.Message(err), Cause: &Beyond{vfs.Message(err)}}
}
