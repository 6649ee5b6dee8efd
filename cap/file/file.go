// Package file serves a vfs.File as the interface File, streams it to a sink, and
// receives whole files through the interface Writer. It only translates: the vfs.File
// decides what is allowed.
package file

import (
	"bytes"
	"context"
	"errors"
	"io"
	"unicode/utf8"

	"capd/cap/control"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/help"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

// New returns a capability for f. It takes f over, and closes it when the last
// reference to the capability is gone. path is how the holder reached it; errors show
// it.
func New(f vfs.File, path string) *vat.Cap {
	return vat.Serve(table, &server{file: f, path: path})
}

// Of returns the file behind a capability that New made. It remains the capability's.
func Of(c *vat.Cap) (vfs.File, bool) {
	s, ok := vat.Local[*server](c)
	if !ok {
		return nil, false
	}
	return s.file, true
}

type server struct {
	file vfs.File
	path string
}

// Node returns the node that s serves.
func (s *server) Node() vfs.Node { return s.file }

// Release closes the file.
func (s *server) Release() { s.file.Close() }

var table *vat.Table

func init() { // not in the declaration: the methods use table
	table = vat.NewTable(
		// read the whole content and its version: 4 MiB at most
		vat.Handle(schema.File_readText, wire.Ordered(membrane.OpRead, (*server).readText), vat.HeavyFrom(heavyBytes)),
		vat.Handle(schema.File_readBytes, wire.Ordered(membrane.OpRead, (*server).readBytes), vat.HeavyFrom(heavyBytes)),
		// reads 1 MiB at most
		vat.Handle(schema.File_read, wire.Ordered(membrane.OpRead, (*server).read), vat.Try()),
		// reads the content up to a window of its lines, or all of it for its version
		vat.Handle(schema.File_readLines, wire.Ordered(membrane.OpRead, (*server).readLines), vat.HeavyFrom(heavyBytes)),
		// reads the content as fast as the sink takes it
		vat.Handle(schema.File_stream, wire.Ordered(membrane.OpRead, (*server).stream)),
		// write what was sent, 4 MiB at most; a condition may need the version of a
		// large file
		vat.Handle(schema.File_writeText, wire.Ordered(membrane.OpReplace, (*server).writeText), vat.Serial(), vat.HeavyIf(wire.OnVersion[schema.File_writeText_Params])),
		vat.Handle(schema.File_writeBytes, wire.Ordered(membrane.OpReplace, (*server).writeBytes), vat.Serial(), vat.HeavyIf(wire.OnVersion[schema.File_writeBytes_Params])),
		vat.Handle(schema.File_stage, wire.Ordered(membrane.OpReplace, (*server).stage), vat.HeavyIf(wire.OnVersion[schema.File_stage_Params])),
		// reads all of a file, 4 MiB at most, searches it for each edit, and writes all of it
		vat.Handle(schema.File_edit, wire.OrderedNeeding(membrane.OpReplace, membrane.To(membrane.OpRead)|membrane.To(membrane.OpReplace), (*server).edit),
			vat.Serial(), vat.HeavyFrom(heavyBytes)),
		// write 1 MiB at most; an overlay copies the whole file first, and gives way to
		// others meanwhile
		vat.Handle(schema.File_write, wire.Ordered(membrane.OpWrite, (*server).write), vat.Serial(), vat.HeavyIf(wire.OnVersion[schema.File_write_Params])),
		vat.Handle(schema.File_append, wire.Ordered(membrane.OpAppend, (*server).append), vat.Serial(), vat.HeavyIf(wire.OnVersion[schema.File_append_Params])),
		vat.Handle(schema.File_truncate, wire.Ordered(membrane.OpTruncate, (*server).truncate), vat.Serial(), vat.HeavyIf(wire.OnVersion[schema.File_truncate_Params])),
		// asks the store once; an overlay copies the whole file first
		vat.Handle(schema.File_setAttributes, wire.Ordered(membrane.OpAttributes, (*server).setAttributes), vat.Serial(), vat.HeavyIf(wire.OnVersion[schema.File_setAttributes_Params])),
		// waits for the disk
		vat.Handle(schema.File_sync, wire.Ordered(membrane.OpSync, (*server).sync)),
		// asks the store once; the version may be that of a large file
		vat.Handle(schema.File_stat, wire.Ordered(membrane.OpStat, (*server).stat), vat.Try(), vat.HeavyIf(schema.File_stat_Params.WithVersion)),
		// ask neither a store nor a guard
		vat.Handle(schema.File_readOnly, (*server).readOnly),
		vat.Handle(schema.File_revocable, (*server).revocable),
		wire.Help(schema.File_help, help.Text),
		vat.Handle(schema.File_narrow, (*server).narrow),
		vat.Handle(schema.File_rights, (*server).rights),
	)
}

func (s *server) at(err error) error { return vfs.At(s.path, err) }

func (s *server) writeText(c vat.Call[schema.File_writeText_Params, schema.File_writeText_Results]) error {
	text, err := wire.Param(c.Params().TextBytes())
	if err != nil {
		return s.at(err)
	}
	if !utf8.Valid(text) {
		return s.at(vfs.Errorf(vfs.Invalid, "the text is not UTF-8; use writeBytes"))
	}
	v, err := s.replace(c.Context(), bytes.NewReader(text), len(text), c.Params())
	if err != nil {
		return err
	}
	return c.Results().SetVersion(v[:])
}

func (s *server) writeBytes(c vat.Call[schema.File_writeBytes_Params, schema.File_writeBytes_Results]) error {
	data, err := wire.Param(c.Params().Data())
	if err != nil {
		return s.at(err)
	}
	v, err := s.replace(c.Context(), bytes.NewReader(data), len(data), c.Params())
	if err != nil {
		return err
	}
	return c.Results().SetVersion(v[:])
}

func (s *server) replace(ctx context.Context, r io.Reader, size int, cond wire.Conditional) (vfs.Version, error) {
	if err := wire.CheckWhole(size); err != nil {
		return vfs.Version{}, s.at(err)
	}
	c, err := s.cond(cond)
	if err != nil {
		return vfs.Version{}, err
	}
	v, err := s.file.Replace(ctx, r, c)
	return v, s.at(err)
}

func (s *server) cond(from wire.Conditional) (vfs.If, error) {
	c, err := wire.If(from)
	return c, s.at(err)
}

func (s *server) stage(c vat.Call[schema.File_stage_Params, schema.File_stage_Results]) error {
	cond, err := s.cond(c.Params())
	if err != nil {
		return err
	}
	// The writer keeps the file open even if its holder closes it.
	f, err := vfs.Dup(s.file)
	if err != nil {
		return s.at(err)
	}
	w, err := Stage(c.Context(), f, s.path, func(ctx context.Context, r io.Reader) (vfs.Version, error) {
		return f.Replace(ctx, r, cond)
	})
	if err != nil {
		return s.at(err)
	}
	return c.Results().SetWriter(c.Caps().Put(w))
}

func (s *server) write(c vat.Call[schema.File_write_Params, schema.File_write_Results]) error {
	data, err := wire.Param(c.Params().Data())
	if err != nil {
		return s.at(err)
	}
	off, err := wire.Offset(c.Params().Offset())
	if err == nil {
		err = wire.CheckChunk(len(data))
	}
	if err != nil {
		return s.at(err)
	}
	cond, err := s.cond(c.Params())
	if err != nil {
		return err
	}
	_, err = s.file.WriteAt(c.Context(), data, off, cond)
	return s.at(err)
}

func (s *server) append(c vat.Call[schema.File_append_Params, schema.File_append_Results]) error {
	data, err := wire.Param(c.Params().Data())
	if err == nil {
		err = wire.CheckChunk(len(data))
	}
	if err != nil {
		return s.at(err)
	}
	cond, err := s.cond(c.Params())
	if err != nil {
		return err
	}
	off, err := vfs.Append(c.Context(), s.file, data, cond)
	if err != nil {
		return s.at(err)
	}
	c.Results().SetOffset(uint64(off))
	return nil
}

func (s *server) truncate(c vat.Call[schema.File_truncate_Params, schema.File_truncate_Results]) error {
	size, err := wire.Offset(c.Params().SizeBytes())
	if err != nil {
		return s.at(err)
	}
	cond, err := s.cond(c.Params())
	if err != nil {
		return err
	}
	return s.at(s.file.Truncate(c.Context(), size, cond))
}

func (s *server) sync(c vat.Call[schema.File_sync_Params, schema.File_sync_Results]) error {
	return s.at(s.file.Sync(c.Context()))
}

func (s *server) stat(c vat.Call[schema.File_stat_Params, schema.File_stat_Results]) error {
	if c.Trying() && (c.Params().WithVersion() || !vfs.CanTry(s.file)) {
		return vat.ErrWouldBlock
	}
	info, err := s.file.Stat(wire.Look(c))
	if err != nil {
		return wire.Looked(s.path, err)
	}
	st, err := c.Results().NewStat()
	if err != nil {
		return err
	}
	wire.SetInfo(st, info)
	if c.Params().WithVersion() {
		v, err := vfs.VersionOf(c.Context(), s.file)
		if err != nil {
			return s.at(err)
		}
		if err := st.SetVersion(v[:]); err != nil {
			return err
		}
	}
	return wire.SetName(st, wire.Base(s.path))
}

func (s *server) readOnly(c vat.Call[schema.File_readOnly_Params, schema.File_readOnly_Results]) error {
	f, err := membrane.ReadOnlyFile(s.file)
	if err != nil {
		return s.at(err)
	}
	return c.Results().SetFile(c.Caps().Put(New(f, s.path)))
}

func (s *server) revocable(c vat.Call[schema.File_revocable_Params, schema.File_revocable_Results]) error {
	f, ctl, err := membrane.RevocableFile(s.file)
	if err != nil {
		return s.at(err)
	}
	return errors.Join(c.Results().SetFile(c.Caps().Put(New(f, s.path))),
		c.Results().SetRevoker(c.Caps().Put(control.NewRevoker(ctl))))
}

func (s *server) narrow(c vat.Call[schema.File_narrow_Params, schema.File_narrow_Results]) error {
	keep, err := wire.Rights(wire.Sound[schema.Right_List](c.Params().HasKeep())(c.Params().Keep()))
	if err != nil {
		return s.at(err)
	}
	f, err := membrane.Narrow(s.file, keep)
	if err != nil {
		return s.at(err)
	}
	return c.Results().SetFile(c.Caps().Put(New(f.(vfs.File), s.path)))
}

func (s *server) rights(c vat.Call[schema.File_rights_Params, schema.File_rights_Results]) error {
	r, err := membrane.RightsOf(s.file)
	if err != nil {
		return s.at(err)
	}
	return wire.SetRights(r, c.Results().NewRights)
}
