package wire

import (
	"errors"

	schema "capd/capnp"
	"capd/operator"
)

// SetRoot writes r.
func SetRoot(w schema.Root, r operator.Root) error {
	return errors.Join(w.SetId(r.ID), w.SetKind(r.Kind), w.SetPath(r.Path), w.SetName(r.Name), w.SetAccess(r.Access), w.SetScope(r.Scope), SetTexts(r.Labels, w.NewLabels))
}

// Root reads what SetRoot wrote.
func Root(w schema.Root) (r operator.Root, err error) {
	text := Keep[string](&err)
	r = operator.Root{ID: text(w.Id()), Kind: text(w.Kind()), Path: text(w.Path()), Name: text(w.Name()), Access: text(w.Access()), Scope: text(w.Scope())}
	if labels, listed := Texts(w.Labels()); listed == nil {
		r.Labels = labels
	} else {
		err = errors.Join(err, listed)
	}
	return r, err
}
