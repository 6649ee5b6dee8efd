package server

import (
	"cmp"
	"os"
	"path/filepath"

	"capd/config"
	"capd/state"
	"capd/vfs"
	"capd/virtualfs"
)

// Load reads a configuration file, which docs/configuration.md describes. It returns the guests in the file,
// for [Server.Reconcile]. It sets Mounts, Roots, Policy, Invitations, Hooks, ApprovalsWait, the limits and how long the record is kept. Other fields of s are set only if they are still zero.
// Host paths in the file are relative to the file's directory. Load opens no store. Its errors name the line
// of what is wrong. It answers exists after Start.
func (s *Server) Load(name string) ([]Guest, error) {
	if s.phase() != fresh {
		return nil, vfs.Errorf(vfs.Exists, "this server was started already; load the configuration before Start")
	}
	data, err := readConfig(name)
	if err != nil {
		return nil, err
	}
	c, err := config.Parse(name, data)
	if err != nil {
		return nil, err
	}
	here, err := filepath.Abs(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	s.Limits, s.GuestLimits = c.Limits, c.GuestLimits
	s.Unrecorded, s.Retention = s.Unrecorded || c.Record.Off, Retention{Keep: c.Record.Keep, Size: int64(c.Record.Size)}
	s.Telemetry = c.Record.OTLP
	s.History = HistoryBounds{Bytes: int64(c.History.Bytes), Changes: c.History.Changes, Age: c.History.Keep, All: int64(c.History.Total)}
	if s.Mounts, err = s.mountsOf(c, here); err != nil {
		return nil, err
	}
	s.Roots, s.Policy, s.Hooks = rootsOf(c), rulesOf(c), c.Hooks
	s.ApprovalsWait = c.Approvals == config.ApprovalsWait
	if err := s.checkPolicy(); err != nil {
		return nil, err
	}
	if err := cmp.Or(s.loadListen(name, c), s.loadSocket(name, c, here)); err != nil {
		return nil, err
	}
	s.State = cmp.Or(s.State, from(here, c.State))
	for i := range c.Guests {
		c.Guests[i].LocatorFile = from(here, c.Guests[i].LocatorFile)
	}
	for i := range c.Invites {
		c.Invites[i].LocatorFile = from(here, c.Invites[i].LocatorFile)
	}
	s.Invitations = c.Invites
	return c.Guests, nil
}

// from returns a host path that may be relative to here. "" stays "".
func from(here, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(here, path)
}

// mountsOf returns the mounts of a configuration that is in the directory here.
func (s *Server) mountsOf(c *config.Config, here string) (all []Mount, err error) {
	for _, m := range c.Mounts {
		u, err := virtualfs.ParseURL(m.URL)
		if err == nil {
			err = s.checkForm(u)
		}
		if err != nil {
			return nil, vfs.Errorf(vfs.Invalid, "%s: %s", m.Where, vfs.Message(err))
		}
		absolute(u, here)
		all = append(all, Mount{Path: m.Path, URL: u.String(), Where: m.Where, Attenuation: Attenuation{
			ReadOnly: m.ReadOnly, NoLinks: m.Links == config.LinksRefuse, Deny: m.Deny, Ask: m.Ask,
			Bytes: int64(m.Quota.Bytes), Nodes: m.Quota.Nodes,
		}})
	}
	return all, nil
}

// loadListen sets where guests come over TLS.
func (s *Server) loadListen(name string, c *config.Config) error {
	var listen []Address
	for _, l := range c.Listen {
		var a Address
		if err := a.UnmarshalText([]byte(l)); err != nil {
			return vfs.Errorf(vfs.Invalid, "%s: listen: %v", name, err)
		}
		listen = append(listen, a)
	}
	if len(s.Listen) == 0 {
		s.Listen = listen
	}
	if s.Advertise != "" || c.Advertise == "" {
		return nil
	}
	if err := s.Advertise.UnmarshalText([]byte(c.Advertise)); err != nil {
		return vfs.Errorf(vfs.Invalid, "%s: advertise: %v", name, err)
	}
	return nil
}

// loadSocket sets who may connect to the Unix socket.
func (s *Server) loadSocket(name string, c *config.Config, here string) error {
	s.Socket.Group = cmp.Or(s.Socket.Group, c.SocketGroup)
	s.Socket.Dir = cmp.Or(s.Socket.Dir, from(here, c.SocketDir))
	if s.Socket.Mode != 0 || c.SocketMode == "" {
		return nil
	}
	if err := s.Socket.Mode.UnmarshalText([]byte(c.SocketMode)); err != nil {
		return vfs.Errorf(vfs.Invalid, "%s: socketMode: %v", name, err)
	}
	return nil
}

func readConfig(name string) ([]byte, error) {
	fi, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, vfs.Errorf(vfs.NotFound, "the configuration %s cannot be read: %v", vfs.Printable(name), state.Reason(err))
	case !fi.Mode().IsRegular():
		return nil, vfs.Errorf(vfs.NotRegular, "the configuration %s is not a file", vfs.Printable(name))
	case fi.Size() > config.MaxFile:
		return nil, vfs.Errorf(vfs.TooLarge, "the configuration %s is longer than %s", vfs.Printable(name), config.Size(config.MaxFile))
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, vfs.Errorf(vfs.Denied, "the configuration %s cannot be read: %v", vfs.Printable(name), state.Reason(err))
	}
	return data, nil
}
