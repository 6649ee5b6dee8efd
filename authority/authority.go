// Package authority knows who holds what: guests, their grants, and the secrets
// that stand for them. Of a secret only the digest is kept. Grants live in
// memory: they end with the host.
package authority

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"capd/locator"
	"capd/meter"
	"capd/vfs"
)

// MaxGone is how many revoked grants are remembered, so that their locators answer
// revoked.
const MaxGone = 4096

// Host gives out grants to one tree. It is safe for concurrent use.
type Host struct {
	root     vfs.Dir
	bulkhead *vfs.Bulkhead // of root, unless it is composed of mounts
	meters   *meter.Host
	limits   meter.Limits
	since    time.Time

	mu       sync.Mutex // every guest needs it: it is held for a few steps, whatever there is
	registry registry

	burials sync.WaitGroup
}

type digest [sha256.Size]byte

// Grant is what is known of a grant.
type Grant struct {
	Guest  string // the holder's name
	ID     string // not secret
	Path   string // in the host's tree; "" for all of it
	Mode   Mode   // what was granted
	State  State  // what it is now
	Parent string // id of the grant it was shared from, or ""
}

// Mode is what was granted.
type Mode string

// State is what a grant is now.
type State string

// The modes and states.
const (
	ReadWrite Mode = "read-write"
	ReadOnly  Mode = "read-only"

	Active  State = "active"
	Locked  State = "locked" // read-only until the host unlocks it
	Revoked State = "revoked"
)

type grant struct {
	Grant
	digest  digest
	node    vfs.Node                    // what the locator restores; nil once it was found revoked, or unmounted
	control atomic.Pointer[vfs.Control] // nil once the grant is buried
	ended   error                       // set before that: what every call through it answers
	unwatch func()
	root    *grant // itself, unless shared
	order   uint64 // its id's number
	holder  *guest
	meter   *meter.Meter // what is done through it counts there; nil once the grant is buried
	giver   *meter.Meter // of a share: whose it is

	// Of a root grant, of what was shared from it, under the host's lock.
	gone      []*grant // those that have ended and are remembered, the first to end first
	forgotten bool     // the root grant itself
}

// shared reports whether g was shared from another.
func (g *grant) shared() bool { return g.root != g }

// New returns a host of tree, which it takes over. Every root grant gets a meter of m, with
// limits; what they do not say is as [meter.GrantLimits] has it. A nil m is a new one, which does
// not know what the system allows: a program that serves guests passes meter.NewHost(host.Limits()).
func New(tree vfs.Dir, m *meter.Host, limits meter.Limits) *Host {
	if m == nil {
		m = meter.NewHost(nil)
	}
	return &Host{root: tree, bulkhead: vfs.NewBulkhead(0), meters: m, limits: limits, since: time.Now(), registry: newRegistry()}
}

var guestName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// grantID is what ids look like, which no guest may be called.
var grantID = regexp.MustCompile(`^g[0-9]+$`)

// Grant gives guest the node at path ("" for the whole tree) and returns the
// secret that stands for it. It answers invalid for a name that is not 1 to 64
// of A-Z a-z 0-9 . _ - or looks like an id, and what walking to the path answers.
func (h *Host) Grant(ctx context.Context, guest, path string, readOnly bool) (Grant, [locator.SecretSize]byte, error) {
	return h.GrantOn(ctx, guest, path, Terms{ReadOnly: readOnly})
}

// Terms are what a grant is given on.
type Terms struct {
	ReadOnly bool
	Limits   meter.Limits // what it does not say is as for every grant of the host
}

