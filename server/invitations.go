package server

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"capd/authority"
	"capd/locator"
	"capd/operator"
	"capd/vfs"
)

// checkInvitations answers invalid for Invitations that cannot be made.
func (s *Server) checkInvitations() error {
	seen := map[operator.Subject]bool{}
	for _, i := range s.Invitations {
		subject, err := operator.ParseSubject(i.Subject)
		if err == nil {
			err = termsOf(i).Check()
		}
		switch {
		case err != nil:
		case i.LocatorFile == "":
			err = vfs.Errorf(vfs.Invalid, "LocatorFile is empty; name the file that its locator is written to")
		case seen[subject]:
			err = vfs.Errorf(vfs.Invalid, "there is another for the same subject; write one")
		}
		if err != nil {
			return s.uninvited(i, err)
		}
		seen[subject] = true
	}
	return nil
}

func termsOf(i Invitation) InviteTerms {
	return InviteTerms{Permissions: i.Permissions, Source: i.Source, Expires: i.Expires}
}

// wantedInvites returns all for the authority. It answers invalid if guests would see the locator of one. With again, one that was there
// before is not made again if it has ended. Needs s.reloading.
func (s *Server) wantedInvites(all []Invitation, again bool) (wanted []authority.WantedInvite, err error) {
	for _, i := range all {
		if err := s.unserved(locatorFiles(nil, []Invitation{i})); err != nil {
			return nil, s.uninvited(i, &authority.Unwanted{Err: err})
		}
		subject, err := operator.ParseSubject(i.Subject)
		if err != nil {
			return nil, s.uninvited(i, &authority.Unwanted{Err: err})
		}
		wanted = append(wanted, authority.WantedInvite{Subject: subject, Terms: termsOf(i), Again: again && s.laid.invited(i)})
	}
	return wanted, nil
}

// invited reports whether i is one of the invitations as it is.
func (l *layout) invited(i Invitation) bool {
	return slices.ContainsFunc(l.invites, func(o Invitation) bool {
		o.Where = i.Where
		return reflect.DeepEqual(o, i)
	})
}

// reconcileInvites makes the invitations all, which the authority gets as wanted, and writes their locators. Needs s.reloading.
func (s *Server) reconcileInvites(ctx context.Context, all []Invitation, wanted []authority.WantedInvite) error {
	standing, err := s.authority.ReconcileInvites(ctx, wanted)
	if err != nil {
		return s.noted("the invitations", err)
	}
	s.laid.invites = all
	for k, i := range standing {
		if i.State != operator.Active {
			continue
		}
		err := s.keepLocator(all[k].LocatorFile, i.Secret, func(secret []byte) bool { return s.authority.OpensInvite(ctx, i.ID, secret) },
			func() ([locator.SecretSize]byte, error) { return s.authority.RenewInvite(i.ID) })
		if err != nil {
			return s.uninvited(all[k], err)
		}
	}
	return nil
}

// uninvited returns the error of an invitation, with where it is written.
func (s *Server) uninvited(i Invitation, err error) error {
	err = s.noted("an invitation", err)
	msg := fmt.Sprintf("the invitation of %q: %s", i.Subject, vfs.Message(err))
	if i.Where != "" {
		msg = i.Where + ": " + msg
	}
	return &vfs.Error{Code: vfs.CodeOf(err), Msg: msg, Cause: err}
}
