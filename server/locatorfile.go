package server

import (
	"context"
	"os"
	"strings"

	"capd/authority"
	"capd/locator"
	"capd/state"
	"capd/vfs"
)

// keepLocator writes the locator of a grant to file, unless it is there.
func (s *Server) keepLocator(ctx context.Context, file string, given authority.Standing) error {
	secret, there := given.Secret, readLocator(file)
	if secret == nil && there != nil && s.authority.Opens(ctx, given.ID, there.Secret[:]) {
		secret = &there.Secret
	}
	if secret == nil {
		made, err := s.authority.Renew(ctx, given.ID)
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
