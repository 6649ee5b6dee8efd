package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"capd/authority"
	"capd/backend/memory"
	"capd/backend/physical"
	"capd/host"
	"capd/locator"
	"capd/vfs"
	"capd/vfs/deny"
)

// firstGuest is the name of the guest whose locator serve prints.
const firstGuest = "guest"

// What serve composes.
const (
	projectAt = "project"
	tmpAt     = "tmp"
	tmpBytes  = 64 << 20
	tmpNodes  = 65_536
)

// maxOpen is how many nodes a grant may hold open, on all its connections.
const maxOpen = 65_536

// maxStreams is how many files a grant may read or write whole at once: each
// costs a descriptor.
const maxStreams = 256

type serveCommand struct {
	Dir      string `arg:"" optional:"" default:"." help:"The directory to serve, at project/."`
	ReadOnly bool   `help:"Serve it read-only; tmp/ stays writable."`

	Listen    []tlsAddress `sep:"none" placeholder:"tls:HOST:PORT" help:"Serve guests over TLS too, at this address; PORT 0 is any, an empty HOST every address. May be repeated."`
	Advertise *advertised  `placeholder:"HOST[:PORT]" help:"What locators name in place of every address (default: this machine's name)."`
	stateFlag
}

func (serveCommand) Help() string {
	return `The directory appears at project/, and a scratch space in memory at tmp/. Where programs keep
secrets (.ssh, .env, *.pem and the like) is withheld; files that make other programs run
something (.git, .vscode and the like) can be read and not written.

Guests on this machine come by a Unix socket. With --listen, others come over TLS 1.3; they know
the host by its key, which is made once and kept in the state directory.

Examples:
  capd serve .                   serve this directory
  capd serve --read-only ~/src   serve another, for reading
  capd serve . --state /tmp/s    keep the sockets elsewhere
  capd serve . --listen tls:localhost:7000
  capd serve . --listen tls::7000 --advertise files.example.org`
}

func (c *serveCommand) Run(e *env) error {
	st, err := c.open()
	if err != nil {
		return err
	}
	if c.Advertise != nil && !slices.ContainsFunc(c.Listen, func(a tlsAddress) bool { return hostPort(a).everywhere() }) {
		return usageError{"--advertise is for a --listen at every address, such as tls::7000; locators of others name what they listen at"}
	}
	if fi, err := os.Stat(c.Dir); err == nil && !fi.IsDir() { // opening a FIFO would wait for its writer
		return vfs.Errorf(vfs.NotDir, "%s is not a directory", c.Dir)
	}
	store, err := physical.OpenAmbient(c.Dir, physical.Options{ReadOnly: c.ReadOnly})
	if err != nil {
		return vfs.Errorf(vfs.Invalid, "%s cannot be served: %v", c.Dir, reason(err))
	}
	defer store.Close()
	if inside, err := store.Holds(st.dir); err != nil {
		return vfs.Errorf(vfs.Invalid, "the state directory %s cannot be placed: %v", st.dir, reason(err))
	} else if inside {
		return vfs.Errorf(vfs.Invalid, "the state directory %s lies in the served one, where guests would reach it; name another with --state", st.dir)
	}
	unlock, err := st.lock()
	if err != nil {
		return err
	}
	defer unlock()
	tree, err := compose(store, c.ReadOnly)
	if err != nil {
		return err
	}
	a := authority.New(tree, vfs.Allowance{Open: maxOpen, Streams: maxStreams})
	return c.serve(e, st, store, a)
}

// compose is the tree that serve serves.
func compose(store *physical.Store, readOnly bool) (vfs.Dir, error) {
	project := vfs.Guarded(store.Root(), nil, deny.Must(deny.Secrets...).Guard(), deny.Must(deny.Triggers...).Ask(nil))
	if readOnly {
		narrow, err := vfs.ReadOnlyDir(project)
		if err != nil {
			return nil, err
		}
		project.Close()
		project = narrow
	}
	tmp := memory.New(memory.Limits{Bytes: tmpBytes, Nodes: tmpNodes})
	names := vfs.NewNamespace()
	if err := names.Mount(projectAt, project, vfs.MountOptions{}); err != nil {
		return nil, err
	}
	return names.Root(), names.Mount(tmpAt, tmp.Root(), vfs.MountOptions{})
}

