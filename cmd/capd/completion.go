package main

import (
	_ "embed"
	"fmt"
)

// completionCommand prints the completion script for a shell. The scripts do not
// know the commands: they ask this program, with a hidden command, what can follow.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (completionCommand) Help() string {
	return `It completes commands, flags and their values, and for a guest's commands the paths that the
capability reaches.

Examples:
  source <(capd completion bash)      in ~/.bashrc
  source <(capd completion zsh)       in ~/.zshrc, after compinit
  capd completion fish > ~/.config/fish/completions/capd.fish`
}

//go:embed completion/capd.bash
var completionBash string

//go:embed completion/capd.zsh
var completionZsh string

//go:embed completion/capd.fish
var completionFish string

func (c *completionCommand) Run(e *env) error {
	script := map[string]string{"bash": completionBash, "zsh": completionZsh, "fish": completionFish}[c.Shell]
	_, err := fmt.Fprint(e.stdout, script)
	return err
}
