package dir

import (
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/change"
	"capd/vfs/membrane"
	"capd/vfs/step"
)

func (s *server) change(c vat.Call[schema.Dir_change_Params, schema.Dir_change_Results]) error {
	p := c.Params()
	steps, err := stepsOf(p)
	if err != nil {
		return err
	}
	if _, err := change.Do(c.Context(), s.dir, steps, change.Options{DryRun: p.DryRun()}); err != nil {
		return wire.Named(err)
	}
	versions, err := c.Results().NewVersions(int32(len(steps))) //nolint:gosec // at most MaxSteps
	for i := range steps {
		if v := steps[i].Left; err == nil && !v.IsZero() {
			err = versions.Set(i, v[:])
		}
	}
	return err
}

// stepsOf reads the steps of a change.
func stepsOf(p schema.Dir_change_Params) ([]step.Step, error) {
	list, err := wire.Sound[schema.Step_List](p.HasSteps())(p.Steps())
	if err != nil {
		return nil, err
	}
	if list.Len() > step.Max {
		return nil, vfs.Errorf(vfs.Limit, "a change has at most %d steps; make several", step.Max)
	}
	return wire.All(wire.Step)(list, nil)
}

// needsOf returns what a change needs: what each of its steps needs. Steps that cannot be read need nothing.
func needsOf(p schema.Dir_change_Params) membrane.Need {
	steps, err := stepsOf(p)
	if err != nil {
		return 0
	}
	return change.Needs(steps)
}
