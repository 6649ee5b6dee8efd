// Package server serves trees to guests. It is all of capd except its command line. A program that is a host
// takes a few lines:
//
//	s := &server.Server{Mounts: []server.Mount{{Path: "project", URL: "physical:."}}}
//	err := s.Start(ctx)
//	agent, err := s.Grant(ctx, server.Guest{Name: "agent", Path: "project"})
//	fmt.Println(agent.Locator) // whoever has this line has the capability; see package client
//	err = s.Serve(ctx)
//
// A [Server] says what is mounted, where the host listens and where its state lies. Its zero value is safe.
// It serves nothing over TLS and lets in no other users of the machine. It withholds the secrets in
// directories and git revisions. Files that would make other programs run something can be read there, and changed only
// with an approval. Every guest has limits. The state directory is never part of what is served.
//
// The host's own authority enters here: URLs of mounts name its directories and machines. Only the host may
// write them, never a guest.
package server

import (
	"cmp"
	"context"
	"errors"
	"log"
	"maps"
	"net"
	"sync"
	"sync/atomic"

	"capd/approval"
	"capd/authority"
	"capd/database"
	"capd/history"
	"capd/hook"
	"capd/host"
	"capd/meter"
	"capd/record"
	"capd/shelf"
	"capd/state"
	"capd/vfs"
)

// Server is a host: a tree of stores, and the guests that have parts of it. Set its fields before
// [Server.Start] and do not change them afterwards: [Server.Reload] does that. Its methods are safe for concurrent use. A Server can be
// started once.
//
// The operator can use capd's commands on a started Server, by its state directory, as on capd serve.
type Server struct {
	// Mounts are mounted at the start. A host path in a URL may be relative to the working directory.
	Mounts []Mount
	// Roots say what some of Mounts are for.
	Roots []Root
	// Policy has the rules for guests. SetPolicy exchanges them later.
	Policy Policy
	// Invitations say who may ask for grants that it does not hold. Reconcile and Reload make them. See also Invite.
	Invitations []Invitation
	// ApprovalsWait lets changes that need an approval wait although nobody listens. Otherwise they are refused at once then.
	ApprovalsWait bool
	// Hooks are programs that are asked before guests change something, or told afterwards, in this order. Each has a Command.
	Hooks []Hook
	// Stores has openers for stores of the host's own, by URL scheme: a-z and 0-9. physical, git, memory, cas and overlay
	// are built in.
	Stores map[string]Opener

	// State is the state directory, which is made if it is missing. "" means the usual one, where capd's
	// commands look: $XDG_STATE_HOME/capd or ~/.local/state/capd. Only one host at a time can use a state
	// directory.
	State string
	// Listen are the addresses for guests over TLS, besides the Unix socket.
	Listen []Address
	// Advertise is what locators name where Listen means every address; "" means the machine's name.
	Advertise Advertised
	// Socket says which other users of this machine may connect.
	Socket Socket

	// Limits are what all guests together may hold, and GuestLimits what each grant may hold. The defaults
	// are meter.HostLimits, or less if the system allows less, and meter.GrantLimits.
	Limits, GuestLimits Limits

	// Unrecorded makes no record of what guests change. Otherwise every change waits until the record of it is on disk; see
	// package record.
	Unrecorded bool
	// Retention says how long the record is kept.
	Retention Retention
	// History says how much of what changes displace is kept, so that they can be undone. There is none if Unrecorded is set.
	History HistoryBounds
	// Telemetry is the URL of an OpenTelemetry collector that gets the record, too; "" for none. Forward opens it. capd serve has a Forward;
	// a program without one gets unsupported if a configuration names a collector.
	Telemetry string
	Forward   func(url string) (Forwarder, error)

	// Logf logs what guests are not told, in lines without a newline. Nil means the log package.
	Logf func(format string, args ...any)

	reloading sync.Mutex // held to change what a configuration says

	phases
	started
}

// started is the part of a Server that Start sets.
type started struct {
	state      state.Dir
	unlock     func()
	db         *database.DB
	record     *record.Log
	shelf      *shelf.Shelf
	history    *history.Journal // nil: nothing can be undone
	asks       *approval.Desk
	hooks      *hook.Chain
	forwarding forwarding
	fs         *FS
	authority  *authority.Host
	served     *host.Server
	guests     *socket
	control    net.Listener
	tls        []net.Listener
	rules      rulebook
	laid       layout                    // reloading guards it once s serves
	locators   atomic.Pointer[[]private] // files that no mount may show
	hooked     atomic.Pointer[[]Hook]    // the hooks of the configuration
	ways       []state.Way
	id         *host.Identity
	failed     chan error // receives the error of a listener that has ended
	temps      temps
	erasing    sync.WaitGroup
	eraser     sync.Mutex   // held by who removes temporary files
	away       atomic.Int64 // counts what was moved out of sight

	scoping sync.Mutex // held while mounts are made for a guest
	drafts  layout     // that these mounts follow; scoping guards it

	scoped    map[string]Mount    // these mounts, by path; scoping guards it
	scratches map[string]*scratch // that are mounted, by name; scoping guards it

	close    sync.Once
	closed   chan struct{} // closed when Close is done
	closeErr error
}

