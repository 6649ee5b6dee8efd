package main

import (
	"fmt"

	"capd/config"
	"capd/server"
	"capd/vfs"
)

type configCommand struct {
	Check  configCheckCommand  `cmd:"" help:"Check a configuration file, and report the lines with mistakes."`
	Schema configSchemaCommand `cmd:"" help:"Print the JSON Schema of a configuration file, for editors."`
}

func (configCommand) Help() string {
	return `For the file of capd serve --config; docs/configuration.md says what it may contain.

Examples:
  capd config check capd.yaml
  capd config schema > capd.schema.json`
}

type configCheckCommand struct {
	File string `arg:"" help:"The configuration."`
}

func (configCheckCommand) Help() string {
	return `Examples:
  capd config check capd.yaml`
}

func (c *configCheckCommand) Run(e *env) error {
	s := &server.Server{}
	guests, err := s.Load(c.File)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.stdout, "%s: %s, %s%s\n", vfs.Printable(c.File), count(len(s.Mounts), "mount"), count(len(guests), "guest"), invitations(s))
	return err
}

// invitations counts those in the configuration of s, if there are any.
func invitations(s *server.Server) string {
	if len(s.Invitations) == 0 {
		return ""
	}
	return ", " + count(len(s.Invitations), "invitation")
}

type configSchemaCommand struct{}

func (configSchemaCommand) Help() string {
	return `Examples:
  capd config schema > capd.schema.json`
}

func (configSchemaCommand) Run(e *env) error {
	_, err := e.stdout.Write(config.Schema())
	return err
}
