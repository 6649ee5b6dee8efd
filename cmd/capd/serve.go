package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"capd/host"
	"capd/operator"
	"capd/otlp"
	"capd/server"
	"capd/vfs"
)

type serveCommand struct {
	Dir      string `arg:"" optional:"" help:"The directory to serve, at project/ (default: the one you are in)."`
	ReadOnly bool   `help:"Serve it read-only; tmp/ stays writable."`
	Config   string `placeholder:"FILE" help:"Serve what this file says instead; see docs/configuration.md."`

	Listen    []server.Address  `sep:"none" placeholder:"tls:HOST:PORT" help:"Serve guests over TLS too, at this address; PORT 0 is any free port, an empty HOST every address. May be repeated."`
	Advertise server.Advertised `placeholder:"HOST[:PORT]" help:"The host that locators name when the address is every address (default: this machine's name)."`
	JSON      bool              `name:"json" help:"Print a JSON object instead of text: what is served, to whom, and where."`
	metricsFlags
	frontFlags
	socketFlags
	stateFlag
}

func (serveCommand) Help() string {
	return `The directory appears at project/. If it is in a git repository, its last commit appears at
ref/HEAD/. A scratch space in memory is at tmp/. Places where programs keep secrets (.ssh, .env,
*.pem and the like) are withheld. Files that make other programs run something (.git, .vscode and
the like) can be read; a change of one waits for your approval (capd watch). capd mount adds more at
any time.

Guests on this machine connect to a Unix socket that only your own user can reach. --socket-group
and --socket-mode let other users in; the socket is then in a directory of its own. With --listen,
guests on other machines connect over TLS 1.3. They recognize the host by its key, which is made
once and kept in the state directory.

Grants are kept in the state directory, too. A locator that was printed once works whenever the host
runs, until it is revoked, so a second start prints none. A locator of one directory does not lead to
another that is served in its place.

With --config, SIGHUP makes the host what the file says by then. A mistake in it is logged, and then
nothing changes. Without --config, SIGHUP ends the host.

Examples:
  capd serve .                   serve this directory
  capd serve --read-only ~/src   serve another, for reading
  capd serve --config capd.yaml  serve several, to several guests
  capd serve . --state /tmp/s    keep the sockets elsewhere
  capd serve . --socket-group agents
  capd serve . --json            for a program: a line now, and one after each reload
  capd serve . --listen tls:localhost:7000
  capd serve . --mcp 127.0.0.1:3183
  capd serve . --openwop 127.0.0.1:3184
  capd serve . --metrics 127.0.0.1:9100 --metrics-token ~/.capd-metrics
  capd serve . --listen tls::7000 --advertise files.example.org`
}

func (c *serveCommand) Run(e *env) (err error) {
	var reload <-chan struct{}
	if c.Config != "" {
		reload = e.hangup.tells()
	}
	s, guests, err := c.server(e)
	if err != nil {
		return err
	}
	measured, err := c.metricsFlags.listen()
	if err != nil {
		return err
	}
	defer measured.close()
	fronts, err := c.frontFlags.listen()
	if err != nil {
		return err
	}
	defer fronts.close()
	if err := s.Start(e); err != nil {
		return c.inFlags(err)
	}
	go host.RetireThreads(e)
	go host.BoundMemory(e, s.Authority().Meters())
	notes := s.Notes()
	if c.Config == "" {
		if note := mountHead(e, s, cmp.Or(c.Dir, ".")); note != "" {
			notes = append([]string{note}, notes...)
		}
	}
	notes = append(notes, measured.serve(s)...)
	notes = append(notes, fronts.serve(s.Listeners()[0])...)
	if s.Unrecorded {
		notes = append(notes, "what guests change is not recorded: the configuration says record: off")
	}
	for _, i := range s.Invitations {
		notes = append(notes, fmt.Sprintf("%s may ask for grants: its invitation is in %s", operator.Quote(i.Subject), vfs.Printable(i.LocatorFile)))
	}
	if err := c.begin(e, s, guests, notes); err != nil {
		return errors.Join(err, s.Close())
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(e))
	defer cancel()
	context.AfterFunc(e, func() {
		e.logf(ending)
		cancel()
	})
	go c.reloads(e, s, reload)
	return s.Serve(ctx)
}

const ending = "capd: ending"

// begin makes those of the guests' grants that are missing, and prints them.
func (c *serveCommand) begin(e *env, s *server.Server, guests []server.Guest, notes []string) error {
	all, err := c.grants(e, s, guests)
	if err != nil {
		return err
	}
	if c.JSON {
		err = c.greetJSON(e, s, notes, all)
	} else {
		c.greet(e, s, notes, all)
	}
	if err != nil {
		return err
	}
	e.stdout.told = "; the host ends, and takes back what it has just granted"
	if err := deliver(e, s, all); err != nil {
		return err
	}
	e.stdout.told = ""
	return nil
}

// deliver makes sure that what was printed has arrived. Otherwise it takes back the grants whose locators were in it.
func deliver(e *env, s *server.Server, all []*server.Granted) error {
	err := e.stdout.Flush()
	if err == nil {
		return nil
	}
	for _, g := range all {
		if g.Locator != "" { // nobody has it
			_, revoked := s.Revoke(g.ID)
			err = errors.Join(err, revoked)
		}
	}
	return err
}

