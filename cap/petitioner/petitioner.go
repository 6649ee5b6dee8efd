// Package petitioner serves the interface Petitioner, with which a subject asks for what it does not hold. It only
// translates.
package petitioner

import (
	"context"

	"capd/cap/dir"
	"capd/cap/file"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/help"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Petitions answers what one connection asks for.
type Petitions interface {
	// Roots returns what can be asked for.
	Roots() ([]operator.Offer, error)
	// Request returns what w asks for, once somebody has said yes.
	Request(ctx context.Context, w operator.Wish) (vfs.Node, error)
	// Release is called when nobody holds the Petitioner any more.
	Release()
}

// New returns a Petitioner. It takes over p.
func New(p Petitions) *vat.Cap { return vat.Serve(table, &server{p}) }

type server struct{ Petitions }

var table = vat.NewTable(
	vat.Handle(schema.Petitioner_roots, (*server).roots),
	vat.Handle(schema.Petitioner_requestDir, (*server).requestDir),
	vat.Handle(schema.Petitioner_requestFile, (*server).requestFile),
	wire.Help(schema.Petitioner_help, help.Text),
)

func (s *server) roots(c vat.Call[schema.Petitioner_roots_Params, schema.Petitioner_roots_Results]) error {
	all, err := s.Roots()
	if err != nil {
		return vfs.At("", err)
	}
	return wire.SetAll(all, c.Results().NewRoots, wire.SetOffer)
}

// wished is the parameters of a request.
type wished interface {
	RootBytes() ([]byte, error)
	ReasonBytes() ([]byte, error)
	HasAccess() bool
	Access() (schema.Right_List, error)
}

// wish reads what is asked for.
func wish(p wished) (w operator.Wish, err error) {
	w.Root = wire.Keep[string](&err)(wire.Path(p.RootBytes()))
	w.Rights = wire.Keep[membrane.Rights](&err)(wire.Rights(wire.Sound[schema.Right_List](p.HasAccess())(p.Access())))
	reason := wire.Keep[[]byte](&err)(wire.Param(p.ReasonBytes()))
	if err == nil && len(reason) > operator.MaxReason {
		err = vfs.Errorf(vfs.TooLarge, "a reason has at most %d bytes", operator.MaxReason)
	}
	w.Reason = string(reason[:min(len(reason), operator.MaxReason)])
	return w, err
}

// request returns what a call asks for, as part makes of it.
func request[N vfs.Node](ctx context.Context, s *server, p wished, file bool, part func(vfs.Node) (N, error)) (n N, err error) {
	w, err := wish(p)
	if err != nil {
		return n, vfs.At("", err)
	}
	w.File = file
	node, err := s.Request(ctx, w)
	if err != nil {
		return n, vfs.At(w.Root, err) // in place of a path in the host's tree
	}
	n, err = part(node)
	return n, vfs.At(w.Root, err)
}

func (s *server) requestDir(c vat.Call[schema.Petitioner_requestDir_Params, schema.Petitioner_requestDir_Results]) error {
	d, err := request(c.Context(), s, c.Params(), false, vfs.AsDir)
	if err != nil {
		return err
	}
	return c.Results().SetDir(c.Caps().Put(dir.New(d)))
}

func (s *server) requestFile(c vat.Call[schema.Petitioner_requestFile_Params, schema.Petitioner_requestFile_Results]) error {
	f, err := request(c.Context(), s, c.Params(), true, vfs.AsFile)
	if err != nil {
		return err
	}
	return c.Results().SetFile(c.Caps().Put(file.New(f, "")))
}
