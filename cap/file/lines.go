package file

import (
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/lines"
)

func (s *server) readLines(c vat.Call[schema.File_readLines_Params, schema.File_readLines_Results]) error {
	from, err := wire.Offset(c.Params().Start())
	if err != nil {
		return s.at(vfs.Errorf(vfs.Invalid, "no file has so many lines"))
	}
	content, err := vfs.Open(c.Context(), s.file)
	if err != nil {
		return s.at(err)
	}
	defer content.Close()
	if err := c.Weigh(content.Size()); err != nil {
		return s.at(err)
	}
	w, err := lines.Scan(c.Context(), content, lines.Query{From: from, Count: int(c.Params().Count()), Last: c.Params().Last()})
	if err != nil {
		return s.at(err)
	}
	return wire.SetLines(c.ResultsFor, w)
}
