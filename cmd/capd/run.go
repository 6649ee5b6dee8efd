package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"capd/backend/physical"
	"capd/client"
	"capd/config"
	"capd/materialize"
	"capd/sandbox"
	"capd/vfs"
	"capd/vfs/batch"
)

type runCommand struct {
	Command []string `arg:"" passthrough:"" help:"The program and its arguments, after --."`

	Path     string   `placeholder:"P" help:"Run it in this part of the tree, and show it no other."`
	ReadOnly []string `sep:"none" placeholder:"P" help:"A path that it can read and not change; may be repeated."`
	Bind     []string `sep:"none" placeholder:"PATH" help:"A path of this machine that it can read, at the same place; may be repeated."`
	Env      []string `sep:"none" placeholder:"NAME=VALUE" help:"Something for its environment, which is empty otherwise; may be repeated."`
	Network  bool     `help:"Let it use the network."`
	Apply    bool     `xor:"apply" help:"Sync back what it changed although it fails."`
	NoApply  bool     `xor:"apply" help:"Show what it changed, and sync nothing back."`

	Memory    config.Size   `placeholder:"SIZE" help:"How much memory it may use (default: 8GiB)."`
	FileSize  config.Size   `placeholder:"SIZE" help:"How long a file it may write (default: 2GiB)."`
	Disk      config.Size   `placeholder:"SIZE" help:"How much it may write in all (default: 16GiB)."`
	Processes int           `placeholder:"N" help:"How many processes and threads it may have (default: 1024)."`
	Time      time.Duration `placeholder:"T" help:"How long it may run, such as 10m (default: 1h)."`

	capFlag
	stateFlag
}

func (runCommand) Help() string {
	return `Copies the tree into a private directory and runs the program there, confined: it sees that
directory, the system's programs and what --bind shows, and nothing else of this machine; no network
without --network. When it ends well, what it changed is shown and synced back, all or nothing: if
something was changed on both sides meanwhile, nothing is, and it says where. Links, FIFOs and the
like stay behind.

Without a locator it serves the directory that you are in, as capd serve does, to this one program.
Secrets are left out; .git and what else makes other programs run something can be read and not
changed. It ends as the program ended. Linux alone, with bubblewrap installed.

Examples:
  capd run -- make test
  capd run --bind "$(go env GOMODCACHE)" -- go build ./...
  capd run --no-apply -- sh -c 'npm run format'
  capd run --cap @agent.cap --path project --read-only docs -- ./agent`
}

