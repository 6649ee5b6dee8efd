package peers

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"capd/bench/load"
)

// MCP is the filesystem server of the Model Context Protocol's project, over standard input and output, as its hosts
// run it. The client starts it.
var MCP = &Contender{
	Name:    "MCP",
	About:   "npm's @modelcontextprotocol/server-filesystem over standard input and output; its write_file is atomic for a file that is there, and not durable",
	Ops:     []string{load.Whole, load.DeepFile, load.Put, load.Stat, load.DeepStat, load.List},
	Version: mcpVersion,
	Client:  newMCPClient,
}

const mcpPackage = "@modelcontextprotocol/server-filesystem"

// mcpDir is where the package is installed.
func mcpDir(p Place) string { return filepath.Join(p.Cache, "mcp") }

func mcpProgram(p Place) string {
	return filepath.Join(mcpDir(p), "node_modules", mcpPackage, "dist", "index.js")
}

// mcpVersion installs the package, unless it is installed.
func mcpVersion(p Place) (string, error) {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("%s is not installed", tool)
		}
	}
	if _, err := os.Stat(mcpProgram(p)); err != nil {
		if err := os.MkdirAll(mcpDir(p), 0o755); err != nil {
			return "", err
		}
		out, err := exec.Command("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", mcpDir(p), mcpPackage).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("npm install %s: %w: %s", mcpPackage, err, out)
		}
	}
	b, err := os.ReadFile(filepath.Join(mcpDir(p), "node_modules", mcpPackage, "package.json"))
	if err != nil {
		return "", err
	}
	var about struct{ Version string }
	if err := json.Unmarshal(b, &about); err != nil {
		return "", err
	}
	node, err := exec.Command("node", "--version").Output()
	return about.Version + " on node " + strings.TrimSpace(string(node)), err
}

// An mcpClient speaks JSON-RPC 2.0, a line a message.
type mcpClient struct {
	table []byte
	tree  string
	ids   atomic.Int64

	mu    sync.Mutex
	out   io.Writer
	calls map[int64]chan mcpAnswer
	err   error
}

type mcpAnswer struct {
	ID     int64
	Error  *struct{ Message string }
	Result struct {
		IsError bool
		Content []struct{ Text string }
	}
	lost error
}

func newMCPClient(p Place) (load.Client, error) {
	table, err := load.ReadTable(p.Table)
	if err != nil {
		return nil, err
	}
	tree, err := filepath.EvalSymlinks(p.Tree)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("node", mcpProgram(p), tree) // it ends with its standard input
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &mcpClient{table: table, tree: tree, out: in, calls: map[int64]chan mcpAnswer{}}
	go c.read(out)
	_, err = c.request("initialize", map[string]any{
		"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "bench", "version": "1"},
	})
	if err == nil {
		err = c.write(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	}
	return c, err
}

func (c *mcpClient) write(message any) error {
	b, err := json.Marshal(message)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.out.Write(append(b, '\n'))
	return err
}

func (c *mcpClient) read(in io.Reader) {
	r := bufio.NewReaderSize(in, 1<<20)
	var err error
	for err == nil {
		var line []byte
		if line, err = r.ReadBytes('\n'); err != nil {
			break
		}
		var a mcpAnswer
		if err = json.Unmarshal(line, &a); err != nil {
			break
		}
		c.mu.Lock()
		if call := c.calls[a.ID]; call != nil {
			call <- a
			delete(c.calls, a.ID)
		}
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = fmt.Errorf("the MCP server is gone: %w", err)
	for _, call := range c.calls {
		call <- mcpAnswer{lost: c.err}
	}
}

func (c *mcpClient) request(method string, params any) (string, error) {
	id, answer := c.ids.Add(1), make(chan mcpAnswer, 1)
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return "", c.err
	}
	c.calls[id] = answer
	c.mu.Unlock()
	if err := c.write(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}); err != nil {
		return "", err
	}
	a := <-answer
	switch {
	case a.lost != nil:
		return "", a.lost
	case a.Error != nil:
		return "", errors.New(a.Error.Message)
	case len(a.Result.Content) == 0:
		return "", nil
	case a.Result.IsError:
		return "", errors.New(a.Result.Content[0].Text)
	}
	return a.Result.Content[0].Text, nil
}

func (c *mcpClient) tool(name, path string, more ...string) (string, error) {
	args := map[string]string{"path": filepath.Join(c.tree, path)}
	for i := 0; i+1 < len(more); i += 2 {
		args[more[i]] = more[i+1]
	}
	return c.request("tools/call", map[string]any{"name": name, "arguments": args})
}

func (c *mcpClient) Op(op string, size int) (func(worker int) func() error, error) {
	switch op {
	case load.Whole, load.DeepFile:
		whole := load.FileOf(c.table, size)
		return func(int) func() error {
			return func() error {
				text, err := c.tool("read_text_file", load.At(op, load.FileName(size)))
				if err != nil {
					return err
				}
				return whole.Check([]byte(text))
			}
		}, nil
	case load.Put:
		pieces := load.Pieces(c.table, size)
		return func(worker int) func() error {
			name := filepath.Join(load.PutDir, fmt.Sprint("mcp", worker))
			return load.InTurn(pieces, worker, func(p *load.Piece) error {
				_, err := c.tool("write_file", name, "content", string(p.Bytes))
				return err
			})
		}, nil
	case load.Stat, load.DeepStat:
		return func(int) func() error {
			return func() error {
				text, err := c.tool("get_file_info", load.At(op, load.TableFile))
				if err != nil {
					return err
				}
				var size int64
				for line := range strings.Lines(text) {
					if rest, ok := strings.CutPrefix(line, "size: "); ok {
						if _, err := fmt.Sscan(rest, &size); err != nil {
							return err
						}
					}
				}
				return load.CheckStat(size)
			}
		}, nil
	case load.List:
		return func(int) func() error {
			return func() error {
				text, err := c.tool("list_directory", load.ListedDir)
				if err != nil {
					return err
				}
				return load.CheckList(strings.Count(text, "[FILE]"))
			}
		}, nil
	}
	return nil, load.ErrUnsupported
}
