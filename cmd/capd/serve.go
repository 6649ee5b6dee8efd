package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"capd/authority"
	"capd/config"
	"capd/host"
	"capd/locator"
	"capd/meter"
	"capd/state"
	"capd/vfs"
	"capd/virtualfs"
)

type serveCommand struct {
	Dir      string `arg:"" optional:"" help:"The directory to serve, at project/ (default: the one you are in)."`
	ReadOnly bool   `help:"Serve it read-only; tmp/ stays writable."`
	Config   string `placeholder:"FILE" help:"Serve what this file says instead; see docs/configuration.md."`

	Listen    []tlsAddress `sep:"none" placeholder:"tls:HOST:PORT" help:"Serve guests over TLS too, at this address; PORT 0 is any, an empty HOST every address. May be repeated."`
	Advertise *advertised  `placeholder:"HOST[:PORT]" help:"What locators name in place of every address (default: this machine's name)."`
	socketFlags
	stateFlag
}

func (serveCommand) Help() string {
	return `The directory appears at project/, what its git repository has committed, if it lies in one, at
ref/HEAD/, and a scratch space in memory at tmp/. Where programs keep secrets (.ssh, .env, *.pem and
the like) is withheld; files that make other programs run something (.git, .vscode and the like) can
be read and not written. capd mount adds to it at any time.

Guests on this machine come by a Unix socket, which only your own user can reach; --socket-group and
--socket-mode let other users in at it, by a directory of its own. With --listen, others come over TLS 1.3; they know
the host by its key, which is made once and kept in the state directory.

Examples:
  capd serve .                   serve this directory
  capd serve --read-only ~/src   serve another, for reading
  capd serve --config capd.yaml  serve several, to several guests
  capd serve . --state /tmp/s    keep the sockets elsewhere
  capd serve . --socket-group agents
  capd serve . --listen tls:localhost:7000
  capd serve . --listen tls::7000 --advertise files.example.org`
}

