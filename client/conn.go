package client

import (
	"context"
	"errors"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/locator"
	"capd/vat"
	"capd/vfs"
)

// Conn is a connection to a host. It is safe for concurrent use. Every Dir, File and
// Revoker that came over it ends with it.
type Conn struct {
	vat     *vat.Conn
	session *vat.Cap
	loc     locator.Locator
}

// Close ends the connection.
func (c *Conn) Close() error {
	c.session.Release()
	return c.vat.Close()
}

// Stats returns what the connection holds now.
func (c *Conn) Stats() vat.Stats { return c.vat.Stats() }

// Done is closed when the connection has ended; Err says why.
func (c *Conn) Done() <-chan struct{} { return c.vat.Done() }

// Err returns nil while the connection lives, and otherwise why it ended: revoked if
// the host ended it because everything it had restored was revoked, and stale if not.
// Calls fail with the same error.
func (c *Conn) Err() error {
	err := c.vat.Err()
	if err == nil {
		return nil
	}
	why := &vat.Exception{Type: vat.Disconnected}
	if abort, ok := errors.AsType[*vat.AbortError](err); ok {
		why.Reason = abort.Reason
	}
	return wire.Decode(why)
}

// Dir returns the directory that the locator stands for. It does not wait: any error
// shows at the first use. If the locator stands for a file, every method answers
// notDir; see Node.
func (c *Conn) Dir(ctx context.Context) *Dir {
	return newDir(promised(ctx, c.session, schema.Session_restoreDir, func(p schema.Session_restoreDir_Params, _ *vat.Caps) error {
		return p.SetSecret(c.loc.Secret[:])
	}, schema.Session_restoreDir_Results_dir))
}

// File returns the file that the locator stands for. It does not wait: any error shows
// at the first use. If the locator stands for a directory, every method answers isDir.
func (c *Conn) File(ctx context.Context) *File {
	return newFile(promised(ctx, c.session, schema.Session_restoreFile, func(p schema.Session_restoreFile_Params, _ *vat.Caps) error {
		return p.SetSecret(c.loc.Secret[:])
	}, schema.Session_restoreFile_Results_file))
}

// Node returns what the locator stands for: a *Dir or a *File. Its errors include
// denied and revoked.
func (c *Conn) Node(ctx context.Context) (vfs.Node, error) {
	return wire.Ask(ctx, c.session, schema.Session_restore, func(p schema.Session_restore_Params, _ *vat.Caps) error {
		return p.SetSecret(c.loc.Secret[:])
	}, func(r schema.Session_restore_Results, caps *vat.Caps) (vfs.Node, error) {
		ref, err := r.Ref()
		if err != nil {
			return nil, err
		}
		switch ref.Which() {
		case schema.Ref_Which_dir:
			return asNode(held(caps.Get(ref.Dir()), newDir))
		case schema.Ref_Which_file:
			return asNode(held(caps.Get(ref.File()), newFile))
		}
		return nil, vfs.Errorf(vfs.Unsupported, "the host answered a kind of node that this client does not know")
	})
}

// Help returns the host's description of a session, or of one of its methods.
func (c *Conn) Help(ctx context.Context, method string) (string, error) {
	return wire.AskHelp(ctx, c.session, schema.Session_help, method)
}
