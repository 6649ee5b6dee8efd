// Package authority keeps the guests, their grants, and the secrets that stand for
// grants. Of a secret it keeps only the digest. Grants live in memory: they end with the
// host.
package authority

import (
	"context"
	"crypto/sha256"
	"regexp"
	"sync"
	"time"

	"capd/locator"
	"capd/meter"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Host grants parts of one tree to guests. It is safe for concurrent use.
type Host struct {
	root     vfs.Dir
	bulkhead *membrane.Bulkhead // of root, unless root is composed of mounts
	meters   *meter.Host
	limits   meter.Limits
	since    time.Time

	mu       sync.Mutex // every guest needs it, so it is held only for a few steps, however many grants there are
	registry registry
	closed   bool // no grant is added any more; mu guards it

	burials burials
}

type digest [sha256.Size]byte

// New returns a host of tree, and takes over tree. Every root grant gets a meter of m,
// with limits; [meter.GrantLimits] has the defaults. If m is nil, New makes one, which
// does not know what the system allows. A program that serves guests passes
// meter.NewHost(host.Limits()).
func New(tree vfs.Dir, m *meter.Host, limits meter.Limits) *Host {
	if m == nil {
		m = meter.NewHost(nil)
	}
	h := &Host{root: tree, bulkhead: membrane.NewBulkhead(0), meters: m, limits: limits, since: time.Now(), registry: newRegistry()}
	h.burials.done.L = &h.burials.mu
	return h
}

// grantID matches ids of grants. No guest may have such a name.
var grantID = regexp.MustCompile(`^g[0-9]+$`)

// Grant grants the node at path ("" for the whole tree) to guest, and returns the secret
// that stands for it. It answers what [operator.ParseSubject] answers of guest, and what
// walking to path answers.
func (h *Host) Grant(ctx context.Context, guest, path string, readOnly bool) (operator.Grant, [locator.SecretSize]byte, error) {
	return h.GrantOn(ctx, guest, path, operator.Terms{ReadOnly: readOnly})
}

// GrantOn is Grant on terms.
func (h *Host) GrantOn(ctx context.Context, guest, path string, t operator.Terms) (given operator.Grant, secret [locator.SecretSize]byte, err error) {
	subject, err := operator.ParseSubject(guest)
	if err != nil {
		return given, secret, err
	}
	// The view of the whole tree is not closed: that would close the tree, which the
	// grants share, and the view holds nothing else. (A wrapper without Close would not
	// do: a store moves nodes only to directories of its own.)
	var node vfs.Node = membrane.Guarded(h.root, nil, membrane.Guard{Bulkhead: h.bulkhead})
	if path != "" {
		if node, err = vfs.Walk(ctx, node.(vfs.Dir), path); err != nil {
			return given, secret, vfs.At(path, err)
		}
		defer node.Close()
	}
	rights, err := t.Keep()
	if err != nil {
		return given, secret, vfs.At(path, err)
	}
	if rights != membrane.AllRights {
		if node, err = membrane.Narrow(node, rights); err != nil {
			return given, secret, vfs.At(path, err)
		}
		defer node.Close()
	}
	m := h.meters.Grant(subject.Name(), h.limits)
	m.Set(t.Limits)
	node, ctl, err := membrane.Revocable(node, m)
	if err != nil {
		m.End()
		return given, secret, vfs.At(path, err)
	}
	g := &grant{Grant: operator.Grant{Guest: subject.Name(), Subject: subject, Path: path, Mode: operator.ModeOf(rights), Rights: rights, State: operator.Active}, node: node, meter: m}
	g.control.Store(ctl)
	g.root = g
	made := g.mint()
	if given, err = h.add(g); err != nil {
		_ = ctl.Revoke() // nobody has used it
		node.Close()
		ctl.Release()
		m.End()
		return given, secret, err
	}
	h.mourn(g, node)
	return given, made, nil
}

// add registers a grant. It answers stale once h is closed.
func (h *Host) add(g *grant) (operator.Grant, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return operator.Grant{}, vfs.Errorf(vfs.Stale, "this host has ended and grants nothing any more")
	}
	h.registry.add(g)
	return g.Grant, nil
}

// Restore returns a new reference to the node that a secret stands for, and the meter in
// which its use counts. The secret is looked up by its digest, so the time that this
// takes says nothing about how close to a right secret it was.
func (h *Host) Restore(secret []byte) (vfs.Node, *meter.Meter, error) {
	if len(secret) != locator.SecretSize { // its bytes are not read, however many there are
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
		return n, membrane.MeterOf(n), nil
	}
	if g.dead() {
		err = g.end()
	}
	return nil, nil, err
}

var errNoLocator = vfs.Errorf(vfs.Denied, "this host did not make this locator; ask for another")

var errUnmounted = vfs.Errorf(vfs.Stale, "the mount that this capability is for was unmounted; ask its giver for another")

// Meters returns the meter.Host that has the meters of all grants.
func (h *Host) Meters() *meter.Host { return h.meters }
