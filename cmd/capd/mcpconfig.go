package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mcpClients are the clients whose configuration capd mcp prints, with where it belongs.
var mcpClients = []struct{ name, file, key string }{
	{"claude", "", ""}, // a command, not a file
	{"claude-desktop", "claude_desktop_config.json", "mcpServers"},
	{"cursor", ".cursor/mcp.json, or ~/.cursor/mcp.json", "mcpServers"},
	{"vscode", ".vscode/mcp.json", "servers"},
	{"windsurf", "~/.codeium/windsurf/mcp_config.json", "mcpServers"},
	{"gemini", "~/.gemini/settings.json", "mcpServers"},
	{"opencode", "opencode.json", "mcp"},
	{"codex", "~/.codex/config.toml", ""},
	{"zed", "settings.json", "context_servers"},
}

// printConfig prints what a client needs to start this command with the same arguments.
func (c *mcpCommand) printConfig(e *env) error {
	i := slices.IndexFunc(mcpClients, func(m struct{ name, file, key string }) bool { return m.name == c.PrintConfig })
	if i < 0 {
		var names []string
		for _, m := range mcpClients {
			names = append(names, m.name)
		}
		return usageError{fmt.Sprintf("--print-config is for one of %s", strings.Join(names, ", "))}
	}
	m := mcpClients[i]
	command, err := os.Executable()
	if err != nil {
		return err
	}
	args, err := c.arguments()
	if err != nil {
		return err
	}
	line := append([]string{command}, args...)
	server := map[string]any{"command": command, "args": args}
	switch m.name {
	case "claude":
		for i, a := range line {
			line[i] = shellQuoted(a)
		}
		_, err := fmt.Fprintf(e.stdout, "claude mcp add files -- %s\n", strings.Join(line, " "))
		return err
	case "codex":
		text, err := json.Marshal(args) // strings of TOML's are read alike
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.stdout, "# %s\n[mcp_servers.files]\ncommand = %s\nargs = %s\n", m.file, strconvQuoted(command), text)
		return err
	case "opencode":
		server = map[string]any{"type": "local", "command": line}
	case "vscode":
		server["type"] = "stdio"
	}
	fmt.Fprintf(e.stderr, "capd: for %s\n", m.file)
	return printJSON(e.stdout, map[string]any{m.key: map[string]any{"files": server}})
}

// arguments returns those of this command without --print-config. Directories are absolute, since a client starts it anywhere.
func (c *mcpCommand) arguments() ([]string, error) {
	args := []string{"mcp"}
	if c.ReadOnly {
		args = append(args, "--read-only")
	}
	if len(c.Dirs) == 0 {
		loc := c.Cap
		if name, ok := strings.CutPrefix(loc, "@"); ok {
			abs, err := filepath.Abs(name)
			if err != nil {
				return nil, err
			}
			loc = "@" + abs
		}
		if loc == "" {
			return nil, usageError{"name the directories, or the locator with --cap @FILE"}
		}
		args = append(args, "--cap", loc)
		if c.As != "" {
			args = append(args, "--as", c.As)
		}
		return args, nil
	}
	for _, dir := range c.Dirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		args = append(args, abs)
	}
	return args, nil
}

// shellQuoted returns an argument as a shell reads it.
func shellQuoted(arg string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-@=:,+", r)
	}
	if arg != "" && strings.IndexFunc(arg, func(r rune) bool { return !plain(r) }) < 0 {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

func strconvQuoted(text string) string {
	b, _ := json.Marshal(text) // a text has an encoding
	return string(b)
}
