// Package server serves trees to guests: all of capd but its command line. A host of somebody's own is a few
// lines:
//
//	s := &server.Server{Mounts: []server.Mount{{Path: "project", URL: "physical:."}}}
//	err := s.Start(ctx)
//	agent, err := s.Grant(ctx, server.Guest{Name: "agent", Path: "project"})
//	fmt.Println(agent.Locator) // whoever has this line has the capability; see package client
//	err = s.Serve(ctx)
//
// A [Server] says what is mounted, where the host listens and where its state lies. Its zero value is safe:
// nothing is served over TLS, other users of the machine are not let in, a directory or a git revision is
// mounted without the secrets in it, what would make other programs run something can be read and not changed,
// and every guest has bounded allowances. The state directory is never in what is served.
//
// This is where the host's own authority enters: URLs of mounts name its directories and its machines. They are
// the host's to write, and no guest's.
package server

import (
	"context"
	"errors"
	"log"
	"maps"
	"net"
	"sync"
	"time"

	"capd/authority"
	"capd/host"
	"capd/meter"
	"capd/state"
	"capd/vfs"
	"capd/virtualfs"
)

// Server is a host: a tree of stores, and who has which part of it. Set its fields before [Server.Start] and
// not afterwards. Its methods are safe for concurrent use. A Server is started once.
//
// The host's operator reaches a started Server with capd's commands, by its state directory, as that of capd
// serve.
type Server struct {
	// Mounts is what is served at the start. A path of the host in a URL may be relative to the working directory.
	Mounts []Mount
	// Stores has openers of stores of the host's own, by the scheme of the URLs that name them. physical, git,
	// memory, cas and overlay are there.
	Stores map[string]Opener

	// State is the state directory, which is made if need be. "" is the usual one, where capd's commands look:
	// $XDG_STATE_HOME/capd or ~/.local/state/capd. One host at a time has a state directory.
	State string
	// Listen is where guests are answered over TLS, beside the Unix socket: tls:HOST:PORT each. An empty HOST is
	// every address of the machine, PORT 0 any that is free.
	Listen []string
	// Advertise is HOST or HOST:PORT, which locators name in place of every address; "" is the machine's name.
	Advertise string
	// Socket says which other users of this machine may connect.
	Socket Socket

	// Limits are what all guests may hold together, and GuestLimits what each grant may. What they do not say is
	// as meter.HostLimits, or what the system allows, and meter.GrantLimits have it.
	Limits, GuestLimits Limits

	// Logf tells the host what guests are not told, in lines without a newline. Nil is the log package.
	Logf func(format string, args ...any)

	started
}

// started is what a Server has once it was started.
type started struct {
	state     state.Dir
	unlock    func()
	fs        *FS
	authority *authority.Host
	served    *host.Server
	guests    *socket
	control   net.Listener
	tls       []net.Listener
	ways      []state.Way
	id        *host.Identity
	ended     chan error // of a listener

	close    sync.Once
	closeErr error
}

// Check answers what is wrong with s, as far as it can be told before anything is made for it: invalid for
// mounts that no store can be opened by, and for a state directory in a directory that is to be served.
func (s *Server) Check() error {
	st, err := state.Open(s.State)
	if err != nil {
		return err
	}
	if _, _, err := s.addresses(); err != nil {
		return err
	}
	if err := s.checkStores(); err != nil {
		return err
	}
	if m := s.Socket.Mode; m != 0 && m.wrong() {
		return vfs.Errorf(vfs.Invalid, "Socket.Mode is %#o; it is 0o660 for a group, 0o666 for every user of this machine, or 0o600", m)
	}
	for _, m := range s.Mounts {
		if err := s.possible(&m, st); err != nil {
			return m.said(err)
		}
	}
	return nil
}

// possible is Check of one mount.
func (s *Server) possible(m *Mount, st state.Dir) error {
	u, err := virtualfs.ParseURL(m.URL)
	if err != nil {
		return err
	}
	if err := s.checkForm(u); err != nil {
		return err
	}
	if u.Below != nil {
		u = u.Below
	}
	if u.Scheme != "physical" {
		return nil
	}
	return apartFrom(st, u.Path)
}

