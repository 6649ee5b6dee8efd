package wire

import (
	"errors"
	"maps"
	"slices"

	schema "capd/capnp"
	"capd/meter"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

var modes = map[operator.Mode]schema.Grant_Mode{
	operator.ReadWrite: schema.Grant_Mode_readWrite, operator.ReadOnly: schema.Grant_Mode_readOnly,
}

var states = map[operator.State]schema.Grant_State{
	operator.Active: schema.Grant_State_active, operator.Locked: schema.Grant_State_locked,
	operator.Revoked: schema.Grant_State_revoked, operator.Expired: schema.Grant_State_expired,
}

// SetGrant writes g.
func SetGrant(w schema.Grant, g operator.Grant) error {
	w.SetMode(modes[g.Mode])
	w.SetState(states[g.State])
	w.SetExpiresMs(g.ExpiresMs)
	w.SetUnusedMs(g.UnusedMs)
	w.SetUsesLeft(g.UsesLeft)
	return errors.Join(SetRights(g.Rights, w.NewRights), w.SetGuest(g.Guest), w.SetSubject(string(g.Subject)), w.SetId(g.ID), w.SetPath(g.Path), w.SetParent(g.Parent), w.SetRoot(g.Root), w.SetSource(g.Source))
}

// Grant reads what SetGrant wrote. A mode or a state that this program does not know is
// "".
func Grant(w schema.Grant) (g operator.Grant, err error) {
	text := Keep[string](&err)
	g = operator.Grant{Guest: text(w.Guest()), ID: text(w.Id()), Path: text(w.Path()), Parent: text(w.Parent()), Root: text(w.Root()), Source: text(w.Source())}
	g.Subject = operator.Subject(text(w.Subject()))
	g.Mode, _ = keyOf(modes, w.Mode())
	g.State, _ = keyOf(states, w.State())
	g.ExpiresMs, g.UnusedMs, g.UsesLeft = w.ExpiresMs(), w.UnusedMs(), w.UsesLeft()
	g.Rights = Keep[membrane.Rights](&err)(Rights(w.Rights()))
	return g, err
}

// keyOf returns the key of a value in a map, or false if there is none.
func keyOf[K, V comparable](m map[K]V, v V) (key K, there bool) {
	for k, have := range m {
		if have == v {
			return k, true
		}
	}
	return key, false
}

// kindNamed returns the kind of the same name.
func kindNamed(k meter.Kind) schema.Limit_Kind { return schema.Limit_KindFromString(k.String()) }

// SetLimits writes l. It calls make only if there are limits.
func SetLimits(l meter.Limits, make func(int32) (schema.Limit_List, error)) error {
	if len(l) == 0 {
		return nil
	}
	return SetAll(slices.Sorted(maps.Keys(l)), make, func(w schema.Limit, k meter.Kind) error {
		w.SetKind(kindNamed(k))
		w.SetMost(l[k])
		return nil
	})
}

// Limits reads what SetLimits wrote. It answers invalid for an unknown kind, for a kind
// that is there twice, and for a number that cannot be a limit.
func Limits(w schema.Limit_List, err error) (meter.Limits, error) {
	if err != nil {
		return nil, err
	}
	l := meter.Limits{}
	for i := range w.Len() {
		k, known := meter.KindOf(w.At(i).Kind().String())
		most := w.At(i).Most()
		_, twice := l[k]
		switch {
		case !known:
			return nil, vfs.Errorf(vfs.Invalid, "this host knows no kind of limit with the number %d; leave it out", w.At(i).Kind())
		case twice:
			return nil, vfs.Errorf(vfs.Invalid, "the limit of %s is there twice; give one", k)
		case most < 1 && most != meter.NoLimit:
			return nil, vfs.Errorf(vfs.Invalid, "the limit of %s is %d; give a number from 1, or -1 for no limit", k, most)
		}
		l[k] = most
	}
	return l, nil
}
