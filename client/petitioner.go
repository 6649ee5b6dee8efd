package client

import (
	"context"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
)

// Petitioner asks the people at the host for what its holder has no locator of. Get one with [Conn.Petitioner], on a
// connection by the locator of an invitation. It is safe for concurrent use.
type Petitioner struct{ ref }

// Offer is a root that can be asked for.
type Offer struct {
	ID      string   `json:"id"`
	Kind    string   `json:"kind"` // what it is for: workspace, artifact, knowledge, …
	Name    string   `json:"name,omitempty"`
	Labels  []string `json:"labels,omitempty"`
	Rights  Rights   `json:"rights"`  // the most that can be asked for
	Granted Rights   `json:"granted"` // of these, what is given without asking anybody
}

// Petitioner returns what the locator of an invitation stands for. It does not wait: any error shows at the first use.
func (c *Conn) Petitioner(ctx context.Context) *Petitioner {
	return &Petitioner{ref{cap: promised(ctx, c.session, schema.Session_restorePetitioner, func(p schema.Session_restorePetitioner_Params, _ *vat.Caps) error {
		return p.SetSecret(c.loc.Secret[:])
	}, schema.Session_restorePetitioner_Results_petitioner)}}
}

// Roots returns what can be asked for.
func (p *Petitioner) Roots(ctx context.Context) ([]Offer, error) {
	return ask(ctx, &p.ref, schema.Petitioner_roots, nil, func(r schema.Petitioner_roots_Results, _ *vat.Caps) ([]Offer, error) {
		return wire.All(func(w schema.Offer) (Offer, error) {
			o, err := wire.Offer(w)
			return Offer(o), err
		})(r.Roots())
	})
}

// RequestDir asks for a directory: root is the id of a root, or ID/PATH for what is in it. reason, at most 1024 bytes,
// is for whoever decides. RequestDir does not wait. Calls on the directory that it returns wait until somebody has
// decided. They fail with denied after a no, with askDenied if nobody is there to decide, and with askTimeout after 120 s.
// The request outlives the call, so ask again after that. The directory may have fewer rights than were asked for;
// [Dir.Rights] says which. It ends with its connection; [Conn.Share] makes a locator. Closing it ends the
// call, but not the request.
func (p *Petitioner) RequestDir(ctx context.Context, root string, access Rights, reason string) *Dir {
	if err := p.open(); err != nil {
		return newDir(broken(err))
	}
	return newDir(promised(ctx, p.cap, schema.Petitioner_requestDir, func(q schema.Petitioner_requestDir_Params, _ *vat.Caps) error {
		return setWish(q, root, access, reason)
	}, schema.Petitioner_requestDir_Results_dir))
}

// RequestFile is [Petitioner.RequestDir] for a file: root is ID/PATH.
func (p *Petitioner) RequestFile(ctx context.Context, root string, access Rights, reason string) *File {
	if err := p.open(); err != nil {
		return newFile(broken(err))
	}
	return newFile(promised(ctx, p.cap, schema.Petitioner_requestFile, func(q schema.Petitioner_requestFile_Params, _ *vat.Caps) error {
		return setWish(q, root, access, reason)
	}, schema.Petitioner_requestFile_Results_file))
}

// setWish writes the parameters of a request.
func setWish(q interface {
	SetRoot(string) error
	SetReason(string) error
	NewAccess(int32) (schema.Right_List, error)
}, root string, access Rights, reason string) error {
	if err := wire.SetRights(access, q.NewAccess); err != nil {
		return err
	}
	if err := q.SetRoot(root); err != nil {
		return err
	}
	return q.SetReason(reason)
}

// Help returns the host's description of a Petitioner, or of one of its methods.
func (p *Petitioner) Help(ctx context.Context, method string) (string, error) {
	return wire.AskHelp(ctx, p.cap, schema.Petitioner_help, method)
}