// GrantOn is Grant on terms.
func (h *Host) GrantOn(ctx context.Context, guest, path string, t Terms) (Grant, [locator.SecretSize]byte, error) {
	fail := func(err error) (Grant, [locator.SecretSize]byte, error) {
		return Grant{}, [locator.SecretSize]byte{}, err
	}
	if !guestName.MatchString(guest) {
		return fail(vfs.Errorf(vfs.Invalid, "a guest's name is 1 to 64 of A-Z a-z 0-9 . _ -"))
	}
	if grantID.MatchString(guest) {
		return fail(vfs.Errorf(vfs.Invalid, "a guest's name that is g and a number could be taken for a grant's id"))
	}
	// The view of the whole tree is left open: it would close the tree, which
	// the grants share, and holds nothing else. (A wrapper that does not close
	// would not do: a store moves nodes only to directories that are its own.)
	node, err := vfs.Node(vfs.Guarded(h.root, nil, vfs.Guard{Bulkhead: h.bulkhead})), error(nil)
	if path != "" {
		if node, err = vfs.Walk(ctx, node.(vfs.Dir), path); err != nil {
			return fail(vfs.At(path, err))
		}
		defer node.Close()
	}
	if t.ReadOnly {
		if node, err = attenuate(node); err != nil {
			return fail(vfs.At(path, err))
		}
		defer node.Close()
	}
	m := h.meters.Grant(guest, h.limits)
	m.Set(t.Limits)
	node, ctl, err := vfs.Revocable(node, m)
	if err != nil {
		m.End()
		return fail(vfs.At(path, err))
	}
	mode := ReadWrite
	if t.ReadOnly {
		mode = ReadOnly
	}
	g := &grant{Grant: Grant{Guest: guest, Path: path, Mode: mode, State: Active}, node: node, meter: m}
	g.control.Store(ctl)
	g.root = g
	secret := g.mint()
	h.mu.Lock()
	h.registry.add(g)
	given := g.Grant
	h.mu.Unlock()
	h.mourn(g, node)
	return given, secret, nil
}

func attenuate(n vfs.Node) (vfs.Node, error) {
	if d, ok := n.(vfs.Dir); ok {
		return vfs.ReadOnlyDir(d)
	}
	return vfs.ReadOnlyFile(n.(vfs.File))
}

// mint makes the secret that stands for g, of which g keeps the digest.
func (g *grant) mint() [locator.SecretSize]byte {
	secret := locator.NewSecret()
	g.digest = sha256.Sum256(secret[:])
	return secret
}

// mourn has g, whose node is node, counted as ended when it is, and buried. h.mu is
// not held, since a guest may be busy with the gates.
func (h *Host) mourn(g *grant, node vfs.Node) {
	stop := vfs.OnRevoke(node, func(error) {
		h.end(g)
		h.burials.Go(func() { h.bury(g) })
	})
	h.mu.Lock()
	buried := g.node == nil
	if !buried {
		g.unwatch = stop
	}
	h.mu.Unlock()
	if buried {
		stop()
	}
}

// bury lets go of what a grant that was revoked, or has expired, or whose tree was
// unmounted, holds, once no change goes through it any more. What remains is what
// Grants tells of it and what its locator answers. When a change is stuck the rest is
// left to whoever revokes again.
func (h *Host) bury(g *grant) {
	ctl := g.control.Load()
	if ctl == nil {
		return
	}
	err := ctl.Drain()
	h.mu.Lock()
	node, stop := g.node, g.unwatch
	g.node = nil
	g.unwatch = nil
	var m *meter.Meter
	if err == nil && ctl.Ended() != nil { // a grant whose tree was unmounted can be revoked still
		g.Path = brief(g.Path)
		g.ended = ctl.Ended()
		g.control.Store(nil)
		m = h.registry.unmeter(g)
	}
	h.mu.Unlock()
	if m != nil {
		m.End()
	}
	if node != nil {
		node.Close()
	}
	if stop != nil {
		stop()
	}
	if err == nil {
		ctl.Release()
	}
}

// maxBrief is how many bytes are remembered of the path of a grant that is gone.
const maxBrief = 128

