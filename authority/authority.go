// Package authority keeps the guests, their grants, and the secrets that stand for
// grants. Of a secret it keeps only the digest. Grants are rows of the host's database: they
// are there after a restart, with what was set and what was revoked.
//
// A grant that somebody uses is resident: its node, its gate and its meter are in memory. Any
// other grant is only a row, and becomes resident when its locator is restored. Of those that nobody
// holds any more the host keeps [MaxResident].
package authority

import (
	"cmp"
	"context"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"

	"capd/approval"
	"capd/database"
	"capd/history"
	"capd/hook"
	"capd/locator"
	"capd/meter"
	"capd/operator"
	"capd/policy"
	"capd/record"
	"capd/vfs"
	"capd/vfs/feed"
	"capd/vfs/membrane"
)

// Host grants parts of one tree to guests. It is safe for concurrent use.
type Host struct {
	root     vfs.Dir
	bulkhead *membrane.Bulkhead // of root, unless root is composed of mounts
	meters   *meter.Host
	limits   meter.Limits // mu guards it
	places   Places
	roots    atomic.Pointer[policy.Roots]
	left     func()
	scope    func(context.Context, operator.Subject, string, int64) error
	journal  vfs.Dir         // nil: that of root
	temps    *membrane.Temps // nil: there are none
	acts     func(context.Context, record.Numbered) (record.Result, bool)
	granting sync.RWMutex // held for reading while a grant is made
	policy   *policy.Book // nil for none
	since    time.Time

	clock  *membrane.Clock // by which grants expire
	db     *database.DB
	mine   bool             // db is closed with the host
	record *record.Log      // nil: nothing is recorded
	asks   *approval.Desk   // nil: nobody is asked
	hooks  *hook.Chain      // nil for none
	past   *history.Journal // nil: nothing can be undone
	feed   *feed.Feed
	spans  spans

	digests digests
	denials denials
	reads   reads

	ticker *time.Timer  // nil while no grant can expire; mu guards it
	marked atomic.Int64 // when the time was kept

	secrets   secrets
	evictor   evictor
	quotas    quotas
	withdrawn withdrawn
	unready   error // why it cannot be served yet

	settings sync.Mutex // held to change a grant's settings, and to make one resident with those it has

	mu        sync.Mutex // every guest needs it, so it is held only for a few steps, however many grants there are
	residents residents
	loading   map[int64]*load
	back      map[int64]bool // the root grants that are held back; see HoldBack
	closed    bool           // no grant becomes resident any more; mu guards it

	invited   invitations
	manifests atomic.Pointer[manifests] // nil before the first Reconcile
	wishing   keyed                     // held for a wish while it is granted

	burials burials
	forgets forgetter
}

// Options are what a host's authority needs besides its tree. The zero value keeps nothing.
type Options struct {
	// Meters counts what guests hold, and Limits is what each root grant may hold; [meter.GrantLimits] has the defaults. If
	// Meters is nil, Open makes one, which does not know what the system allows. A program that serves guests passes
	// meter.NewHost(host.Limits()).
	Meters *meter.Host
	Limits meter.Limits
	// DB keeps the grants. It is not closed with the host. Nil keeps them in memory.
	DB *database.DB
	// Record gets every change of guests; without it there is no change. It is not closed with the host. Nil records nothing.
	Record *record.Log
	// Clock tells the time by which grants expire. Nil is the system's.
	Clock *membrane.Clock
	// Asks is where changes wait that need an approval. Without it they are refused.
	Asks *approval.Desk
	// History keeps what changes displace, beside Record, so that they can be undone. It is not closed with the host. Nil keeps nothing.
	History *history.Journal
	// Hooks are asked before guests' changes. Nil is none.
	Hooks *hook.Chain
	// Places tells whether a path leads to what it led to before a restart. Nil checks only the directories themselves.
	Places Places
	// Roots bound what is granted. Nil is none.
	Roots *policy.Roots
	// Policy has the rules for guests. Nil is none.
	Policy *policy.Book
	// Ended is called when a grant that is no share has ended, before the call that ended it answers. It may be nil.
	Ended func()
	// Scope mounts what a subject gets of a workspace, before it is granted: a draft, or with a directory that the subject keeps for
	// itself, of at most scratch bytes unless that is 0. path is as [operator.Root.ScopeOf] returns it. It may be nil if there are no
	// roots.
	Scope func(ctx context.Context, subject operator.Subject, path string, scratch int64) error
	// Journal is where changes of several paths are written before they are made, for a tree that ends with the process. Nil leaves that to the
	// tree; see [membrane.JournalOf].
	Journal vfs.Dir
	// Temps makes temporary directories for guests. Nil makes none.
	Temps *membrane.Temps
	// Acts finds out how what an operator did ended, for Settle. ok is false for the change of a guest. Nil knows of none.
	Acts func(ctx context.Context, of record.Numbered) (r record.Result, ok bool)
}

