package server

import (
	"context"
	"os"
	"strings"

	"capd/authority"
	"capd/locator"
	"capd/state"
	"capd/vfs"
	"capd/virtualfs"
)

// keepGrant writes the locator of a grant to file, unless it is there.
func (s *Server) keepGrant(ctx context.Context, file string, given authority.Standing) error {
	return s.keepLocator(file, given.Secret, func(secret []byte) bool { return s.authority.Opens(ctx, given.ID, secret) },
		func() ([locator.SecretSize]byte, error) { return s.authority.Renew(ctx, given.ID) })
}

// keepLocator writes a locator to file, unless it is there. Its secret is the one that was just made, or nil; or otherwise the one
// in file if that opens; or a new one.
func (s *Server) keepLocator(file string, secret *[locator.SecretSize]byte, opens func(secret []byte) bool, renew func() ([locator.SecretSize]byte, error)) error {
	there := readLocator(file)
	if secret == nil && there != nil && opens(there.Secret[:]) {
		secret = &there.Secret
	}
	if secret == nil {
		made, err := renew()
		if err != nil {
			return err
		}
		secret = &made
	}
	text := s.locate(*secret)
	if there != nil && there.String() == text {
		return nil
	}
	if err := state.WriteFile(file, []byte(text+"\n")); err != nil {
		return vfs.Errorf(vfs.Denied, "the locator cannot be written to %s: %v", vfs.Printable(file), state.Reason(err))
	}
	return nil
}

// locatorFiles returns the files that the locators of guests and invitations are written to.
func locatorFiles(guests []Guest, invites []Invitation) (all []private) {
	for _, g := range guests {
		if g.LocatorFile != "" {
			all = append(all, private{dir: g.LocatorFile, what: "the locator of " + g.Name + " in", field: "locatorFile"})
		}
	}
	for _, i := range invites {
		all = append(all, private{dir: i.LocatorFile, what: "the invitation of " + i.Subject + " in", field: "locatorFile"})
	}
	return all
}

// hidden returns what no mount may show.
func (s *Server) hidden() []private {
	all := s.privates(s.state)
	if files := s.locators.Load(); files != nil {
		all = append(all, *files...)
	}
	return all
}

// unserved answers invalid if a directory is mounted that shows one of files to guests.
func (s *Server) unserved(files []private) error {
	if len(files) == 0 {
		return nil
	}
	for _, m := range s.fs.Mounts() {
		u, err := virtualfs.ParseURL(m.URL)
		if err != nil {
			return err
		}
		if u.Below != nil {
			u = u.Below
		}
		if u.Scheme != "physical" {
			continue
		}
		if err := canServe(files, u.Path); err != nil {
			return err
		}
	}
	return nil
}

// maxLocatorFile is far larger than any locator.
const maxLocatorFile = 64 << 10

// readLocator returns the locator in file, or nil if there is none that only this user can read.
func readLocator(file string) *locator.Locator {
	fi, err := os.Lstat(file)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxLocatorFile || !state.Secret(fi) {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	l, err := locator.Parse(strings.TrimSpace(string(text)))
	if err != nil {
		return nil
	}
	return &l
}