// brief returns a copy of path, cut after maxBrief bytes. The copy keeps alive no
// longer string that path is a part of.
func brief(path string) string {
	if len(path) > maxBrief {
		return path[:maxBrief] + "…"
	}
	return strings.Clone(path)
}

// dead reports whether g was revoked. It waits for nothing.
func (g *grant) dead() bool { return g.end() != nil }

// end returns what every call through g answers once it was revoked, has expired or
// was unmounted; nil before. It waits for nothing.
func (g *grant) end() error {
	if ctl := g.control.Load(); ctl != nil {
		return ctl.Ended()
	}
	return g.ended
}

// revoke revokes g, and waits as [vfs.Gate.Revoke] does.
func (h *Host) revoke(g *grant) error {
	ctl := g.control.Load()
	if ctl == nil {
		return nil
	}
	err := ctl.Revoke()
	if err == nil {
		h.burials.Go(func() { h.bury(g) }) // a change that was stuck may have left something
	}
	return err
}

// Restore returns a new reference to the node that a secret stands for, and the meter that what
// is done through it counts in. A secret is looked up by its digest, so that the time it
// takes says nothing of how near to a right one it was.
func (h *Host) Restore(secret []byte) (vfs.Node, *meter.Meter, error) {
	if len(secret) != locator.SecretSize { // however long it is, nothing of it is read
		return nil, nil, errNoLocator
	}
	d := digest(sha256.Sum256(secret))
	h.mu.Lock()
	g := h.registry.byDigest[d]
	var node vfs.Node
	if g != nil {
		node = g.node
	}
	h.mu.Unlock()
	switch {
	case g == nil:
		return nil, nil, errNoLocator
	case g.dead():
		return nil, nil, g.end()
	case node == nil:
		return nil, nil, errUnmounted
	}
	n, err := vfs.Dup(node)
	if err == nil {
		return n, vfs.MeterOf(n), nil
	}
	if g.dead() {
		err = g.end()
	}
	return nil, nil, err
}

var errNoLocator = vfs.Errorf(vfs.Denied, "this is not a locator that this host gave out; ask for another")

var errUnmounted = vfs.Errorf(vfs.Stale, "what this capability leads to was unmounted; ask its giver for another")

// Grants returns at most max grants, oldest first: those after the one with that id,
// which may be forgotten since, or from the first for "". It answers invalid for
// what is no id, and notFound for one that no grant ever had.
func (h *Host) Grants(after string, max int) (out []Grant, err error) {
	order, err := h.orderAfter(after)
	if err != nil {
		return nil, err
	}
	h.each(order, func(g *grant) bool {
		out = append(out, g.now())
		return len(out) < max
	})
	return out, nil
}

// orderAfter is the order of the grant with that id, 0 for "".
func (h *Host) orderAfter(id string) (order uint64, err error) {
	if id == "" {
		return 0, nil
	}
	if order, err = orderOf(id); err != nil {
		return 0, err
	}
	h.mu.Lock()
	last := h.registry.lastID
	h.mu.Unlock()
	if order > last {
		return 0, errNoGrant
	}
	return order, nil
}

// now is the grant with its state. h.mu is held.
func (g *grant) now() Grant {
	out := g.Grant
	switch {
	case g.dead():
		out.State = Revoked
	case g.control.Load().Locked():
		out.State = Locked
	}
	return out
}

// of returns the grants of a guest, or the one with that id.
func (h *Host) of(guest string) ([]*grant, error) {
	h.mu.Lock()
	gs := h.registry.ofGuest(guest)
	if g := h.registry.byID(guest); g != nil {
		gs = append(gs, g)
	}
	h.mu.Unlock()
	if len(gs) == 0 {
		return nil, vfs.Errorf(vfs.NotFound, "no guest has that name and no grant that id; see grants")
	}
	slices.SortFunc(gs, func(a, b *grant) int { return cmp.Compare(a.order, b.order) })
	return gs, nil
}