// Places says what paths lead to, so that after a restart no grant leads to another store.
type Places interface {
	// Mounted returns what tells the stores that a grant on path reaches from others.
	Mounted(path string) map[string]string
	// Remains reports whether a grant on path still reaches the stores that it reached when Mounted returned then.
	Remains(path string, then map[string]string) bool
	// Lasting reports whether what is stored at path outlives the process. It must not wait.
	Lasting(path string) bool
}

// New returns a host of tree that keeps nothing, and takes over tree. m and limits are as in [Options].
func New(tree vfs.Dir, m *meter.Host, limits meter.Limits) *Host {
	return Open(tree, Options{Meters: m, Limits: limits})
}

// Open returns a host of tree with the grants in o.DB, and takes over tree.
func Open(tree vfs.Dir, o Options) *Host {
	if o.Clock == nil {
		o.Clock = &membrane.Clock{}
	}
	if o.Meters == nil {
		o.Meters = meter.NewHost(nil)
	}
	h := &Host{
		root: tree, bulkhead: membrane.NewBulkhead(0), meters: o.Meters, limits: o.Limits, places: o.Places, policy: o.Policy, left: o.Ended, scope: o.Scope, acts: o.Acts, journal: o.Journal, temps: o.Temps, since: time.Now(),
		clock: o.Clock, db: o.DB, mine: o.DB == nil, record: o.Record, past: o.History, asks: o.Asks, hooks: o.Hooks, loading: map[int64]*load{},
		residents: residents{byDigest: map[digest]*grant{}, byMeter: map[*meter.Meter]*grant{}, byID: btree.NewMap[int64, *grant](0)},
	}
	if o.Roots == nil {
		o.Roots = &policy.Roots{}
	}
	h.roots.Store(o.Roots)
	h.forgets.most = MaxGone
	h.feed = feed.New(membrane.Guarded(tree, nil, membrane.Guard{Bulkhead: h.bulkhead}), feed.Options{Share: h.shareID, Lives: h.lives})
	if h.mine {
		h.db = database.Memory()
	}
	h.burials.done.L = &h.burials.mu
	h.beginReads()
	h.spans.ended = h.spanEnded
	h.remember()
	h.evictor.most = MaxResident
	h.secrets.load(h.db)
	h.countStored()
	h.unready = h.takeAside()
	return h
}

// grantID matches ids of grants. No guest may have such a name.
var grantID = regexp.MustCompile(`^g[0-9]+$`)

// Grant grants the node at path ("" for the whole tree) to guest, and returns the secret
// that stands for it. The grant is durable when Grant returns. It answers what [operator.ParseSubject] answers of guest,
// what walking to path answers, and denied for what is beyond the defaults of the host's roots.
func (h *Host) Grant(ctx context.Context, guest, path string, readOnly bool) (operator.Grant, [locator.SecretSize]byte, error) {
	return h.GrantOn(ctx, guest, path, operator.Terms{ReadOnly: readOnly})
}

// GrantOn is Grant on terms.
func (h *Host) GrantOn(ctx context.Context, guest, path string, t operator.Terms) (operator.Grant, [locator.SecretSize]byte, error) {
	return h.grantOn(ctx, guest, path, t, granting{})
}

// granting is what is done beside a grant that is made. Each may be nil.
type granting struct {
	fits  func(vfs.Node) error             // may refuse what is there
	check func(*database.Tx) error         // may refuse, in the transaction that adds the row, before it changes anything
	also  func(*database.Tx, *grant) error // writes more, in that transaction, when the grant has its id
}

func (h *Host) grantOn(ctx context.Context, guest, path string, t operator.Terms, with granting) (given operator.Grant, secret [locator.SecretSize]byte, err error) {
	h.granting.RLock()
	defer h.granting.RUnlock()
	on, err := h.ground(ctx, guest, path, t)
	if err != nil {
		return given, secret, err
	}
	defer on.release()
	if with.fits != nil {
		if err := with.fits(on.node); err != nil {
			return given, secret, vfs.At(on.path, err)
		}
	}
	secret = locator.NewSecret()
	r := row{name: on.subject.Name(), subject: on.subject, digest: digestOf(secret[:]), root: on.root, rights: on.rights, source: cmp.Or(t.Source, operator.ByOperator), uses: anyUses, limits: t.Limits, since: h.clock.Now()}
	if err := h.limitTime(&r, t); err != nil {
		return given, secret, vfs.At(on.path, err)
	}
	if err := h.place(ctx, &r, on.node); err != nil {
		return given, secret, vfs.At(on.path, err)
	}
	g, err := h.build(&r, on.node, nil)
	if err != nil {
		return given, secret, vfs.At(on.path, err)
	}
	if err := h.admit(g, with); err != nil {
		return given, secret, err
	}
	if r.timed() {
		h.tickOn()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now(g), secret, nil
}

// Meters returns the meter.Host that has the meters of all grants.
func (h *Host) Meters() *meter.Host { return h.meters }
