package wire

import (
	"errors"

	"capnproto.org/go/capnp/v3"

	schema "capd/capnp"
	"capd/operator"
	"capd/vfs/membrane"
)

// SetOffer writes o.
func SetOffer(w schema.Offer, o operator.Offer) error {
	return errors.Join(w.SetId(o.ID), w.SetKind(o.Kind), w.SetName(o.Name), SetTexts(o.Labels, w.NewLabels),
		SetRights(o.Rights, w.NewRights), SetRights(o.Granted, w.NewGranted))
}

// Offer reads what SetOffer wrote.
func Offer(w schema.Offer) (o operator.Offer, err error) {
	text, rights := Keep[string](&err), Keep[membrane.Rights](&err)
	o = operator.Offer{ID: text(w.Id()), Kind: text(w.Kind()), Name: text(w.Name()), Labels: Keep[[]string](&err)(Texts(w.Labels())),
		Rights: rights(Rights(w.Rights())), Granted: rights(Rights(w.Granted()))}
	return o, err
}

// SetInvite writes i.
func SetInvite(w schema.Invite, i operator.Invite) error {
	w.SetMadeMs(i.MadeMs)
	w.SetExpiresMs(i.ExpiresMs)
	w.SetState(states[i.State])
	return errors.Join(w.SetId(i.ID), w.SetSubject(string(i.Subject)), w.SetSource(i.Source), w.SetMadeBy(i.MadeBy), SetPermissions(i.Permissions, w.NewPermissions))
}

// Invite reads what SetInvite wrote. A state that this program does not know is "".
func Invite(w schema.Invite) (i operator.Invite, err error) {
	text := Keep[string](&err)
	i = operator.Invite{ID: text(w.Id()), Subject: operator.Subject(text(w.Subject())), Source: text(w.Source()), MadeBy: text(w.MadeBy()), MadeMs: w.MadeMs(), ExpiresMs: w.ExpiresMs(),
		Permissions: Keep[[]operator.Permission](&err)(Permissions(Texts(w.Permissions())))}
	i.State, _ = keyOf(states, w.State())
	return i, err
}

// SetPermissions writes a list of permissions, which it allocates with make.
func SetPermissions(all []operator.Permission, make func(int32) (capnp.TextList, error)) error {
	var texts []string
	for _, p := range all {
		texts = append(texts, p.String())
	}
	return SetTexts(texts, make)
}

// Permissions reads the texts that SetPermissions wrote. It answers invalid for one that is no permission.
func Permissions(texts []string, err error) (all []operator.Permission, _ error) {
	all = make([]operator.Permission, 0, len(texts)) // never nil, for JSON
	for _, text := range texts {
		p, wrong := operator.ParsePermission(text)
		if wrong != nil {
			return nil, wrong
		}
		all = append(all, p)
	}
	return all, err
}
