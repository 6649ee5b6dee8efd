package main

import "capd/vfs"

type extractCommand struct {
	Archive string `arg:"" help:"The archive: a file that the host serves."`
	Dir     string `arg:"" help:"The directory to make, or to add to. \".\" is the capability itself."`
	JSON    bool   `name:"json" help:"Print what was made as JSON."`
	capFlag
}

func (extractCommand) Help() string {
	return `The host extracts zip, tar, tar.gz and tar.zst; nothing goes over the connection. All of it is made or nothing. A directory that is
new appears with everything in it where the store can do that. A directory that is there is added to, by at most 1000 files and directories, and
nothing in it is replaced. An archive with links, devices or names that lead elsewhere is refused. Executable bits are kept, times are not.

Examples:
  capd extract tmp/site.zip project/site
  capd put tmp/a.tar.gz <a.tar.gz && capd extract tmp/a.tar.gz project
  capd extract download.zip . --json`
}

func (c *extractCommand) Run(e *env) error {
	d, err := c.dir(e)
	if err != nil {
		return err
	}
	target := trimPath(c.Dir)
	done, err := d.Extract(e, trimPath(c.Archive), d, target)
	if err != nil || !c.JSON {
		return err
	}
	return printJSON(e.stdout, copiedJSON{vfs.Printable(target), done.Entries, done.Bytes})
}
