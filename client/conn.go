package client

import (
	"context"
	"errors"

	"capnproto.org/go/capnp/v3"

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

// Share returns a locator for a *Dir or *File of this host, with exactly the same
// rights. It ends when the capability that it was made from is revoked or expires. The
// Revoker revokes it; closing the Revoker does not.
func (c *Conn) Share(ctx context.Context, n vfs.Node) (loc string, r *Revoker, err error) {
	err = wire.Do(ctx, c.session, schema.Session_share, func(p schema.Session_share_Params, caps *vat.Caps) error {
		ref, err := p.NewRef()
		if err != nil {
			return err
		}
		switch n := n.(type) {
		case *Dir:
			return ref.SetDir(caps.Put(n.cap.AddRef()))
		case *File:
			return ref.SetFile(caps.Put(n.cap.AddRef()))
		}
		return ref.SetDir(capnp.Interface{})
	}, func(res schema.Session_share_Results, caps *vat.Caps) error {
		secret, err := res.Secret()
		if err != nil {
			return err
		}
		if len(secret) != locator.SecretSize {
			return vfs.Errorf(vfs.Corrupt, "the host answered a secret of another length")
		}
		revoker, err := wire.Held(caps.Get(res.Revoker()))
		if err != nil {
			return err
		}
		shared := c.loc // the same socket or address
		shared.Secret = [locator.SecretSize]byte(secret)
		loc, r = shared.String(), &Revoker{revoker}
		return nil
	})
	return loc, r, err
}

// Help returns the host's description of a session, or of one of its methods.
func (c *Conn) Help(ctx context.Context, method string) (string, error) {
	return wire.AskHelp(ctx, c.session, schema.Session_help, method)
}

// Revoker revokes what Revocable or Share returned.
type Revoker struct{ cap *vat.Cap }

// Revoke revokes the capability and everything derived from it, and waits until none of
// it can change anything. To call it again is no error. It answers busy if a change
// under way is stuck; call it again to wait again.
func (r *Revoker) Revoke(ctx context.Context) error {
	return wire.Do(ctx, r.cap, schema.Revoker_revoke, nil, nil)
}

// Close releases the revoker. It revokes nothing.
func (r *Revoker) Close() error {
	r.cap.Release()
	return nil
}
