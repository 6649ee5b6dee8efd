package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"capd/client"
	"capd/config"
	"capd/materialize"
	"capd/sandbox"
	"capd/server"
	"capd/state"
	"capd/vfs"
	"capd/vfs/search"
)

type runCommand struct {
	Command []string `arg:"" passthrough:"" help:"The program and its arguments, after --."`

	Path     string   `placeholder:"P" help:"Run it in this part of the tree, and show it nothing else of the tree."`
	ReadOnly []string `sep:"none" placeholder:"P" help:"A path that it can read but not change; may be repeated."`
	Bind     []string `sep:"none" placeholder:"PATH" help:"A path of this machine that it can read, at the same place; may be repeated."`
	Env      []string `sep:"none" placeholder:"NAME=VALUE" help:"Set a variable in its environment, which is otherwise empty; may be repeated."`
	Network  bool     `help:"Let it use the network."`
	Exclude  []string `sep:"none" placeholder:"PATTERN" help:"Neither copy nor sync back paths that match; may be repeated."`
	Cache    []string `sep:"none" placeholder:"DIR" help:"A directory in its home, such as ~/.cache, that the next run on this tree finds again; may be repeated."`
	Guarded  bool     `help:"Let it change .git, .vscode and their like too, where the host would ask about that; needs --cap."`
	Apply    bool     `xor:"apply" help:"Sync back its changes even if it fails or is stopped."`
	NoApply  bool     `xor:"apply" help:"Show its changes, and drop them."`

	Memory    config.Size   `placeholder:"SIZE" help:"How much memory it may use (default: 8GiB)."`
	FileSize  config.Size   `placeholder:"SIZE" help:"How large a file it may write (default: 2GiB)."`
	Disk      config.Size   `placeholder:"SIZE" help:"How much it may write in all (default: 16GiB)."`
	Processes int           `placeholder:"N" help:"How many processes and threads it may have (default: 1024)."`
	Time      time.Duration `placeholder:"T" help:"How long it may run, such as 10m (default: as long as it takes)."`

	Cap string `placeholder:"LOCATOR" help:"Run it on the tree of this locator, or of the locator in @FILE. $$CAPD_CAP is not used."`
	stateFlag
}

func (runCommand) Help() string {
	return `Copies the tree into a private directory and runs the program there, confined: it sees that
directory, the system's programs and what --bind shows, and nothing else of this machine. It has no
network without --network. If it succeeds, its changes are shown and synced back, all or nothing. If
a path has changed in the tree too, nothing is synced, and run lists every such path. Of a binary file
only the name is shown, and of a long text the first 400 lines.

Some changes cannot be synced back: what is withheld, links that lead out of the tree, FIFOs and the
like. The rest is synced all the same. Each such change is named and kept in the state directory,
below unsynced, until you remove it, and the exit code is 1. If a program fails or is stopped
(Ctrl-C, --time, --memory, --disk), nothing is synced without --apply: its changes are shown, and
kept in the same place.

What needs an approval at the host of --cap is synced after the rest, each path by itself, and waits for
one; run names it. Without an approval it stays behind.

Only the executable bit of a mode comes back: a file that the program makes private gets the mode of
your own umask. If the program makes keys, run capd with umask 077.

Without --cap the tree is the current directory, served as by capd serve, to this one program.
Secrets are left out. .git and other files that make programs run something can be read but not
changed. No grant is taken then: the rules, approvals, hooks and record of a running host are not for
this run. If a host serves the directory, run says so.

The exit code is the program's. This works only on Linux, and needs bubblewrap.

--cache keeps a directory of the program's home, in the state directory, for later runs on the same
tree; ~/.cache has the caches of Go, npm, pip and cargo. It is never your own cache. A program that
you do not trust can leave something there that misleads later runs on this tree, but no others.

Examples:
  capd run -- make test
  capd run --cache ~/.cache --bind "$(go env GOMODCACHE)" -- go build ./...
  capd run --exclude '**/node_modules' --no-apply -- sh -c 'npx prettier -w .'
  capd run --cap @agent.cap --path project --read-only docs -- ./agent
  capd run --cap @agent.cap --guarded -- git commit -am "Fix the build"`
}

