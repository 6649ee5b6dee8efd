package main

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"

	"capd/authority"
	"capd/backend/git"
	"capd/config"
	"capd/meter"
	"capd/vfs"
	"capd/virtualfs"
)

// Where serve mounts what it serves without being told.
const (
	projectAt = "project"
	headAt    = "ref/HEAD"
	tmpAt     = "tmp"
)

// firstGuest is the name of the guest whose locator serve prints.
const firstGuest = "guest"

// plan is what a host is to serve, and to whom.
type plan struct {
	mounts []planned
	guests []config.Guest
	listen []tlsAddress
	limits meter.Limits // of all guests together
	each   meter.Limits // of each grant
	notes  []string     // for whoever starts it
}

// planned is a mount to be.
type planned struct {
	path        string
	url         *virtualfs.URL
	where       string // it is planned; "" where nobody wrote it down
	attenuation virtualfs.Attenuation
}

// usual is the plan for one directory: itself, what its repository has committed, and
// memory to scratch in.
func usual(dir string, readOnly bool) (plan, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return plan{}, err
	}
	project := &virtualfs.URL{Scheme: "physical", Path: abs}
	p := plan{
		mounts: []planned{{projectAt, project, "", virtualfs.Attenuation{ReadOnly: readOnly}}},
		guests: []config.Guest{{Name: firstGuest}},
	}
	if u := committed(abs); u != nil {
		p.mounts = append(p.mounts, planned{headAt, u, "", virtualfs.Attenuation{ReadOnly: true}})
	}
	p.mounts = append(p.mounts, planned{path: tmpAt, url: &virtualfs.URL{Scheme: "memory"}})
	return p, nil
}

// committed names what the repository around dir has committed of dir, and follows
// it; nil when there is none. Nobody asked for it by name, so that a repository is
// left out whose parts lie elsewhere.
func committed(dir string) *virtualfs.URL {
	repo, ok := git.FindAmbient(dir)
	if !ok {
		return nil
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	top, err := filepath.EvalSymlinks(repo)
	if err != nil {
		return nil
	}
	below, err := filepath.Rel(top, real)
	if err != nil || !filepath.IsLocal(below) {
		return nil
	}
	u := &virtualfs.URL{Scheme: "git", Path: top, Query: url.Values{"follow": {""}, "confined": {""}}, Fragment: "HEAD"}
	if below != "." {
		u.Fragment += ":" + filepath.ToSlash(below)
	}
	return u
}

// configured is the plan that a file lays.
func configured(name string) (plan, *config.Config, error) {
	data, err := readConfig(name)
	if err != nil {
		return plan{}, nil, err
	}
	c, err := config.Parse(name, data)
	if err != nil {
		return plan{}, nil, err
	}
	here, err := filepath.Abs(filepath.Dir(name))
	if err != nil {
		return plan{}, nil, err
	}
	p := plan{guests: c.Guests, limits: c.Limits, each: c.GuestLimits}
	for _, m := range c.Mounts {
		u, err := virtualfs.ParseURL(m.URL)
		if err == nil {
			err = checkForm(u)
		}
		if err != nil {
			return plan{}, nil, vfs.Errorf(vfs.Invalid, "%s: %s", m.Where, message(err))
		}
		absolute(u, here)
		p.mounts = append(p.mounts, planned{m.Path, u, m.Where, virtualfs.Attenuation{
			ReadOnly: m.ReadOnly, NoLinks: m.Links == config.LinksRefuse, Deny: m.Deny, Ask: m.Ask,
			Bytes: int64(m.Quota.Bytes), Nodes: m.Quota.Nodes,
		}})
	}
	for _, l := range c.Listen {
		var a tlsAddress
		if err := a.UnmarshalText([]byte(l)); err != nil {
			return plan{}, nil, vfs.Errorf(vfs.Invalid, "%s: listen: %v", name, err)
		}
		p.listen = append(p.listen, a)
	}
	if c.State != "" && !filepath.IsAbs(c.State) {
		c.State = filepath.Join(here, c.State)
	}
	if c.SocketDir != "" && !filepath.IsAbs(c.SocketDir) {
		c.SocketDir = filepath.Join(here, c.SocketDir)
	}
	return p, c, nil
}

// maxConfig is how long a configuration file may be, in bytes.
const maxConfig = 1 << 20

func readConfig(name string) ([]byte, error) {
	fi, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, vfs.Errorf(vfs.NotFound, "the configuration %s cannot be read: %v", vfs.Printable(name), reason(err))
	case !fi.Mode().IsRegular():
		return nil, vfs.Errorf(vfs.NotRegular, "the configuration %s is not a file", vfs.Printable(name))
	case fi.Size() > maxConfig:
		return nil, vfs.Errorf(vfs.TooLarge, "the configuration %s is longer than %s", vfs.Printable(name), bytesText(maxConfig))
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, vfs.Errorf(vfs.Denied, "the configuration %s cannot be read: %v", vfs.Printable(name), reason(err))
	}
	return data, nil
}

// mount mounts what is planned. What a repository does not have is left out, with a
// note, where nobody asked for it by name.
func (p *plan) mount(ctx context.Context, fs *virtualfs.FS, asked bool) error {
	for i := 0; i < len(p.mounts); i++ {
		m := p.mounts[i]
		err := fs.Mount(ctx, m.path, m.url.String(), m.attenuation)
		if err != nil && !asked && m.path == headAt {
			p.notes = append(p.notes, headAt+"/ is not served: "+message(err))
			p.mounts = append(p.mounts[:i], p.mounts[i+1:]...)
			i--
			continue
		}
		if err != nil {
			return m.said(err)
		}
	}
	return nil
}

// said says where what is wrong was written.
func (m *planned) said(err error) error {
	if m.where == "" {
		return err
	}
	return vfs.Errorf(vfs.CodeOf(err), "%s: %s", m.where, message(err))
}

// message is what an error says, without its code and path.
func message(err error) string {
	if e, ok := errors.AsType[*vfs.Error](err); ok && e.Msg != "" {
		return e.Msg
	}
	return err.Error()
}

// grant gives every planned guest its grant.
func (p *plan) grant(ctx context.Context, a *authority.Host) ([]granted, error) {
	var all []granted
	for _, g := range p.guests {
		_, secret, err := a.GrantOn(ctx, g.Name, g.Path, authority.Terms{ReadOnly: g.ReadOnly, Limits: g.Limits})
		if err != nil && g.Where != "" {
			return nil, vfs.Errorf(vfs.CodeOf(err), "%s: a grant of %q: %s", g.Where, g.Path, message(err))
		}
		if err != nil {
			return nil, err
		}
		all = append(all, granted{g.Name, secret})
	}
	return all, nil
}

// granted is a guest and the secret of its grant.
type granted struct {
	name   string
	secret [32]byte
}
