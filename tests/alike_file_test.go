//go:build linux

package tests

import (
	"fmt"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
	edits "capd/vfs/edit"
)

// Questions to a File and a Writer: one function for each method.

func (a *asker) readText(f fileCap) {
	a.Helper()
	ask(a, f.Cap, f.how+".readText", schema.File_readText, nil, func(r schema.File_readText_Results, _ *vat.Caps) (string, error) {
		text, err := r.Text()
		if err != nil {
			return "", err
		}
		what, _ := bytesText([]byte(text), nil)
		v, err := versionText(r.Version())
		return what + ", " + v, err
	})
}

func (a *asker) readBytes(f fileCap) {
	a.Helper()
	ask(a, f.Cap, f.how+".readBytes", schema.File_readBytes, nil, func(r schema.File_readBytes_Results, _ *vat.Caps) (string, error) {
		what, err := bytesText(r.Data())
		if err != nil {
			return "", err
		}
		v, err := versionText(r.Version())
		return what + ", " + v, err
	})
}

func (a *asker) readLines(f fileCap, from uint64, count uint32, last bool) {
	a.Helper()
	ask(a, f.Cap, fmt.Sprintf("%s.readLines %d from %d, last %v", f.how, count, from, last), schema.File_readLines, func(p schema.File_readLines_Params, _ *vat.Caps) error {
		p.SetStart(from)
		p.SetCount(count)
		p.SetLast(last)
		return nil
	}, func(r schema.File_readLines_Results, _ *vat.Caps) (string, error) {
		what, err := bytesText(r.Data())
		if err != nil {
			return "", err
		}
		v, err := versionText(r.Version())
		clipped, _ := r.Clipped()
		return fmt.Sprintf("%s, first %d, %d, next %d, more %v, of %d, %d clipped, %s", what, r.First(), r.Count(), r.Next(), r.More(), r.Lines(), clipped.Len(), v), err
	})
}

func (a *asker) read(f fileCap, offset uint64, length uint32) {
	a.Helper()
	ask(a, f.Cap, fmt.Sprintf("%s.read %d at %d", f.how, length, offset), schema.File_read, func(p schema.File_read_Params, _ *vat.Caps) error {
		p.SetOffset(offset)
		p.SetLength(length)
		return nil
	}, func(r schema.File_read_Results, _ *vat.Caps) (string, error) {
		what, err := bytesText(r.Data())
		return fmt.Sprintf("eof %v: %s", r.Eof(), what), err
	})
}

// chunkSink receives a stream and records its parts.
type chunkSink struct {
	sink
	chunks []int
}

var chunkTable = vat.NewTable(
	vat.Handle(schema.Sink_write, func(s *chunkSink, c vat.Call[schema.Sink_write_Params, vat.Empty]) error {
		b, err := c.Params().Data()
		s.Write(b)
		s.chunks = append(s.chunks, len(b))
		return err
	}),
	vat.Handle(schema.Sink_done, func(s *chunkSink, _ vat.Call[schema.Sink_done_Params, schema.Sink_done_Results]) error {
		s.chunks = append(s.chunks, -1)
		return nil
	}),
)

func (a *asker) stream(f fileCap, offset, length uint64) {
	a.Helper()
	s := &chunkSink{}
	ask(a, f.Cap, fmt.Sprintf("%s.stream %d at %d", f.how, length, offset), schema.File_stream, func(p schema.File_stream_Params, caps *vat.Caps) error {
		p.SetOffset(offset)
		p.SetLength(length)
		return p.SetSink(caps.Put(vat.Serve(chunkTable, s)))
	}, func(r schema.File_stream_Results, _ *vat.Caps) (string, error) {
		what, err := bytesText([]byte(s.String()), nil)
		return fmt.Sprintf("%d bytes, chunks %v: %s", r.Bytes(), s.chunks, what), err
	})
}

func (a *asker) writeText(f fileCap, text string, c condition) {
	a.Helper()
	ask(a, f.Cap, fmt.Sprintf("%s.writeText (%d bytes) %v", f.how, len(text), c), schema.File_writeText, func(p schema.File_writeText_Params, _ *vat.Caps) error {
		return firstError(p.SetText(text), c.set(p.NewIfVersion))
	}, func(r schema.File_writeText_Results, _ *vat.Caps) (string, error) { return versionText(r.Version()) })
}

func (a *asker) writeBytes(f fileCap, data string, c condition) {
	a.Helper()
	ask(a, f.Cap, fmt.Sprintf("%s.writeBytes (%d bytes) %v", f.how, len(data), c), schema.File_writeBytes, func(p schema.File_writeBytes_Params, caps *vat.Caps) error {
		return firstError(caps.SetData(schema.File_writeBytes_Params_data, []byte(data)), c.set(p.NewIfVersion))
	}, func(r schema.File_writeBytes_Results, _ *vat.Caps) (string, error) { return versionText(r.Version()) })
}