func (c *runCommand) Run(e *env) (err error) {
	if len(c.Command) > 0 && c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	if len(c.Command) == 0 {
		return usageError{"which program? name it after --, as in capd run -- make test"}
	}
	if first := c.Command[0]; strings.HasPrefix(first, "-") {
		return usageError{"unknown flag " + vfs.Printable(first) + "; the program comes after --, as in capd run -- make test"}
	}
	if err := c.check(); err != nil {
		return err
	}
	if err := sandbox.Available(); err != nil {
		return err
	}
	st, err := c.stateFlag.open()
	if err != nil {
		return err
	}
	from, err := c.from(e, st)
	if err != nil {
		return err
	}
	defer from.close()
	return c.in(e, st, from)
}

// check checks --bind and --env. It makes the paths of --bind absolute.
func (c *runCommand) check() error {
	if c.Guarded && c.Cap == "" {
		return usageError{"--guarded needs --cap: without a host nobody can be asked"}
	}
	for i, path := range c.Bind {
		abs, err := filepath.Abs(path)
		if err == nil {
			_, err = os.Stat(abs)
		}
		if err != nil {
			return usageError{fmt.Sprintf("--bind %s: %v", vfs.Printable(path), state.Reason(err))}
		}
		c.Bind[i] = abs
	}
	for _, pair := range c.Env {
		if name, _, ok := strings.Cut(pair, "="); !ok || name == "" {
			return usageError{"--env is NAME=VALUE"}
		}
	}
	return nil
}

// source is the tree on which a program is run.
type source struct {
	fs    *server.FS
	dir   vfs.Dir
	guest *client.Dir // dir, if it is a guest's
	name  string      // the name for settling
	tree  string      // identifies the tree for its caches
	ctx   context.Context
	close func()
}

// from opens the tree: a guest's, or the directory in which capd run was called.
func (c *runCommand) from(e *env, st state.Dir) (*source, error) {
	if c.Cap == "" {
		return c.here(e, st)
	}
	d, err := capFlag{Cap: c.Cap}.dir(e)
	if err != nil {
		return nil, err
	}
	w, err := server.OpenFS(e, st, server.FSOptions{Logf: e.logf, Recover: func(_ context.Context, name string) (vfs.Dir, error) {
		if name != c.capName() {
			return nil, server.ErrOthers
		}
		return vfs.Dup[vfs.Dir](d)
	}})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(e)
	s := &source{fs: w, dir: d, guest: d, name: c.capName(), tree: c.capName() + "/" + trimPath(c.Path), ctx: ctx, close: func() {
		cancel(nil)
		w.Close()
	}}
	go watch(ctx, d, cancel)
	if path := trimPath(c.Path); path != "" {
		n, err := d.Walk(e, path, true)
		if err == nil {
			s.dir, err = vfs.AsDir(n)
			err = vfs.At(path, err)
			s.guest, _ = s.dir.(*client.Dir)
		}
		if err != nil {
			s.close()
			return nil, err
		}
		s.name = ""
	}
	return s, nil
}

// capName stands for the capability where it is written to disk.
func (c *runCommand) capName() string {
	text, _ := capFlag{Cap: c.Cap}.locator()
	return fmt.Sprintf("cap:%x", sha256.Sum256([]byte(text)))
}

// watchEvery is how often capd checks that the program's capability is still valid.
const watchEvery = 500 * time.Millisecond

// watch ends the program when its capability is revoked.
func watch(ctx context.Context, d *client.Dir, cancel context.CancelCauseFunc) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchEvery):
		}
		if _, err := d.Stat(ctx); err != nil && ctx.Err() == nil {
			cancel(err)
			return
		}
	}
}