// Revoke revokes every grant of guest, or the one with that id, and all that was
// shared from it, and returns when nothing can change through it any more. It
// counts those that were not revoked before. It answers busy as vfs.Gate.Revoke
// does.
func (h *Host) Revoke(guest string) (int, error) {
	gs, err := h.of(guest)
	if err != nil {
		return 0, err
	}
	// Those that are revoked already too: a change through them may be stuck.
	return len(alive(gs)), all(gs, h.revoke)
}

// SetWritable locks or unlocks every grant of guest, or the one with that id, and
// counts them. It answers revoked when all of them were taken back.
func (h *Host) SetWritable(guest string, on bool) (int, error) {
	gs, err := h.of(guest)
	if err != nil {
		return 0, err
	}
	if gs = alive(gs); len(gs) == 0 {
		return 0, vfs.Revoked
	}
	return len(gs), all(gs, func(g *grant) error {
		if ctl := g.control.Load(); ctl != nil {
			return ctl.SetWritable(on)
		}
		return nil // revoked meanwhile
	})
}

// alive returns the grants that are not revoked.
func alive(gs []*grant) []*grant {
	return slices.DeleteFunc(slices.Clone(gs), (*grant).dead)
}

// SetLimits changes limits of every grant of guest, or of the one with that id, and counts
// them. It answers revoked when all of them were taken back. See [meter.Meter.Set].
func (h *Host) SetLimits(guest string, l meter.Limits) (int, error) {
	gs, err := h.of(guest)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, g := range alive(gs) {
		if m := h.meterOf(g); m != nil {
			m.Set(l)
			n++
		}
	}
	if n == 0 {
		return 0, vfs.Revoked
	}
	return n, nil
}

// Meter returns the meter of one grant. For one that is gone it answers what its calls
// do.
func (h *Host) Meter(id string) (*meter.Meter, error) {
	g, err := h.byID(id)
	if err != nil {
		return nil, err
	}
	if m := h.meterOf(g); m != nil {
		return m, nil
	}
	return nil, g.ended
}

func (h *Host) meterOf(g *grant) *meter.Meter {
	h.mu.Lock()
	defer h.mu.Unlock()
	return g.meter
}

// Meters returns what the meters of all grants are parts of.
func (h *Host) Meters() *meter.Host { return h.meters }

// Control returns the control of one grant. For one that is gone it answers what its
// calls do.
func (h *Host) Control(id string) (*vfs.Control, error) {
	g, err := h.byID(id)
	if err != nil {
		return nil, err
	}
	if ctl := g.control.Load(); ctl != nil {
		return ctl.Dup(), nil
	}
	return nil, g.ended
}

func (h *Host) byID(id string) (*grant, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g := h.registry.byID(id); g != nil {
		return g, nil
	}
	return nil, errNoGrant
}

var errNoGrant = vfs.Errorf(vfs.NotFound, "there is no grant with that id; see grants")

// all runs f for all at once, so that one that is stuck does not hold up the
// others.
func all(gs []*grant, f func(*grant) error) error {
	errs := make([]error, len(gs))
	var wg sync.WaitGroup
	for i, g := range gs {
		wg.Go(func() { errs[i] = f(g) })
	}
	wg.Wait()
	var texts []string
	for i, err := range errs {
		if e, ok := errors.AsType[*vfs.Error](err); ok {
			texts = append(texts, gs[i].ID+": "+e.Msg)
		} else if err != nil {
			return err
		}
	}
	if len(texts) > 0 {
		return vfs.Errorf(vfs.Busy, "%s", strings.Join(texts, "; "))
	}
	return nil
}

// Close revokes every grant and closes the tree.
func (h *Host) Close() error {
	var gs []*grant
	h.each(0, func(g *grant) bool {
		gs = append(gs, g)
		return true
	})
	err := all(gs, h.revoke)
	h.burials.Wait()
	return errors.Join(err, h.root.Close())
}
