package client

import (
	"context"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs/membrane"
)

// Rights is a set of what a Dir or a File may do. Each right is one bit.
type Rights = membrane.Rights

// The rights. docs/semantics.md says what needs which.
const (
	Read     = membrane.Read     // content and versions
	Write    = membrane.Write    // create, put, change in place
	Delete   = membrane.Delete   // remove
	List     = membrane.List     // list and glob
	Move     = membrane.Move     // move, with Read at the source and Write at the target
	Archive  = membrane.Archive  // archive, with List, Read and Metadata
	Watch    = membrane.Watch    // be told of changes
	Metadata = membrane.Metadata // sizes, times, where a link leads
	Link     = membrane.Link     // make links, with Write

	AllRights  = membrane.AllRights  // what a grant has if nobody says otherwise: all but Link
	EveryRight = membrane.EveryRight // AllRights and Link
)

// Narrow returns the same directory with those of its rights that are in keep, for it and
// everything below. Rights that a later version of capd may invent are dropped too.
func (d *Dir) Narrow(keep Rights) *Dir {
	return newDir(derived(d.open(), d.cap, schema.Dir_narrow, func(p schema.Dir_narrow_Params, _ *vat.Caps) error {
		return wire.SetRights(keep, p.NewKeep)
	}, schema.Dir_narrow_Results_dir))
}

// Rights returns the rights that d has now, less what the host has locked. What a rule, a
// mount or the store refuses besides is not looked at.
func (d *Dir) Rights(ctx context.Context) (Rights, error) {
	return ask(ctx, &d.ref, schema.Dir_rights, nil, func(r schema.Dir_rights_Results, _ *vat.Caps) (Rights, error) {
		return wire.Rights(r.Rights())
	})
}

// Narrow is [Dir.Narrow] for a file.
func (f *File) Narrow(keep Rights) *File {
	return newFile(derived(f.open(), f.cap, schema.File_narrow, func(p schema.File_narrow_Params, _ *vat.Caps) error {
		return wire.SetRights(keep, p.NewKeep)
	}, schema.File_narrow_Results_file))
}

// Rights is [Dir.Rights] for a file.
func (f *File) Rights(ctx context.Context) (Rights, error) {
	return ask(ctx, &f.ref, schema.File_rights, nil, func(r schema.File_rights_Results, _ *vat.Caps) (Rights, error) {
		return wire.Rights(r.Rights())
	})
}
