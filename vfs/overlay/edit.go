package overlay

import (
	"maps"
	"slices"
	"strings"

	"capd/vfs"
	"capd/vfs/diff"
)

// edit is one step of a change to the tree, as recorded in the index. The tree depends
// on the edits alone.
type edit struct {
	Do   verb   `json:"do"`
	Path raw    `json:"path,omitempty"`
	To   raw    `json:"to,omitempty"`   // of move and adopt
	Node *state `json:"node,omitempty"` // of set
	Base *fact  `json:"base,omitempty"` // of know
	Ms   int64  `json:"ms,omitempty"`   // of touch
}

type verb string

const (
	set    verb = "set"    // puts Node at Path
	drop   verb = "drop"   // makes Path read through
	move   verb = "move"   // moves the node at Path to To
	adopt  verb = "adopt"  // makes the directory at Path read through to the lower path To, with those in it that read through with it
	detach verb = "detach" // stops the directory at Path from reading through
	touch  verb = "touch"  // sets when the directory at Path was modified; 0 leaves it to the lower tree
	know   verb = "know"   // records the base of the lower path Path
	forget verb = "forget" // drops that base
)

// raw is a path or a target. It need not be valid UTF-8.
type raw []byte

// state is a node as recorded, without its entries.
type state struct {
	Kind    vfs.Kind `json:"kind,omitempty"`
	Below   bool     `json:"below,omitempty"`
	Origin  raw      `json:"origin,omitempty"`
	Ms      int64    `json:"ms,omitempty"`
	Exec    bool     `json:"exec,omitempty"`
	Content int64    `json:"content,omitempty"`
	Target  raw      `json:"target,omitempty"`
}

// fact is a base as recorded.
type fact struct {
	Moved   bool     `json:"moved,omitempty"`
	Kind    vfs.Kind `json:"kind,omitempty"`
	Version []byte   `json:"version,omitempty"`
	Exec    bool     `json:"exec,omitempty"`
	Target  raw      `json:"target,omitempty"`
}

func knows(path string, b base) edit { return edit{Do: know, Path: raw(path), Base: factOf(b)} }

func factOf(b base) *fact {
	f := &fact{Moved: b.moved, Kind: b.state.Kind, Exec: b.state.Exec, Target: raw(b.state.Target)}
	if !b.state.Version.IsZero() {
		f.Version = b.state.Version[:]
	}
	return f
}

func (f *fact) base() base {
	b := base{f.Moved, diff.State{Kind: f.Kind, Exec: f.Exec, Target: string(f.Target)}}
	copy(b.state.Version[:], f.Version)
	return b
}

func (n *node) state() *state {
	s := &state{Kind: n.kind, Below: n.below, Origin: raw(n.origin), Ms: n.modified, Exec: n.exec, Target: raw(n.target)}
	if n.content != nil {
		s.Content = n.content.id
	}
	return s
}

// sets returns the edit that puts s at path.
func sets(path string, s state) edit { return edit{Do: set, Path: raw(path), Node: &s} }

func touches(path string, ms int64) edit { return edit{Do: touch, Path: raw(path), Ms: ms} }

// edit makes edits and returns the contents that have left the tree. Needs mu.
func (o *Overlay) edit(edits []edit) (freed []*content) {
	for _, e := range edits {
		path := string(e.Path)
		parent, name := diff.Split(path)
		switch e.Do {
		case set:
			n := &node{kind: e.Node.Kind, below: e.Node.Below, origin: string(e.Node.Origin), modified: e.Node.Ms,
				exec: e.Node.Exec, target: string(e.Node.Target)}
			if e.Node.Content != 0 {
				n.content = o.contents.get(e.Node.Content)
			}
			freed = o.leave(o.edited(parent).put(name, n), freed)
			if n.content != nil { // it had another executable bit before
				freed = slices.DeleteFunc(freed, func(c *content) bool { return c == n.content })
			}
			o.count(n)
		case drop:
			freed = o.leave(o.edited(parent).take(name), freed)
		case move:
			toParent, toName := diff.Split(string(e.To))
			from, to := o.edited(parent), o.edited(toParent)
			n := from.child(name)
			from.take(name)
			freed = o.leave(to.put(toName, n), freed)
			o.count(n)
		case adopt:
			n := o.edited(path)
			n.adopt(string(e.To))
			n.standAll()
			n.each(o.count)
		case detach:
			n := o.edited(path)
			n.below, n.origin = false, ""
			n.standAll()
			n.each(o.count)
		case touch:
			n := o.reach(path)
			n.modified = e.Ms
			n.stand()
		case know:
			o.bases[path] = e.Base.base()
		case forget:
			delete(o.bases, path)
		}
	}
	return freed
}

// reach returns the directory at path, and makes nodes where the way reads through.
// Needs mu.
func (o *Overlay) reach(path string) *node {
	n := o.root
	if path == "" {
		return n
	}
	for name := range strings.SplitSeq(path, "/") {
		n = n.child(name)
	}
	return n
}

// edited is reach for a directory whose entries change. Needs mu.
func (o *Overlay) edited(path string) *node {
	n := o.reach(path)
	n.edits++
	return n
}

// adopt makes n read through to origin, and so the directories in it that read through
// with it.
func (n *node) adopt(origin string) {
	var with []*node
	for _, c := range n.children {
		if c.through() {
			with = append(with, c)
		}
	}
	n.origin, n.below, n.modified = origin, true, 0
	n.edits++
	for _, c := range with {
		c.adopt(vfs.Join(origin, c.name))
	}
}

// each calls do for n, which may be nil, and for everything in it.
func (n *node) each(do func(*node)) {
	if n == nil {
		return
	}
	do(n)
	for _, c := range n.children {
		c.each(do)
	}
}

// dump returns the edits that make the tree from an empty one. Needs mu.
func (o *Overlay) dump() []edit {
	var edits []edit
	for _, path := range slices.Sorted(maps.Keys(o.bases)) {
		edits = append(edits, knows(path, o.bases[path]))
	}
	return o.root.dump("", edits)
}

func (n *node) dump(path string, edits []edit) []edit {
	switch {
	case n.parent != nil && !n.through():
		edits = append(edits, edit{Do: set, Path: raw(path), Node: n.state()})
	case n.modified != 0:
		edits = append(edits, touches(path, n.modified))
	}
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		edits = n.children[name].dump(vfs.Join(path, name), edits)
	}
	return edits
}