// Start settles what a process that died had begun with the same state directory, mounts what there is to
// mount, listens, and begins to answer guests. Its context is for the start alone. Whoever calls Start calls
// [Server.Serve] or [Server.Close] afterwards, unless Start answers an error: invalid as [Server.Check] does,
// busy when another host has the state directory, exists for a second start, and what mounting answers.
func (s *Server) Start(ctx context.Context) (err error) {
	if s.served != nil {
		return vfs.Errorf(vfs.Exists, "this server was started already; make another")
	}
	if err := s.Check(); err != nil {
		return err
	}
	if s.state, err = state.Open(s.State); err != nil {
		return err
	}
	if s.unlock, err = s.state.Lock(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.let())
			s.guests, s.control, s.tls, s.ways, s.fs, s.unlock = nil, nil, nil, nil, nil, nil // another may have them now
		}
	}()
	if s.fs, err = OpenFS(ctx, s.state, FSOptions{Stores: s.Stores, Logf: s.logf}); err != nil {
		return err
	}
	for _, m := range s.Mounts {
		if err := s.Mount(ctx, m); err != nil {
			return err
		}
	}
	s.authority = authority.New(s.fs.Tree(), meter.NewHost(hostLimits(s.Limits)), s.GuestLimits)
	if err := s.listen(ctx); err != nil {
		return errors.Join(err, s.authority.Close())
	}
	s.answer()
	return nil
}

// hostLimits are what all guests may have together: as the host has it, and otherwise as the system allows.
// There are no more threads than that in any case.
func hostLimits(own Limits) Limits {
	l := host.Limits()
	threads := l[meter.Threads]
	maps.Copy(l, own)
	if n := l[meter.Threads]; n < 1 || n > threads {
		l[meter.Threads] = threads
	}
	return l
}

// answer begins to answer whoever connects.
func (s *Server) answer() {
	s.served = host.New(s.authority, host.Options{VirtualFs: s.fs, Logf: s.logf})
	s.ended = make(chan error, 2+len(s.tls))
	go func() { s.ended <- s.served.ServeGuests(s.guests) }()
	go func() { s.ended <- s.served.ServeConsole(s.control, s.locate) }()
	for _, l := range s.tls {
		go func() { s.ended <- s.served.ServeTLS(l, s.id) }()
	}
}

// Serve serves until ctx ends, and closes s then. It starts s first if nobody has. It answers nil when nothing
// went wrong.
func (s *Server) Serve(ctx context.Context) (err error) {
	if s.served == nil {
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
	case err = <-s.ended:
	}
	return errors.Join(err, s.Close())
}

// Close takes back every grant, and ends: when it has answered, nothing changes through s any more. It answers
// busy when a guest's call is stuck in the system.
func (s *Server) Close() error {
	if s.served == nil {
		return nil
	}
	s.close.Do(func() { s.closeErr = errors.Join(s.leave(), s.let()) })
	return s.closeErr
}

// leave ends everybody who uses s.
func (s *Server) leave() error {
	for _, m := range s.fs.Mounts() {
		if m.Changes && !kept(m) {
			s.logf("capd: %s: the changes that waited there end with the host: they were not applied or committed", placeText(m.Path))
		}
	}
	// The guests go first: what they are doing ends, and then nothing can begin.
	done := make(chan error, 1)
	go func() { done <- errors.Join(s.authority.Close(), s.served.Close()) }()
	select {
	case err := <-done:
		return err
	case <-time.After(2 * vfs.Grace):
		return vfs.Errorf(vfs.Busy, "a guest's call is stuck in the system; leaving it behind")
	}
}

func placeText(path string) string {
	if path == "" {
		return "(everything)"
	}
	return vfs.Printable(path) + "/"
}

// kept reports whether what is written to a mount is still there after a restart.
func kept(m Mounted) bool {
	u, err := virtualfs.ParseURL(m.URL)
	return err == nil && u.Below != nil && u.Query.Get("upper") != ""
}

// let lets go of what s has of the system, as far as it was started.
func (s *Server) let() (err error) {
	s.deafen()
	if s.fs != nil {
		err = s.fs.Close()
	}
	if s.unlock != nil {
		s.unlock()
	}
	return err
}

// logf tells the host something.
func (s *Server) logf(format string, args ...any) {
	if s.Logf != nil {
		s.Logf(format, args...)
		return
	}
	log.Printf(format, args...)
}

// Notes are what whoever starts the host should know, a line each: as that others cannot reach the socket that
// they are let in at.
func (s *Server) Notes() []string {
	if s.guests.note == "" {
		return nil
	}
	return []string{s.guests.note}
}
