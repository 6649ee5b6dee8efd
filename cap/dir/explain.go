package dir

import (
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

func (s *server) explain(c vat.Call[schema.Dir_explain_Params, schema.Dir_explain_Results]) error {
	p := c.Params()
	path, err := wire.Path(p.PathBytes())
	to := wire.Keep[string](&err)(wire.Path(p.ToBytes()))
	if err != nil {
		return err
	}
	x, err := membrane.Explain(c.Context(), s.dir, membrane.Question{Right: wire.RightOf(p.Right()), Path: path, To: to})
	if err != nil {
		return vfs.At(path, err)
	}
	membrane.Denied(s.dir, x.Kind, path, to, x.Err) // as the call itself would
	r := c.Results()
	r.SetAllowed(x.Err == nil)
	r.SetAsks(x.Err == nil && len(x.Asks) > 0)
	return wire.SetTexts(told(x), r.NewReasons)
}

// told is what a guest is told of an explanation: what its own capability says, up to what refuses. Of rules it hears no
// more than from the call itself, and of mounts nothing.
func told(x membrane.Explanation) (all []string) {
	for _, r := range x.Reasons {
		if r.Err != nil {
			break
		}
		if tells(r) {
			all = append(all, r.What+": "+r.Text)
		}
	}
	if x.Err != nil {
		return append(all, wire.Encode(vfs.At("", x.Err)).Reason)
	}
	return all
}

func tells(r membrane.Reason) bool {
	switch r.What {
	case membrane.AboutGate, membrane.AboutRights, membrane.AboutQuota:
		return !r.Within
	case membrane.AboutApproval:
		return true
	}
	return false
}
