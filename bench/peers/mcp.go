package peers

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"capd/bench/load"
	"capd/bench/mcp"
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

type mcpClient struct {
	*mcp.Client
	table []byte
	tree  string
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
	c, err := mcp.Start("node", mcpProgram(p), tree)
	if err != nil {
		return nil, err
	}
	return &mcpClient{c, table, tree}, nil
}

func (c *mcpClient) tool(name, path string, more ...string) (string, error) {
	args := map[string]string{"path": filepath.Join(c.tree, path)}
	for i := 0; i+1 < len(more); i += 2 {
		args[more[i]] = more[i+1]
	}
	b, err := json.Marshal(args)
	if err != nil {
		return "", err
	}
	answer, err := c.Tool(name, string(b))
	if err != nil {
		return "", err
	}
	return mcp.Text(answer)
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
