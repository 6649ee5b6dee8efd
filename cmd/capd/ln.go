package main

type lnCommand struct {
	Symbolic bool   `short:"s" required:"" help:"Make a symbolic link; there are no others."`
	Target   string `arg:"" help:"Where it leads: a path from the directory of the link, such as ../lib/a.js."`
	Path     string `arg:"" help:"The link."`
	capFlag
}

func (lnCommand) Help() string {
	return `What the link leads to need not exist. It must stay in what you were granted: an absolute target is refused, and one that
leads out, and so is .. after a name. Without a right to make links ask for a grant with --links.

Examples:
  capd ln -s v2 project/current
  capd ln -s ../lib/tool.js project/bin/tool`
}

func (c *lnCommand) Run(e *env) error {
	d, err := c.dir(e)
	if err != nil {
		return err
	}
	path := trimPath(c.Path)
	return belowMissing(path, d.MakeLink(e, path, c.Target))
}