// in materializes the tree, runs the program, and shows and syncs its changes.
func (c *runCommand) in(e *env, st state.Dir, from *source) (err error) {
	fixed, err := c.fixed(from)
	if err != nil {
		return err
	}
	exclude, err := c.excluded()
	if err != nil {
		return err
	}
	p := newProgress(e, nil, "copied")
	copied := func(done materialize.Progress) { p.count(done.Entries(), done.Bytes) }
	t, err := from.fs.Copy(from.ctx, from.dir, from.name, materialize.Options{ReadOnly: fixed, Exclude: exclude, Progress: copied})
	p.end()
	if err != nil {
		return err
	}
	held := make(chan os.Signal, 1) // otherwise a second interrupt would end capd before it has kept what the program did
	signal.Notify(held, interrupts...)
	defer signal.Stop(held)
	a := &aftermath{command: c, env: e, state: st, from: from, tree: t}
	defer func() { err = errors.Join(err, a.close()) }()
	for _, s := range t.LeftOut() {
		e.logf("capd: left out: %s: %s", vfs.Printable(s.Path), s.Why)
	}
	if c.Cap != "" {
		e.logf("capd: on the tree of the locator, and not on the directory that you are in")
	} else {
		c.tellHere(e)
	}
	caches, release, err := c.caches(e, st, from)
	if err != nil {
		return err
	}
	defer release()
	a.code, a.stopped = c.sandboxed(e, from, t.Path(), fixed, caches)
	ctx, done := signal.NotifyContext(context.WithoutCancel(e), interrupts...) // the next interrupt ends it
	defer done()
	return a.settle(ctx)
}

// excluded returns the patterns of --exclude.
func (c *runCommand) excluded() ([]*search.Pattern, error) {
	var all []*search.Pattern
	for _, text := range c.Exclude {
		p, err := search.Compile(trimPath(text))
		if err != nil {
			return nil, vfs.At(text, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// notStarted returns err with the exit code that a shell would use, if the program
// itself could not be started.
func notStarted(err error) error {
	code := map[vfs.Code]exitError{vfs.NotFound: 127, vfs.Denied: 126, vfs.IsDir: 126}[vfs.CodeOf(err)]
	if code == 0 {
		return err
	}
	return errors.Join(err, code)
}

// fixed returns the paths that the program cannot change: those given as flags, and
// at the top those that make other programs run something.
func (c *runCommand) fixed(from *source) ([]string, error) {
	var all []string
	for _, path := range c.ReadOnly {
		path = trimPath(path)
		if _, err := vfs.SplitPath(path); err != nil {
			return nil, vfs.At(path, err)
		}
		if _, err := vfs.StatAt(from.ctx, from.dir, path, false); err != nil {
			return nil, vfs.At(path, err)
		}
		all = append(all, path)
	}
	if c.Guarded {
		return all, nil
	}
	for _, name := range []string{".git", ".claude", ".cursor", ".vscode", ".mcp.json", ".envrc"} {
		i, err := vfs.StatAt(from.ctx, from.dir, name, false)
		if err == nil && (i.Kind == vfs.DirKind || i.Kind == vfs.FileKind) && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all, nil
}

func (c *runCommand) sandboxed(e *env, from *source, dir string, fixed []string, caches []sandbox.Cache) (int, error) {
	code, err := sandbox.Run(from.ctx, sandbox.Command{
		Args: c.Command, Tree: dir, ReadOnly: fixed, Bind: c.Bind, Caches: caches, Env: c.Env, Network: c.Network,
		Limits: sandbox.Limits{
			Processes: c.Processes, Memory: int64(c.Memory), FileSize: int64(c.FileSize), Disk: int64(c.Disk), Time: c.Time,
		},
		Stdin: e.stdin, Stdout: e.stdout.to, Stderr: e.stderr, Scratch: filepath.Dir(dir), // it is removed with the tree, however the run ends
	})
	if err != nil && from.ctx.Err() != nil && e.Err() == nil { // the capability ended
		return 0, context.Cause(from.ctx)
	}
	return code, err
}

// exitError is the exit code of a program that capd ran. capd ends with it, too.
type exitError int

func (x exitError) Error() string { return fmt.Sprintf("the program ended with %d", int(x)) }
