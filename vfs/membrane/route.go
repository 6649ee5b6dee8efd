package membrane

import (
	"fmt"
	"slices"
	"strings"

	"capd/vfs"
)

// A route is a path below a gate that the host controls separately. The routes of a
// gate form a trie of names. A view is bound by every route that its path passes: those
// of its own gate, and those of the gates from which its gate was derived. If there are
// several, a composite gate below all of them is their AND.

// at returns the gate that binds a view of base gate g at path. Needs tree.mu.
func (g *Gate) at(path string) *Gate {
	if mode(g.word.Load())&gone != 0 {
		return g
	}
	var finer []*Gate
	only := true // all parts are g's own, so there is only one below g
	for _, top := range g.withRoutes() {
		if r := top.route(path); r != top {
			finer = append(finer, r)
			only = only && top == g
		}
	}
	switch {
	case len(finer) == 0:
		return g
	case only:
		return finer[0]
	}
	return g.composite(append(finer, g))
}

// routedGates are those of g, its parts and the gates they were derived from that have
// routes. It is valid while g's generation is gen.
type routedGates struct {
	known bool
	gen   mode
	gates []*Gate
}

func (g *Gate) withRoutes() []*Gate {
	// A chain of derived gates may be long. So there is no recursion, and each gate is
	// asked once in a generation.
	var chain []*Gate
	for at := g; at != nil && !at.routesKnown(); at = at.outer {
		chain = append(chain, at)
		if at.parts != nil {
			break
		}
	}
	for _, at := range slices.Backward(chain) {
		at.findRoutes()
	}
	return g.routed.gates
}

func (g *Gate) generation() mode { return mode(g.word.Load()) &^ modeBits }

func (g *Gate) routesKnown() bool { return g.routed.known && g.routed.gen == g.generation() }

// findRoutes finds the gates that have routes. g.outer knows its own already.
func (g *Gate) findRoutes() {
	var found []*Gate
	switch {
	case g.parts != nil:
		for _, p := range g.parts {
			for _, r := range p.withRoutes() {
				if !slices.Contains(found, r) {
					found = append(found, r)
				}
			}
		}
	case g.outer != nil:
		found = g.outer.routed.gates // shared; never changed in place
	}
	if len(g.routes) > 0 {
		found = append(slices.Clip(found), g)
	}
	g.routed = routedGates{true, g.generation(), found}
}

// rerouted begins a new generation for g and everything below, after a route of g
// appeared or disappeared. Needs tree.mu.
func (g *Gate) rerouted() {
	var watching []*watcher
	for _, b := range g.below() {
		b.setWord(mode(b.word.Load()) + oneGen)
		for w := range b.watchers {
			watching = append(watching, w)
		}
	}
	for _, w := range watching {
		w.home()
	}
}

// route returns the deepest route of g that path passes, or g.
func (g *Gate) route(path string) *Gate {
	for _, name := range g.names(path) {
		next := g.routes[name]
		if next == nil {
			break
		}
		g = next
	}
	return g
}

// exactly returns the route of g to path, g if path is not below it, or nil.
func (g *Gate) exactly(path string) *Gate {
	for _, name := range g.names(path) {
		if g = g.routes[name]; g == nil {
			return nil
		}
	}
	return g
}

// names returns the names from g's origin to path, none if path is not below it.
func (g *Gate) names(path string) []string {
	rest, ok := strings.CutPrefix(path, g.origin)
	if ok && g.origin != "" {
		rest, ok = strings.CutPrefix(rest, "/")
	}
	if !ok || rest == "" {
		return nil
	}
	return strings.Split(rest, "/")
}

// controlled reports whether the host controls a route at path or below it, of g or of
// a gate that g was derived from. Needs tree.mu.
func (g *Gate) controlled(path string) bool {
	for _, top := range g.withRoutes() {
		if r := top.exactly(path); r != nil && r != top && r.held() {
			return true
		}
	}
	return false
}

// held reports whether the route r or one below it is controlled or forbids something.
// A gate that a guest derived there does not count.
func (r *Gate) held() bool {
	if r.controls > 0 || r.own != 0 || r.expires != 0 {
		return true
	}
	for _, next := range r.routes {
		if next.held() {
			return true
		}
	}
	return false
}

// composite returns the gate that is the AND of parts.
func (g *Gate) composite(parts []*Gate) *Gate {
	slices.SortFunc(parts, func(a, b *Gate) int { return int(a.id) - int(b.id) })
	parts = slices.Compact(parts)
	key := ""
	for _, p := range parts {
		key += fmt.Sprint(p.id, " ")
	}
	if c := g.composites[key]; c != nil {
		return c
	}
	c := g.tree.linkGate(g.origin, parts)
	c.parts, c.of, c.key = parts, g, key
	if g.composites == nil {
		g.composites = map[string]*Gate{}
	}
	g.composites[key] = c
	return c
}

// child returns the route to name below g with a reference, and makes it if there is
// none. uncontrol undoes it.
func (g *Gate) child(name string) *Gate {
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	r := g.routes[name]
	if r == nil {
		r = g.tree.linkGate(vfs.Join(g.origin, name), []*Gate{g})
		r.name = name
		if g.routes == nil {
			g.routes = map[string]*Gate{}
		}
		g.routes[name] = r
		g.rerouted()
	}
	r.controls++
	r.acquire()
	return r
}

// Cover makes the node at the path names below g, and everything in it, answer stale until
// uncover is called. A mount covers what is at its path in other trees.
func (g *Gate) Cover(names []string) (uncover func()) {
	r := g
	for i, name := range names {
		next := r.child(name)
		if i > 0 {
			r.uncontrol()
		}
		r = next
	}
	r.set(hidden, 0)
	return func() {
		r.set(0, hidden)
		r.uncontrol()
	}
}

// leads reports whether path, below g, leads to something hidden. Only a directory can
// be there. Needs tree.mu.
func (g *Gate) leads(path string) bool {
	if len(g.routes) == 0 {
		return false
	}
	r := g.exactly(path)
	return r != nil && r != g && r.hides()
}

// hides reports whether something below the route r is hidden.
func (r *Gate) hides() bool {
	for _, next := range r.routes {
		if next.own&hidden != 0 || next.hides() {
			return true
		}
	}
	return false
}

// uncontrol undoes child.
func (g *Gate) uncontrol() {
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	g.controls--
	g.release()
}
