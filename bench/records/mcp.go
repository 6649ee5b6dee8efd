package records

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"capd/bench/mcp"
	"capd/tests/interop/npm"
)

const (
	// mcpTree is how many files are searched.
	mcpTree = 50_000
	// mcpAtOnce is how many calls are under way at once.
	mcpAtOnce = 64
	// reference is the server that capd mcp is compared with, below node_modules.
	reference = "@modelcontextprotocol/server-filesystem/dist/index.js"
)

// mcps measures capd mcp beside the reference server for files, both over their standard input and output.
func mcps(o *Options, dir string) *world {
	m := &mcpWorld{o: o, dir: dir, files: max(500, int(mcpTree*o.Scale))}
	floor := "server-filesystem"
	both := func(name, unit string, more bool, target float64, f func(s *mcpServer) figure) *contest {
		return &contest{Row{Name: "mcp: " + name, Floor: floor, Unit: unit, More: more, Target: target},
			func(ctx context.Context) (float64, error) { return f(m.ref)(ctx) }, func(ctx context.Context) (float64, error) { return f(m.own)(ctx) }}
	}
	tree := fmt.Sprintf("%d files", m.files)
	return &world{
		rows: []*contest{
			both("read_text_file of 4 KiB, p50", "µs", false, 0.7, func(s *mcpServer) figure {
				return p50(o.Slice, func(context.Context) error { return s.tool("read_text_file", `"path":"4k"`) })
			}),
			both("read_text_file of 4 KiB, 64 at once", "/s", true, 1.5, func(s *mcpServer) figure { return s.rate(o.Slice) }),
			{Row{Name: "mcp: from the start to the first answer", Floor: floor, Unit: "ms", Target: 0.1}, m.starts(func() []string { return m.ref.command }), m.starts(func() []string { return m.own.command })},
			both("resident after that", "MB", false, 0.4, func(s *mcpServer) figure {
				return func(context.Context) (float64, error) { return resident(s.Pid(), "VmRSS") }
			}),
			both("search_files in "+tree, "ms", false, 0.2, func(s *mcpServer) figure {
				return s.takes(`search_files`, `"path":"tree","pattern":"**/*7.go"`)
			}),
			both("directory_tree of "+tree, "ms", false, 0.2, func(s *mcpServer) figure { return s.takes(`directory_tree`, `"path":"ROOT/tree"`) }),
			both("edit_file of 1 MiB", "ms", false, 0.5, func(s *mcpServer) figure {
				return func(ctx context.Context) (float64, error) {
					from, to := "line of the middle", "another of the middle"
					if s.edited = !s.edited; !s.edited {
						from, to = to, from
					}
					return s.takes("edit_file", fmt.Sprintf(`"path":"1m","edits":[{"oldText":%q,"newText":%q}]`, from, to))(ctx)
				}
			}),
		},
		setup: m.setup,
		close: m.close,
	}
}

type mcpWorld struct {
	o        *Options
	dir      string
	files    int
	ref, own *mcpServer
}

func (m *mcpWorld) setup(ctx context.Context) error {
	packages := filepath.Join(m.dir, "npm")
	if err := errors.Join(os.Mkdir(packages, 0o700), npm.Install(ctx, packages)); err != nil {
		return err
	}
	capd, err := m.o.Capd()
	if err != nil {
		return err
	}
	served := [2]string{}
	for i, name := range []string{"ref", "own"} {
		served[i] = filepath.Join(m.dir, name)
		if err := m.plant(served[i]); err != nil {
			return err
		}
	}
	if m.ref, err = startMCP(served[0], "node", filepath.Join(packages, "node_modules", reference), served[0]); err != nil {
		return err
	}
	m.own, err = startMCP(served[1], capd, "mcp", served[1])
	return err
}

func (m *mcpWorld) plant(dir string) error {
	files := map[string]string{"4k": strings.Repeat("a line of sixty-three characters and its end, sixty-four in all\n", 64),
		"1m": strings.Repeat("a line of sixty-three characters and its end, sixty-four in all\n", 8192) + "line of the middle\n" + strings.Repeat("a line of sixty-three characters and its end, sixty-four in all\n", 8192)}
	for i := range m.files {
		files[fmt.Sprintf("tree/%d/%d/f%d.go", i/1000, i/50%20, i)] = ""
	}
	for path, data := range files {
		at := filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, []byte(data), 0o600)); err != nil {
			return err
		}
	}
	return nil
}

func (m *mcpWorld) close() error {
	for _, s := range []*mcpServer{m.ref, m.own} {
		if s != nil {
			s.Close()
		}
	}
	return nil
}

// starts returns after how many milliseconds a new server has answered initialize.
func (m *mcpWorld) starts(command func() []string) figure {
	return func(context.Context) (float64, error) {
		begun := time.Now()
		s, err := startMCP("", command()...)
		if err != nil {
			return 0, err
		}
		took := time.Since(begun)
		s.Close()
		return float64(took.Microseconds()) / 1e3, nil
	}
}

// mcpServer is a server and its client.
type mcpServer struct {
	*mcp.Client
	command []string
	root    string
	edited  bool // an edit was made, and not taken back
}

// startMCP starts a server of root.
func startMCP(root string, command ...string) (*mcpServer, error) {
	c, err := mcp.Start(command...)
	if err != nil {
		return nil, err
	}
	return &mcpServer{Client: c, command: command, root: root}, nil
}

// tool calls a tool. ROOT in its arguments is the directory.
func (s *mcpServer) tool(name, args string) error {
	_, err := s.Tool(name, "{"+strings.ReplaceAll(args, "ROOT", s.root)+"}")
	return err
}

// takes returns how many milliseconds a call takes.
func (s *mcpServer) takes(name, args string) figure {
	return func(context.Context) (float64, error) {
		begun := time.Now()
		err := s.tool(name, args)
		return float64(time.Since(begun).Microseconds()) / 1e3, err
	}
}

// rate returns how many reads a second are answered with mcpAtOnce under way.
func (s *mcpServer) rate(slice time.Duration) figure {
	return func(context.Context) (float64, error) {
		var n atomic.Int64
		var failed atomic.Pointer[error]
		var all sync.WaitGroup
		begun := time.Now()
		for range mcpAtOnce {
			all.Go(func() {
				for time.Since(begun) < slice {
					if err := s.tool("read_text_file", `"path":"4k"`); err != nil {
						failed.Store(&err)
						return
					}
					n.Add(1)
				}
			})
		}
		all.Wait()
		if err := failed.Load(); err != nil {
			return 0, *err
		}
		return float64(n.Load()) / time.Since(begun).Seconds(), nil
	}
}
