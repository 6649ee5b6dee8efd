//go:build linux

package tests

import (
	"errors"
	"fmt"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs/membrane"
	"capd/vfs/step"
)

// Questions about what was shared, and about what a guest may do.

// shares asks for the shares of a Dir, and returns their ids.
func (a *asker) shares(d dirCap) (ids []string) {
	a.Helper()
	ask(a, a.session, "session.shares "+d.how, schema.Session_shares, func(p schema.Session_shares_Params, caps *vat.Caps) error {
		ref, err := p.NewRef()
		if err != nil {
			return err
		}
		return ref.SetDir(caps.Put(d.AddRef()))
	}, func(r schema.Session_shares_Results, _ *vat.Caps) (text string, err error) {
		l, err := r.Shares()
		for i := 0; err == nil && i < l.Len(); i++ {
			s := l.At(i)
			id := wire.Keep[string](&err)(s.Id())
			path := wire.Keep[string](&err)(s.Path())
			ids = append(ids, id)
			text += fmt.Sprintf("%s of %q\n", id, path) // its rights are all where the store never changes
		}
		return fmt.Sprintf("%smore %v", text, r.More()), err
	})
	return ids
}

func (a *asker) revokeShare(d dirCap, id string) {
	a.Helper()
	ask(a, a.session, fmt.Sprintf("session.revokeShare %s %s", d.how, id), schema.Session_revokeShare, func(p schema.Session_revokeShare_Params, caps *vat.Caps) error {
		ref, err := p.NewRef()
		if err == nil {
			err = ref.SetDir(caps.Put(d.AddRef()))
		}
		if err != nil {
			return err
		}
		return p.SetId(id)
	}, func(schema.Session_revokeShare_Results, *vat.Caps) (string, error) { return "done", nil })
}

func (a *asker) patch(d dirCap, text string, reverse, dry bool) {
	a.Helper()
	how := fmt.Sprintf("%s.patch %q reversed %v, dry %v", d.how, text, reverse, dry)
	ask(a, d.Cap, how, schema.Dir_patch, func(p schema.Dir_patch_Params, _ *vat.Caps) error {
		p.SetReverse(reverse)
		p.SetDryRun(dry)
		return p.SetText([]byte(text))
	}, func(r schema.Dir_patch_Results, _ *vat.Caps) (string, error) {
		files, err := wire.All(wire.Patched)(r.Files())
		return fmt.Sprint(files), err
	})
}

func (a *asker) change(d dirCap, dry bool, all ...step.Step) {
	a.Helper()
	how := fmt.Sprintf("%s.change %+v, dry %v", d.how, all, dry)
	ask(a, d.Cap, how, schema.Dir_change, func(p schema.Dir_change_Params, _ *vat.Caps) error {
		p.SetDryRun(dry)
		return wire.SetAll(all, p.NewSteps, wire.SetStep)
	}, func(r schema.Dir_change_Results, _ *vat.Caps) (text string, err error) {
		versions, err := r.Versions()
		for i := range versions.Len() {
			v, late := wire.Version(versions.At(i))
			text, err = text+fmt.Sprint(v, " "), errors.Join(err, late)
		}
		return text, err
	})
}

func (a *asker) explain(d dirCap, right membrane.Rights, path, to string) {
	a.Helper()
	how := fmt.Sprintf("%s.explain %v %q to %q", d.how, right, path, to)
	ask(a, d.Cap, how, schema.Dir_explain, func(p schema.Dir_explain_Params, _ *vat.Caps) error {
		return errors.Join(wire.SetRight(right, p.SetRight), p.SetPath(path), p.SetTo(to))
	}, func(r schema.Dir_explain_Results, _ *vat.Caps) (string, error) {
		text := fmt.Sprintf("allowed %v, asks %v", r.Allowed(), r.Asks())
		reasons, err := wire.Texts(r.Reasons())
		if err == nil && !r.Allowed() { // the others name the rights, of which a store that never changes has all
			text += ": " + reasons[len(reasons)-1]
		}
		return text, err
	})
}