func (c *serveCommand) Run(e *env) (err error) {
	p, err := c.plan()
	if err != nil {
		return err
	}
	st, err := c.open()
	if err != nil {
		return err
	}
	if c.Advertise != nil && !slices.ContainsFunc(c.Listen, func(a tlsAddress) bool { return hostPort(a).everywhere() }) {
		return usageError{"--advertise is for a --listen at every address, such as tls::7000; locators of others name what they listen at"}
	}
	if err := p.possible(st); err != nil {
		return err
	}
	unlock, err := st.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	w, err := openWorld(e, st, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := p.mount(e, w.FS, c.Config != ""); err != nil {
		return err
	}
	a := authority.New(w.Tree(), meter.NewHost(hostLimits(p.limits)), p.each)
	return c.serve(e, st, w, p, a)
}

// hostLimits are what all guests may have together: as the configuration has it, and otherwise as the
// system allows. There are no more threads than that in any case.
func hostLimits(configured meter.Limits) meter.Limits {
	l := host.Limits()
	threads := l[meter.Threads]
	maps.Copy(l, configured)
	if n := l[meter.Threads]; n < 1 || n > threads {
		l[meter.Threads] = threads
	}
	return l
}

// plan is what to serve; it settles the options that a configuration may have too.
func (c *serveCommand) plan() (plan, error) {
	if c.Config == "" {
		return usual(cmp.Or(c.Dir, "."), c.ReadOnly)
	}
	if c.Dir != "" || c.ReadOnly {
		return plan{}, usageError{"with --config the file says what is served; leave out the directory and --read-only"}
	}
	p, conf, err := configured(c.Config)
	if err != nil {
		return plan{}, err
	}
	c.State = cmp.Or(c.State, conf.State)
	if len(c.Listen) == 0 {
		c.Listen = p.listen
	}
	if err := c.socket(conf); err != nil {
		return plan{}, err
	}
	if c.Advertise == nil && conf.Advertise != "" {
		c.Advertise = &advertised{}
		if err := c.Advertise.UnmarshalText([]byte(conf.Advertise)); err != nil {
			return plan{}, vfs.Errorf(vfs.Invalid, "%s: advertise: %v", c.Config, err)
		}
	}
	return p, nil
}

// socket takes from a configuration what the command line does not say.
func (c *serveCommand) socket(conf *config.Config) error {
	c.SocketGroup = cmp.Or(c.SocketGroup, conf.SocketGroup)
	c.SocketDir = cmp.Or(c.SocketDir, conf.SocketDir)
	if c.SocketMode == nil && conf.SocketMode != "" {
		c.SocketMode = new(socketMode)
		if err := c.SocketMode.UnmarshalText([]byte(conf.SocketMode)); err != nil {
			return vfs.Errorf(vfs.Invalid, "%s: socketMode: %v", c.Config, err)
		}
	}
	return nil
}

func (c *serveCommand) serve(e *env, st state.Dir, w *world, p plan, a *authority.Host) (err error) {
	guests, err := c.guestsSocket(st)
	if err != nil {
		return err
	}
	defer guests.end()
	if guests.note != "" {
		p.notes = append(p.notes, guests.note)
	}
	control, err := listen(st.Control())
	if err != nil {
		return err
	}
	defer control.Close()

	tls, ways, id, err := c.listenTLS(e, st)
	if err != nil {
		return err
	}
	defer st.ForgetWays()
	for _, l := range tls {
		defer l.Close()
	}

	locate := func(secret [locator.SecretSize]byte) string {
		return locator.Locator{Socket: guests.path, Secret: secret}.String()
	}
	s := host.New(a, host.Options{VirtualFs: w, Logf: e.logf})
	go host.RetireThreads(e)
	go host.BoundMemory(e, a.Meters())
	ended := make(chan error, 2+len(tls))
	go func() { ended <- s.ServeGuests(guests) }()
	go func() { ended <- s.ServeConsole(control, locate) }()
	for _, l := range tls {
		go func() { ended <- s.ServeTLS(l, id) }()
	}

	all, err := p.grant(e, a)
	if err == nil {
		c.greet(e, st, w, p, all, locate, ways)
		e.stdout.told = "; the host ends, and every grant with it"
		if err = e.stdout.Flush(); err == nil { // or nobody has the locators
			e.stdout.told = ""
			select {
			case <-e.Done():
			case err = <-ended:
			}
		}
	}
	fmt.Fprintln(e.stderr, "capd: revoking every grant")
	for _, m := range w.Mounts() {
		if m.Changes && !kept(m) {
			fmt.Fprintf(e.stderr, "capd: %s: the changes that waited there end with the host: they were not applied or committed\n", placeText(m.Path))
		}
	}
	// The guests go first: what they are doing ends, and then nothing can begin.
	done := make(chan error, 1)
	go func() { done <- errors.Join(a.Close(), s.Close()) }()
	select {
	case cerr := <-done:
		err = errors.Join(err, cerr)
	case <-time.After(2 * vfs.Grace):
		err = errors.Join(err, vfs.Errorf(vfs.Busy, "a guest's call is stuck in the system; leaving it behind"))
	}
	os.Remove(st.Control())
	return err
}

// kept reports whether what is written to a mount is still there after a restart.
func kept(m virtualfs.Mount) bool {
	u, err := virtualfs.ParseURL(m.URL)
	return err == nil && u.Below != nil && u.Query.Get("upper") != ""
}

// listenTLS opens every --listen. There is no identity where there is none.
func (c *serveCommand) listenTLS(e *env, st state.Dir) (listeners []net.Listener, ways []state.Way, id *host.Identity, err error) {
	st.ForgetWays() // of a host that was killed
	if len(c.Listen) == 0 {
		return nil, nil, nil, nil
	}
	defer func() {
		if err != nil {
			for _, l := range listeners {
				l.Close()
			}
		}
	}()
	key, err := st.Key()
	if err != nil {
		return nil, nil, nil, err
	}
	if id, err = host.NewIdentity(key); err != nil {
		return nil, nil, nil, err
	}
	for _, a := range c.Listen {
		l, w, err := listenTLS(e, hostPort(a), c.Advertise)
		if err != nil {
			return listeners, nil, nil, err
		}
		w.Key = id.Key
		listeners, ways = append(listeners, l), append(ways, w)
	}
	return listeners, ways, id, st.KeepWays(ways)
}

// greet says what is served, and how to go on.
func (c *serveCommand) greet(e *env, st state.Dir, w *world, p plan, all []granted, locate func([locator.SecretSize]byte) string, ways []state.Way) {
	out := newPainter(e.stdout)
	fmt.Fprintln(e.stdout, "Serving")
	rows := newColumns(e.stdout)
	for _, m := range w.Mounts() {
		fmt.Fprintf(rows, "  %s\t%s\t%s\t%s\n", out.dir(placeText(m.Path)), modeOf(m.Attenuation), vfs.Printable(m.URL), vfs.Printable(m.Detail))
	}
	rows.Flush()
	for _, note := range p.notes {
		fmt.Fprintln(e.stdout, " ", out.faint(note))
	}
	if len(all) == 0 {
		fmt.Fprintln(e.stdout, "\nNobody has a grant yet: see capd grant --help")
	}
	for _, g := range all {
		fmt.Fprintf(e.stdout, "\nA locator for the guest called %q. Whoever has it has the capability:\n\n%s\n", g.name, out.secret(locate(g.secret)))
		if len(ways) > 0 {
			fmt.Fprint(e.stdout, "\nThe same for a guest elsewhere, over TLS:\n")
		}
		for _, w := range ways {
			fmt.Fprintf(e.stdout, "\n%s\n", out.secret(w.Locator(g.secret).String()))
		}
	}
	if c.Config == "" && len(all) > 0 {
		c.hints(e, st, locate(all[0].secret))
	}
	fmt.Fprint(e.stdout, "\nCtrl-C ends the host and revokes everything.\n")
}

// hints are commands to begin with.
func (c *serveCommand) hints(e *env, st state.Dir, loc string) {
	capd, how := self(), ""
	if !c.found() {
		how = " --state " + shellQuote(string(st))
	}
	fmt.Fprintf(e.stdout, `
In another terminal, as the guest:

  export CAPD_CAP='%s'
  %s ls
  %s tree project
  echo hello | %s put tmp/note.txt
  %s cat tmp/note.txt
  %s attenuate --read-only --path project
  %s help

As the host:

  %s grants%s
  %s mounts%s
  %s set-writable %s false%s
  %s revoke %s%s
`, loc, capd, capd, capd, capd, capd, capd, capd, how, capd, how, capd, firstGuest, how, capd, firstGuest, how)
}

// self is how to call this program again.
func self() string {
	exe, err := os.Executable()
	if err != nil {
		return "capd"
	}
	if strings.Contains(exe, string(filepath.Separator)+"go-build") { // go run
		return "go run ./cmd/capd"
	}
	if !strings.ContainsRune(os.Args[0], filepath.Separator) {
		return os.Args[0]
	}
	return shellQuote(exe)
}

// shellQuote quotes s for a shell where that is needed.
func shellQuote(s string) string {
	for _, r := range s {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@%", r) {
			return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
	}
	return s
}
