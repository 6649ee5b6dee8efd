//go:build linux

package tests

import (
	"fmt"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs/membrane"
)

// Questions about the rights of a Dir and a File.

func (a *asker) narrowDir(d dirCap, keep membrane.Rights) dirCap {
	a.Helper()
	how := fmt.Sprintf("%s.narrow %v", d.how, keep)
	return dirCap{open(a, d.Cap, how, schema.Dir_narrow, func(p schema.Dir_narrow_Params, _ *vat.Caps) error {
		return wire.SetRights(keep, p.NewKeep)
	}, at(schema.Dir_narrow_Results_dir))[0], how}
}

func (a *asker) narrowFile(f fileCap, keep membrane.Rights) fileCap {
	a.Helper()
	how := fmt.Sprintf("%s.narrow %v", f.how, keep)
	return fileCap{open(a, f.Cap, how, schema.File_narrow, func(p schema.File_narrow_Params, _ *vat.Caps) error {
		return wire.SetRights(keep, p.NewKeep)
	}, at(schema.File_narrow_Results_file))[0], how}
}

func (a *asker) dirRights(d dirCap) {
	a.Helper()
	ask(a, d.Cap, d.how+".rights", schema.Dir_rights, nil, func(r schema.Dir_rights_Results, _ *vat.Caps) (string, error) {
		has, err := wire.Rights(r.Rights())
		return has.String(), err
	})
}

func (a *asker) fileRights(f fileCap) {
	a.Helper()
	ask(a, f.Cap, f.how+".rights", schema.File_rights, nil, func(r schema.File_rights_Results, _ *vat.Caps) (string, error) {
		has, err := wire.Rights(r.Rights())
		return has.String(), err
	})
}
