package policy

import (
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
	Beyond  bool            // the defaults of the roots do not bound the grant
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
	if w.Root != "" {
		i := slices.IndexFunc(r.all, func(o operator.Root) bool { return o.ID == w.Root })
		if i < 0 {
			return "", "", vfs.Errorf(vfs.NotFound, "no root has the id %s; the configuration declares them under roots", vfs.Printable(w.Root))
		}
		path = r.all[i].Path
		if !seesAll(r.all[i], w.Subject) && !w.Beyond {
			own = r.all[i].Own(w.Subject)
			path = own
		}
		if w.Path != "" {
			path = vfs.Join(path, w.Path)
		}
	}
	_, _, err = r.Admit(w, path)
	return path, own, err
}

// Admit returns the rights of a grant that stands at path in the host's tree, and the id of
// the root that path is in, or "". On path no name is a link: Admit is asked again after the
// walk to what Find returned, which may have followed links. If w names no rights they are those that are usual in the root,
// without those that a root below path does not give. Admit answers denied for what is beyond
// the defaults, unless w says so.
func (r *Roots) Admit(w Wanted, path string) (rights membrane.Rights, root string, err error) {
	in := r.around(path)
	if w.Beyond {
		if w.Rights == 0 {
			return membrane.AllRights, in.ID, nil
		}
		return w.Rights, in.ID, nil
	}
	most, usual := membrane.AllRights, membrane.AllRights
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
	case w.Rights&^most != 0:
		return 0, "", beyond("%s may have %s here, and not %s; name fewer rights", kindOf(w.Subject), most, w.Rights&^most)
	case w.Rights != 0:
		usual = w.Rights
	}
	return usual, in.ID, nil
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
	case !seesAll(root, w.Subject) && !diff.Within(path, root.Own(w.Subject)):
		return beyond("in the root %s, which is %s, %s is given a directory of its own; name the root", root.ID, root.Kind, kindOf(w.Subject))
	}
	return nil
}

// around returns the innermost root that path is in, or the zero Root.
func (r *Roots) around(path string) (in operator.Root) {
	for _, root := range r.all {
		if diff.Within(path, root.Path) && (in.ID == "" || len(root.Path) > len(in.Path)) {
			in = root
		}
	}
	return in
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

func beyond(format string, args ...any) error {
	return vfs.Errorf(vfs.Denied, format+", or say that the grant goes beyond the default", args...)
}
