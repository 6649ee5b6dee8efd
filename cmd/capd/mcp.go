package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"capd/client"
	"capd/front/mcp"
	"capd/front/roots"
	"capd/server"
	"capd/vfs"
)

type mcpCommand struct {
	Dirs        []string      `arg:"" optional:"" name:"dir" help:"The directories of this machine that the agent gets."`
	ReadOnly    bool          `help:"Let it change nothing."`
	As          string        `placeholder:"PATH" help:"With --cap: what the agent calls the directory (default: /workspace)."`
	PrintConfig string        `placeholder:"CLIENT" help:"Print what this client's configuration needs to start this, and end: claude, claude-desktop, cursor, vscode, windsurf, gemini, opencode, codex or zed."`
	Wait        time.Duration `default:"45s" placeholder:"TIME" help:"How long a call that changes something waits for an approval."`
	capFlag
}

func (mcpCommand) Help() string {
	return `An MCP client starts it, and speaks to it over its standard input and output. With directories the host is in the same process, and ends
with it. With --cap, or $CAPD_CAP if no directory is named, the agent is a guest of a host that runs, whose operator can watch, lock and revoke.

Places where programs keep secrets are withheld, and files that make other programs run something can only be read: docs/mcp.md says more.

Examples:
  capd mcp ~/project
  capd mcp --read-only ~/project ~/docs
  capd mcp --cap @agent.locator --as /workspace
  capd mcp --print-config cursor ~/project
  claude mcp add files -- capd mcp ~/project`
}

func (c *mcpCommand) Run(e *env) error {
	if c.PrintConfig != "" {
		return c.printConfig(e)
	}
	ctx, cancel := context.WithCancel(e)
	defer cancel()
	s, end, err := c.service(ctx, e)
	if err != nil {
		return err
	}
	defer end()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.Watch(ctx, lookAgain, func(err error) { e.logf("capd: %s", speak(err)) })
	}()
	e.logf("capd: Secure MCP Filesystem Server running on stdio") // as the reference says it: some programs wait for that
	err = s.Serve(ctx, e.stdin, e.stdout.to, func(format string, args ...any) { e.logf("capd: "+format, args...) })
	cancel()
	<-watched
	return err
}

// service returns what serves the agent. end ends it, with the host if that is in this process.
func (c *mcpCommand) service(ctx context.Context, e *env) (s *mcp.Service, end func(), err error) {
	o := mcp.Options{Patience: c.Wait}
	if len(c.Dirs) > 0 {
		host, err := c.host(e)
		if err != nil {
			return nil, nil, err
		}
		o.Roots = host.roots
		likely := client.AllRights
		if c.ReadOnly {
			likely &^= client.Write | client.Delete | client.Move
		}
		s := mcp.Begin(ctx, o, likely, host.start)
		return s, func() { s.Close(); host.end() }, nil
	}
	as := c.As
	if as == "" {
		as = "/workspace"
	}
	if !path.IsAbs(as) || path.Clean(as) != as {
		return nil, nil, usageError{"--as is an absolute path, such as /workspace"}
	}
	conn, err := c.connect(e)
	if err != nil {
		return nil, nil, err
	}
	o.Roots = roots.Roots{{Shown: as}}
	if s, err = mcp.New(ctx, conn, o); err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

// lookAgain is how often the rights of the capability are looked at.
const lookAgain = 2 * time.Second

// mcpHost is a host for one agent, in this process.
type mcpHost struct {
	server *server.Server
	agent  server.Guest
	state  string
	conn   *client.Conn
	roots  roots.Roots
}

// host returns a host that serves the directories.
func (c *mcpCommand) host(e *env) (_ *mcpHost, err error) {
	if c.Cap != os.Getenv("CAPD_CAP") || c.As != "" {
		return nil, usageError{"name directories, or --cap and --as, and not both"}
	}
	h := &mcpHost{server: &server.Server{Logf: e.logf}, agent: server.Guest{Name: "agent", ReadOnly: c.ReadOnly, BeyondDefault: true}}
	for i, dir := range c.Dirs {
		shown, real, err := accessible(dir)
		if err != nil {
			e.logf("capd: Warning: %v, skipping", err)
			continue
		}
		at := mountNamed(h.roots, filepath.Base(shown), i)
		h.server.Mounts = append(h.server.Mounts, server.Mount{Path: at, URL: server.PhysicalURL(real), Attenuation: server.Attenuation{ReadOnly: c.ReadOnly}})
		h.roots = append(h.roots, roots.Root{Shown: filepath.ToSlash(shown), At: at, Real: filepath.ToSlash(real)})
	}
	if len(h.roots) == 0 {
		return nil, vfs.Errorf(vfs.NotFound, "Error: None of the specified directories are accessible")
	}
	if len(h.roots) == 1 { // what it gets is the directory itself, so that differences and patches name what it knows
		h.agent.Path, h.roots[0].At = h.roots[0].At, ""
	}
	return h, nil
}

// start starts the host, and connects to it as the agent.
func (h *mcpHost) start(ctx context.Context) (*client.Conn, error) {
	var err error
	if h.state, err = privateState(h.roots); err != nil {
		return nil, err
	}
	h.server.State = h.state
	if err := h.server.Start(ctx); err != nil {
		return nil, err
	}
	given, err := h.server.Grant(ctx, h.agent)
	if err != nil {
		return nil, err
	}
	h.conn, err = client.Dial(ctx, given.Locator)
	return h.conn, err
}

// accessible returns the absolute path of a directory as it was typed, and the one without links.
func accessible(dir string) (shown, real string, err error) {
	if shown, err = filepath.Abs(dir); err == nil {
		real, err = filepath.EvalSymlinks(shown)
	}
	if err != nil {
		return "", "", fmt.Errorf("Cannot access directory %s", vfs.Printable(dir))
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return "", "", fmt.Errorf("Cannot access directory %s", vfs.Printable(dir))
	case !info.IsDir():
		return "", "", fmt.Errorf("%s is not a directory", vfs.Printable(dir))
	}
	return shown, real, nil
}

// mountNamed returns the name at which the directory called base is mounted beside the others.
func mountNamed(others roots.Roots, base string, i int) string {
	taken := slices.ContainsFunc(others, func(r roots.Root) bool { return r.At == base })
	if taken || vfs.CheckNewName(base) != nil {
		return fmt.Sprint("dir", i+1)
	}
	return base
}

func (h *mcpHost) end() {
	if h.conn != nil {
		h.conn.Close()
	}
	_ = h.server.Close()
	if h.state != "" {
		_ = os.RemoveAll(h.state)
	}
}

// connect connects to the host that the locator names.
func (f capFlag) connect(e *env) (*client.Conn, error) {
	text, err := f.locator()
	if err != nil {
		return nil, err
	}
	c, err := client.Dial(e, text)
	if err != nil {
		return nil, f.origin(err)
	}
	e.opened = append(e.opened, c)
	return c, nil
}
