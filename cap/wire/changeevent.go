package wire

import (
	"errors"
	"slices"

	schema "capd/capnp"
	"capd/vfs"
)

// eventKinds are the kinds of events on the wire, in the order of vfs.
var eventKinds = []schema.ChangeEvent_Kind{schema.ChangeEvent_Kind_created, schema.ChangeEvent_Kind_changed, schema.ChangeEvent_Kind_removed, schema.ChangeEvent_Kind_moved}

// SetChangeEvent writes e.
func SetChangeEvent(w schema.ChangeEvent, e vfs.Event) error {
	w.SetKind(eventKinds[e.Kind])
	w.SetOwn(e.Own)
	w.SetAtMs(e.AtMs)
	return errors.Join(setPath(e.Path, w.SetPath, w.SetRawPath), setPath(e.From, w.SetWas, w.SetRawWas), w.SetBy(e.By))
}

// ChangeEvent reads what SetChangeEvent wrote. It answers corrupt for a kind that it does not know.
func ChangeEvent(w schema.ChangeEvent) (e vfs.Event, err error) {
	kind := slices.Index(eventKinds, w.Kind())
	if kind < 0 {
		return e, vfs.Errorf(vfs.Corrupt, "the host answered an event of an unknown kind")
	}
	e = vfs.Event{Kind: vfs.EventKind(kind), Own: w.Own(), AtMs: w.AtMs()}
	e.Path = Keep[string](&err)(pathAt(w.Path, w.RawPath))
	e.From = Keep[string](&err)(pathAt(w.Was, w.RawWas))
	e.By = Keep[string](&err)(w.By())
	return e, err
}