func (c *serveCommand) serve(e *env, st state, store *physical.Store, a *authority.Host) (err error) {
	guests, err := listen(st.guests())
	if err != nil {
		return err
	}
	defer guests.Close()
	control, err := listen(st.control())
	if err != nil {
		return err
	}
	defer control.Close()

	tls, ways, id, err := c.listenTLS(e, st)
	if err != nil {
		return err
	}
	defer os.Remove(st.ways())
	for _, l := range tls {
		defer l.Close()
	}

	locate := func(secret [locator.SecretSize]byte) string {
		return locator.Locator{Socket: st.guests(), Secret: secret}.String()
	}
	s := host.New(a, host.Options{Logf: func(format string, args ...any) { fmt.Fprintf(e.stderr, format+"\n", args...) }})
	ended := make(chan error, 2+len(tls))
	go func() { ended <- s.ServeGuests(guests) }()
	go func() { ended <- s.ServeConsole(control, locate) }()
	for _, l := range tls {
		go func() { ended <- s.ServeTLS(l, id) }()
	}

	_, secret, err := a.Grant(e, firstGuest, "", false)
	if err != nil {
		return err
	}
	var remote []string
	for _, w := range ways {
		remote = append(remote, w.locator(secret).String())
	}
	c.greet(e, st, store, locate(secret), remote)

	select {
	case <-e.Done():
		err = nil
	case err = <-ended:
	}
	fmt.Fprintln(e.stderr, "capd: revoking every grant")
	// The guests go first: what they are doing ends, and then nothing can begin.
	done := make(chan error, 1)
	go func() { done <- errors.Join(a.Close(), s.Close()) }()
	select {
	case cerr := <-done:
		err = errors.Join(err, cerr)
	case <-time.After(2 * vfs.Grace):
		err = errors.Join(err, vfs.Errorf(vfs.Busy, "a guest's call is stuck in the system; leaving it behind"))
	}
	os.Remove(st.guests())
	os.Remove(st.control())
	return err
}

// listenTLS opens every --listen. There is no identity where there is none.
func (c *serveCommand) listenTLS(e *env, st state) (listeners []net.Listener, ways []way, id *host.Identity, err error) {
	os.Remove(st.ways()) // of a host that was killed
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
	if id, err = st.identity(); err != nil {
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
	return listeners, ways, id, st.keepWays(ways)
}

func (c *serveCommand) greet(e *env, st state, store *physical.Store, loc string, remote []string) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		dir = c.Dir
	}
	mode := "read-write"
	if c.ReadOnly {
		mode = "read-only"
	}
	capd := self()
	how := ""
	if !st.usual {
		how = " --state " + shellQuote(st.dir)
	}
	p := newPainter(e.stdout)
	overTLS := ""
	if len(remote) > 0 {
		overTLS = "\nThe same for a guest elsewhere, over TLS:\n"
		for _, loc := range remote {
			overTLS += "\n" + p.secret(loc) + "\n"
		}
	}
	fmt.Fprintf(e.stdout, `Serving (confinement: %s)
  %s  %-10s  %s
  %s      %-10s  memory, %d MiB, gone when the host ends

A locator for the first guest, called %q. Whoever has it has the capability:

%s
%s
In another terminal, as the guest:

  export CAPD_CAP='%s'
  %s ls
  %s ls project
  %s tree project
  echo hello | %s put tmp/note.txt
  %s cat tmp/note.txt
  %s attenuate --read-only --path project
  %s help

As the host:

  %s grants%s
  %s set-writable %s false%s
  %s revoke %s%s

Ctrl-C ends the host and revokes everything.
`, store.Confinement(), p.dir(projectAt+"/"), mode, vfs.Printable(dir), p.dir(tmpAt+"/"), "read-write", tmpBytes>>20,
		firstGuest, p.secret(loc), overTLS, loc,
		capd, capd, capd, capd, capd, capd, capd,
		capd, how, capd, firstGuest, how, capd, firstGuest, how)
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