func (c *runCommand) Run(e *env) (err error) {
	if len(c.Command) > 0 && c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	if len(c.Command) == 0 {
		return usageError{"which program? name it after --, as in capd run -- make test"}
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

// source is the tree that a program is run on.
type source struct {
	w     *world
	dir   vfs.Dir
	name  string // for settling
	ctx   context.Context
	close func()
}

// from opens the tree: a guest's, or the directory that it is run in.
func (c *runCommand) from(e *env, st state) (*source, error) {
	if c.Cap == "" {
		return c.here(e, st)
	}
	conn, d, err := c.dir(e)
	if err != nil {
		return nil, c.add(err, "; without it capd run takes the directory it is in")
	}
	if err := st.make(); err != nil {
		conn.Close()
		return nil, err
	}
	w, err := openWorld(e, st, func(_ context.Context, name string) (vfs.Dir, error) {
		if name != c.capName() {
			return nil, errOthers
		}
		n, err := vfs.Dup(d)
		if err != nil {
			return nil, err
		}
		return n.(vfs.Dir), nil
	})
	if err != nil {
		conn.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(e)
	s := &source{w: w, dir: d, name: c.capName(), ctx: ctx, close: func() {
		cancel(nil)
		w.Close()
		conn.Close()
	}}
	go watch(ctx, d, cancel)
	if path := trimPath(c.Path); path != "" {
		n, err := d.Walk(e, path, true)
		if err == nil {
			var ok bool
			if s.dir, ok = n.(vfs.Dir); !ok {
				err = vfs.At(path, vfs.NotDir)
			}
		}
		if err != nil {
			s.close()
			return nil, err
		}
		s.name = ""
	}
	return s, nil
}

// capName stands for the capability where it is written down.
func (c *runCommand) capName() string {
	text, _ := c.locator()
	return fmt.Sprintf("cap:%x", sha256.Sum256([]byte(text)))
}

// watchEvery is how often a program's capability is asked whether it still is one.
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

// here serves the directory that the program is run in, to nobody else.
func (c *runCommand) here(e *env, st state) (*source, error) {
	p, err := usual(".", false)
	if err != nil {
		return nil, err
	}
	p.mounts = p.mounts[:1]
	if err := p.possible(st); err != nil {
		return nil, err
	}
	if err := st.make(); err != nil {
		return nil, err
	}
	w, err := openWorld(e, st, nil)
	if err != nil {
		return nil, err
	}
	s := &source{w: w, ctx: e, close: func() { w.Close() }}
	if err = p.mount(e, w.FS, true); err == nil {
		at := strings.TrimSuffix(vfs.Join(projectAt, trimPath(c.Path)), "/")
		s.name = w.Target(at)
		s.dir, err = w.Dir(e, at)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// in materializes, runs, shows and syncs.
func (c *runCommand) in(e *env, st state, from *source) (err error) {
	fixed, err := c.fixed(from)
	if err != nil {
		return err
	}
	p := newProgress(e, nil, "copied")
	t, err := from.w.newTree(from.ctx, from.dir, from.name, materialize.Options{ReadOnly: fixed, Progress: entries(p.count)})
	p.end()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	for _, s := range t.LeftOut() {
		e.logf("capd: left out: %s: %s", vfs.Printable(s.Path), s.Why)
	}
	if c.Cap != "" {
		e.logf("capd: on the tree of the locator, and not on the directory that you are in")
	}
	code, err := c.sandboxed(e, from, t.Path(), fixed)
	if err != nil {
		return notStarted(err)
	}
	changed, left, err := t.Changes(from.ctx)
	if err != nil {
		return err
	}
	show := newChanges(e.stderr)
	for _, ch := range changed {
		if err := show.change(ch); err != nil {
			return err
		}
	}
	for _, s := range left {
		e.logf("capd: stays behind: %s: %s", vfs.Printable(s.Path), s.Why)
	}
	switch {
	case len(changed) == 0:
	case c.NoApply:
		e.logf("capd: %s, not synced back", count(len(changed), "change"))
	case code != 0 && !c.Apply:
		e.logf("capd: %s, not synced back, since the program failed; --apply syncs nevertheless", count(len(changed), "change"))
	default:
		n, _, err := t.Sync(from.ctx, nil)
		if err != nil {
			e.logf("capd: nothing was synced back")
			return errors.Join(err, keepUnsynced(e, st, t))
		}
		e.logf("capd: synced %s back", count(n, "change"))
	}
	if code != 0 {
		return exitError(code)
	}
	return nil
}

// notStarted is err, and ends as a shell does when it was for the program itself.
func notStarted(err error) error {
	code := map[vfs.Code]exitError{vfs.NotFound: 127, vfs.Denied: 126, vfs.IsDir: 126}[vfs.CodeOf(err)]
	if code == 0 {
		return err
	}
	return errors.Join(err, code)
}

// fixed are the paths that the program cannot change: those that it was told, and at
// the top those that make other programs run something.
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
	for _, name := range []string{".git", ".claude", ".cursor", ".vscode", ".mcp.json", ".envrc"} {
		i, err := vfs.StatAt(from.ctx, from.dir, name, false)
		if err == nil && (i.Kind == vfs.DirKind || i.Kind == vfs.FileKind) && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all, nil
}

func (c *runCommand) sandboxed(e *env, from *source, dir string, fixed []string) (int, error) {
	for i, path := range c.Bind {
		abs, err := filepath.Abs(path)
		if err != nil {
			return 0, err
		}
		c.Bind[i] = abs
	}
	for _, pair := range c.Env {
		if name, _, ok := strings.Cut(pair, "="); !ok || name == "" {
			return 0, usageError{"--env is NAME=VALUE"}
		}
	}
	code, err := sandbox.Run(from.ctx, sandbox.Command{
		Args: c.Command, Tree: dir, ReadOnly: fixed, Bind: c.Bind, Env: c.Env, Network: c.Network,
		Limits: sandbox.Limits{
			Processes: c.Processes, Memory: int64(c.Memory), FileSize: int64(c.FileSize), Disk: int64(c.Disk), Time: c.Time,
		},
		Stdin: e.stdin, Stdout: e.stdout.to, Stderr: e.stderr, Scratch: filepath.Dir(dir), // which goes with the tree, however this ends
	})
	if err != nil && from.ctx.Err() != nil && e.Err() == nil { // the capability went
		return 0, context.Cause(from.ctx)
	}
	return code, err
}

// keepUnsynced saves what the program made of the files that it changed, since the
// tree goes: whoever ran it for an hour wants them.
func keepUnsynced(e *env, st state, t *tree) error {
	ctx := context.WithoutCancel(e)
	changed, err := t.Tree.Changes(ctx)
	if err != nil {
		return err
	}
	dir := filepath.Join(st.dir, "unsynced", time.Now().Format("20060102-150405.000"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return st.unusable(err)
	}
	store, err := openPhysical(dir, physical.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	root := store.Root()
	for _, c := range changed.List {
		if err := keep(ctx, root, c); err != nil {
			return vfs.At(c.Path, err)
		}
	}
	e.logf("capd: the files that it changed are kept in %s", dir)
	return nil
}

// keep makes a changed file or directory below root.
func keep(ctx context.Context, root vfs.Dir, c batch.Change) error {
	d := vfs.Guarded(root, nil)
	names, err := vfs.SplitPath(c.Path)
	if err != nil || c.Becomes.Absent() {
		return err
	}
	last := len(names) - 1
	for i, name := range names {
		if i == last && c.Becomes.Kind != vfs.DirKind {
			break
		}
		next, err := vfs.WalkDir(ctx, d, name)
		if vfs.CodeOf(err) == vfs.NotFound {
			next, err = d.Mkdir(ctx, name)
		}
		if err != nil {
			return err
		}
		d = next
	}
	if c.Becomes.Kind != vfs.FileKind || c.Content == nil {
		return nil
	}
	r, err := c.Content(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = vfs.Install(ctx, d, names[last], r, c.Becomes.Exec, vfs.If{})
	return err
}

// exitError ends capd as a program that it ran ended.
type exitError int

func (x exitError) Error() string { return fmt.Sprintf("the program ended with %d", int(x)) }

var errOthers = vfs.Errorf(vfs.NotFound, "this belongs to another capability")