// grants returns the guests' grants. Those of an earlier start have no locators.
func (c *serveCommand) grants(e *env, s *server.Server, guests []server.Guest) ([]*server.Granted, error) {
	if c.Config != "" {
		return s.Reconcile(e, guests)
	}
	var all []*server.Granted
	for _, g := range guests {
		given, err := s.Keep(e, g)
		if err != nil {
			return nil, err
		}
		all = append(all, given)
	}
	return all, nil
}

// server returns the host that the options describe, and the guests to grant
// to.
func (c *serveCommand) server(e *env) (*server.Server, []server.Guest, error) {
	s := &server.Server{Forward: otlp.Open, State: c.State, Listen: c.Listen, Advertise: c.Advertise, Logf: e.logf,
		Socket: server.Socket{Group: c.SocketGroup, Mode: c.SocketMode, Dir: c.SocketDir}}
	if c.Config == "" {
		return s, []server.Guest{{Name: firstGuest}}, usual(s, cmp.Or(c.Dir, "."), c.ReadOnly)
	}
	if c.Dir != "" || c.ReadOnly {
		return nil, nil, usageError{"with --config the file says what is served; leave out the directory and --read-only"}
	}
	guests, err := s.Load(c.Config)
	return s, guests, err
}

// inFlags returns err in the words of flags.
func (c *serveCommand) inFlags(err error) error {
	if errors.Is(err, server.ErrAdvertise) {
		return usageError{"--advertise is for a --listen at every address, such as tls::7000; locators of others name what they listen at"}
	}
	return err
}

// socketFlags say which other users of this machine may connect as guests.
type socketFlags struct {
	SocketGroup string            `placeholder:"GROUP" help:"Let the members of this group use the guests' socket."`
	SocketMode  server.SocketMode `placeholder:"MODE" help:"The mode of the guests' socket, such as 0666 for every user of this machine (default: 0600, or 0660 with --socket-group)."`
	SocketDir   string            `placeholder:"DIR" help:"The directory for the guests' socket, if other users may connect (default: one in the directory for temporary files)."`
}

// greet prints what is served, and how to go on.
func (c *serveCommand) greet(e *env, s *server.Server, notes []string, all []*server.Granted) {
	out := newPainter(e.stdout)
	fmt.Fprintln(e.stdout, "Serving")
	rows := newColumns(e.stdout)
	for _, m := range s.Mounted() {
		fmt.Fprintf(rows, "  %s\t%s\t%s\t%s\n", out.dir(operator.Place(m.Path)), modeOf(m.Attenuation), vfs.Printable(m.URL), detailText(m))
	}
	rows.Flush()
	for _, note := range notes {
		fmt.Fprintln(e.stdout, " ", out.faint(inWords(note)))
	}
	if len(all) == 0 {
		fmt.Fprintln(e.stdout, "\nNobody has a grant yet: see capd grant --help")
	}
	for _, g := range all {
		c.greetGuest(e, g)
	}
	if c.Config == "" && len(all) > 0 && all[0].Locator != "" {
		c.hints(e, all[0].Locator)
	}
	fmt.Fprint(e.stdout, "\nCtrl-C ends the host. Locators work again when it runs again.\n")
}

// greetGuest prints how a guest gets its locator.
func (c *serveCommand) greetGuest(e *env, g *server.Granted) {
	out := newPainter(e.stdout)
	switch {
	case g.State == operator.Revoked || g.State == operator.Expired:
		fmt.Fprintf(e.stdout, "\nThe grant of %q was %s. For another: %s grant %s%s%s\n", g.Guest, ended(g.State), self(), operator.Quote(g.Guest), pathFlag(g.Path), c.how())
	case g.File != "":
		fmt.Fprintf(e.stdout, "\nThe locator of %q is in %s\n", g.Guest, vfs.Printable(g.File))
	case g.Locator == "":
		fmt.Fprintf(e.stdout, "\n%q has its locator since %s. For another: %s grant %s%s%s\n", g.Guest, g.Since.Format("2 January 2006 15:04"),
			self(), operator.Quote(g.Guest), pathFlag(g.Path), c.how())
	default:
		fmt.Fprintf(e.stdout, "\nA locator for the guest called %q. Whoever has it has the capability:\n\n%s\n", g.Guest, out.secret(g.Locator))
		if len(g.TLS) > 0 {
			fmt.Fprint(e.stdout, "\nThe same for a guest elsewhere, over TLS:\n")
		}
		for _, loc := range g.TLS {
			fmt.Fprintf(e.stdout, "\n%s\n", out.secret(loc))
		}
	}
}

// ended says what has become of a grant.
func ended(s operator.State) string {
	if s == operator.Expired {
		return "for a time that is over"
	}
	return "taken back"
}

func pathFlag(path string) string {
	if path == "" {
		return ""
	}
	return " --path " + operator.Quote(path)
}

// how returns the flag by which a command finds this host.
func (c *serveCommand) how() string {
	if st, err := c.open(); err == nil && !c.found() {
		return " --state " + operator.Quote(string(st))
	}
	return ""
}

// hints prints commands to begin with.
func (c *serveCommand) hints(e *env, loc string) {
	capd, how := self(), c.how()
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

// self returns how to call this program again.
func self() string {
	exe, err := os.Executable()
	if err != nil {
		return "capd"
	}
	if strings.Contains(exe, string(filepath.Separator)+"go-build") { // by go run
		return "go run ./cmd/capd"
	}
	if !strings.ContainsRune(os.Args[0], filepath.Separator) {
		return os.Args[0]
	}
	return operator.Quote(exe)
}