// edit makes edits: pairs of an old and a new text.
func (a *asker) edit(f fileCap, dry bool, c condition, texts ...string) {
	a.Helper()
	ask(a, f.Cap, fmt.Sprintf("%s.edit %q, dry %v, %v", f.how, texts, dry, c), schema.File_edit, func(p schema.File_edit_Params, _ *vat.Caps) error {
		var all []edits.Edit
		for i := 0; i+1 < len(texts); i += 2 {
			all = append(all, edits.Edit{Old: []byte(texts[i]), New: []byte(texts[i+1])})
		}
		p.SetDryRun(dry)
		return firstError(wire.SetEdits(p, all), c.set(p.NewIfVersion))
	}, func(r schema.File_edit_Results, _ *vat.Caps) (string, error) {
		made, err := wire.Edited(r)
		return fmt.Sprintf("%s\n%v, %d, %v, %s", made.Version, made.Changed, made.Replaced, made.Cut, made.Diff), err
	})
}

func (a *asker) stageFile(f fileCap, c condition) writerCap {
	a.Helper()
	how := fmt.Sprintf("%s.stage %v", f.how, c)
	caps := open(a, f.Cap, how, schema.File_stage, func(p schema.File_stage_Params, _ *vat.Caps) error { return c.set(p.NewIfVersion) }, at(schema.File_stage_Results_writer))
	return writerCap{caps[0], how}
}

func (a *asker) write(f fileCap, offset uint64, data string, c condition) {
	a.Helper()
	ask(a, f.Cap, fmt.Sprintf("%s.write %d at %d %v", f.how, len(data), offset, c), schema.File_write, func(p schema.File_write_Params, caps *vat.Caps) error {
		p.SetOffset(offset)
		return firstError(caps.SetData(schema.File_write_Params_data, []byte(data)), c.set(p.NewIfVersion))
	}, nil)
}

func (a *asker) append(f fileCap, data string, c condition) {
	a.Helper()
	ask(a, f.Cap, fmt.Sprintf("%s.append %d %v", f.how, len(data), c), schema.File_append, func(p schema.File_append_Params, caps *vat.Caps) error {
		return firstError(caps.SetData(schema.File_append_Params_data, []byte(data)), c.set(p.NewIfVersion))
	}, func(r schema.File_append_Results, _ *vat.Caps) (string, error) {
		return fmt.Sprintf("at %d", r.Offset()), nil
	})
}

func (a *asker) truncate(f fileCap, size uint64, c condition) {
	a.Helper()
	ask(a, f.Cap, fmt.Sprintf("%s.truncate %d %v", f.how, size, c), schema.File_truncate, func(p schema.File_truncate_Params, _ *vat.Caps) error {
		p.SetSizeBytes(size)
		return c.set(p.NewIfVersion)
	}, nil)
}

func (a *asker) setAttributes(f fileCap, exec *bool, ms *int64, c condition) {
	a.Helper()
	what := vfs.Attributes{Exec: exec, ModifiedMs: ms}
	ask(a, f.Cap, fmt.Sprintf("%s.setAttributes %v %v", f.how, what, c), schema.File_setAttributes, func(p schema.File_setAttributes_Params, _ *vat.Caps) error {
		w, err := p.NewAttributes()
		if err == nil && exec != nil {
			w.Executable().SetSet(*exec)
		}
		if err == nil && ms != nil {
			w.Modified().SetMs(*ms)
		}
		return firstError(err, c.set(p.NewIfVersion))
	}, nil)
}

func (a *asker) sync(f fileCap) {
	a.Helper()
	ask(a, f.Cap, f.how+".sync", schema.File_sync, nil, nil)
}

func (a *asker) statFile(f fileCap, withVersion bool) {
	a.Helper()
	ask(a, f.Cap, fmt.Sprintf("%s.stat withVersion %v", f.how, withVersion), schema.File_stat, func(p schema.File_stat_Params, _ *vat.Caps) error {
		p.SetWithVersion(withVersion)
		return nil
	}, func(r schema.File_stat_Results, _ *vat.Caps) (string, error) { return statText(r.Stat()) })
}

func (a *asker) readOnlyFile(f fileCap) fileCap {
	a.Helper()
	how := f.how + ".readOnly"
	return fileCap{open(a, f.Cap, how, schema.File_readOnly, nil, at(schema.File_readOnly_Results_file))[0], how}
}

func (a *asker) revocableFile(f fileCap) (fileCap, revokerCap) {
	a.Helper()
	how := f.how + ".revocable"
	caps := open(a, f.Cap, how, schema.File_revocable, nil, at(schema.File_revocable_Results_file), at(schema.File_revocable_Results_revoker))
	return fileCap{caps[0], how}, revokerCap{caps[1], how}
}

// send writes to a writer without waiting, as streams do. Errors show at the end of
// the stream.
func (a *asker) send(w writerCap, parts ...string) {
	a.Helper()
	for _, part := range parts {
		answer := vat.Send(a.ctx, w.Cap, schema.Writer_write, func(_ schema.Writer_write_Params, caps *vat.Caps) error {
			return caps.SetData(schema.Writer_write_Params_data, []byte(part))
		})
		answer.Release()
	}
	a.asked[schema.Writer_write.Name] = true
	text := "done"
	if err := w.Drain(a.ctx); err != nil {
		text = a.exception(err)
	}
	a.heard = append(a.heard, exchange{w.how + " write", text})
}

func (a *asker) commit(w writerCap) {
	a.Helper()
	ask(a, w.Cap, w.how+" commit", schema.Writer_commit, nil,
		func(r schema.Writer_commit_Results, _ *vat.Caps) (string, error) { return versionText(r.Version()) })
}