// Start mounts Mounts, listens, and begins to serve guests. Before that it finishes or undoes what a process
// that died has left unfinished in the same state directory. ctx is only for the start. After Start, call
// [Server.Serve] or [Server.Close]. After an error call neither; the Server can be started again. Start answers
// invalid as [Server.Check] does, busy when another host uses the state directory, exists for a second start,
// and what mounting answers.
func (s *Server) Start(ctx context.Context) (err error) {
	if err := usable(ctx); err != nil {
		return err
	}
	if err := s.begin(); err != nil {
		return err
	}
	ok := false
	defer func() { // also when an own store panics
		if !ok {
			err = errors.Join(err, s.let())
			s.started = started{} // another host may use what was in it
		}
		s.begun(ok)
	}()
	if err := s.Check(); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	ok = true
	return nil
}

func (s *Server) start(ctx context.Context) (err error) {
	if s.state, err = state.Open(s.State); err != nil {
		return err
	}
	if s.unlock, err = s.state.Lock(); err != nil {
		return err
	}
	if s.db, err = database.Open(s.state, database.Options{Logf: s.logf}); err != nil {
		return err
	}
	if err := s.openRecord(); err != nil {
		return err
	}
	if s.asks, err = approval.Open(ctx, s.db, approval.Options{Record: s.record, Patient: s.ApprovalsWait}); err != nil {
		return err
	}
	if s.fs, err = OpenFS(ctx, s.state, FSOptions{Stores: s.Stores, Record: s.recorder(), Logf: s.logf, private: s.hidden}); err != nil {
		return err
	}
	if s.laid, err = s.layoutOf(s); err != nil {
		return err
	}
	for _, m := range s.laid.mounts {
		if err := cmp.Or(s.mount(ctx, m), ctx.Err()); err != nil {
			return err
		}
	}
	if err := s.mountAgain(ctx); err != nil {
		return err
	}
	if err := s.scopesAgain(ctx, s.laid); err != nil {
		return err
	}
	s.tellKept(ctx)
	left, err := s.rules.open(ctx, s.db, s.record, s.laid.roots.All(), s.Policy)
	if err != nil {
		return err
	}
	for _, why := range left {
		s.logf("%s", why)
	}
	if err := s.openHooks(ctx, s.laid.roots.All()); err != nil {
		return err
	}
	if err := s.openHistory(); err != nil {
		return err
	}
	if err := s.openTemps(ctx); err != nil {
		return err
	}
	s.authority = authority.Open(s.fs.Tree(), authority.Options{
		Meters: meter.NewHost(hostLimits(s.Limits)), Limits: s.GuestLimits, DB: s.db, Record: s.record, History: s.history, Asks: s.asks, Hooks: s.hooks, Places: s.fs,
		Roots: s.laid.roots, Policy: &s.rules.Book, Ended: func() { s.sweep(context.Background()) }, Scope: s.scope, Acts: s.settled, Temps: s.temps.maker(),
	})
	s.rules.decided = s.authority.Decided
	s.fs.Guard(s.authority.Own())
	s.fs.OnChange(s.authority.Lost)
	settled := s.authority.Settle(ctx)
	s.sweep(ctx)
	if err := cmp.Or(settled, s.listen(ctx), ctx.Err()); err != nil {
		return errors.Join(err, s.authority.Close())
	}
	if err := s.forward(); err != nil {
		return errors.Join(err, s.authority.Close())
	}
	s.answer()
	return nil
}

// openRecord begins to write the record.
func (s *Server) openRecord() error {
	if s.Unrecorded {
		return nil
	}
	key, err := s.state.RecordKey()
	if err == nil {
		s.record, err = record.Open(s.db, record.Options{Key: key, Logf: s.logf, Retain: s.Retention})
	}
	return err
}

// hostLimits returns what all guests together may have: own, and otherwise what the system allows. Threads
// are never more than the system allows.
func hostLimits(own Limits) Limits {
	l := host.Limits()
	threads := l[meter.Threads]
	maps.Copy(l, own)
	if n := l[meter.Threads]; n < 1 || n > threads {
		l[meter.Threads] = threads
	}
	return l
}

// answer begins to serve connections.
func (s *Server) answer() {
	s.served = host.New(s.authority, s.hosting())
	s.failed, s.closed = make(chan error, 2+len(s.tls)), make(chan struct{})
	go func() { s.failed <- s.served.ServeGuests(s.guests) }()
	go func() { s.failed <- s.served.ServeConsole(s.control, s.locate) }()
	for _, l := range s.tls {
		go func() { s.failed <- s.served.ServeTLS(l, s.id) }()
	}
}

func (s *Server) logf(format string, args ...any) {
	if s.Logf != nil {
		s.Logf(format, args...)
		return
	}
	log.Printf(format, args...)
}

// noted logs the cause of an internal error, whose text says that it is in the log. It returns err.
func (s *Server) noted(what string, err error) error {
	if e, ok := errors.AsType[*vfs.Error](err); ok && e.Code == vfs.Internal && e.Cause != nil {
		s.logf("capd: %s: %v", what, e.Cause)
	}
	return err
}

// Notes returns what the person who starts the host should know, a line each. An example is a socket that
// others may use but cannot reach. Before the start there are none.
func (s *Server) Notes() []string {
	if s.phase() < serving || s.guests.note == "" {
		return nil
	}
	return []string{s.guests.note}
}
