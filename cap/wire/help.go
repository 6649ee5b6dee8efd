package wire

import (
	"context"
	"strings"

	"capnproto.org/go/capnp/v3"

	"capd/vat"
	"capd/vfs"
)

// Help serves the method help of an interface. text has the text about an interface, or
// about one of its methods.
func Help[P interface {
	~capnp.StructKind
	MethodBytes() ([]byte, error)
}, R interface {
	~capnp.StructKind
	SetText(string) error
}](help vat.Method[P, R], text func(iface, method string) (string, error)) vat.Handler {
	iface, _, _ := strings.Cut(help.Name, ".")
	return vat.Handle(help, func(_ any, c vat.Call[P, R]) error {
		method, err := Path(c.Params().MethodBytes())
		if err != nil {
			return err
		}
		t, err := text(iface, method)
		if err != nil {
			return vfs.At(method, err)
		}
		return c.Results().SetText(t)
	})
}

// AskHelp calls the method help of an interface, which [Help] serves.
func AskHelp[P interface {
	~capnp.StructKind
	SetMethod(string) error
}, R interface {
	~capnp.StructKind
	Text() (string, error)
}](ctx context.Context, c *vat.Cap, help vat.Method[P, R], method string) (string, error) {
	return Ask(ctx, c, help,
		func(p P, _ *vat.Caps) error { return p.SetMethod(method) },
		func(r R, _ *vat.Caps) (string, error) { return r.Text() })
}
