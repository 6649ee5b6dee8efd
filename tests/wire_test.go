package tests

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"capnproto.org/go/capnp/v3"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
	edits "capd/vfs/edit"
)

// Messages of a hostile guest: nothing is checked before it is sent.

// operation calls one method on a path below a Dir. It returns the answer as
// text.
type operation func(ctx context.Context, d *vat.Cap, path string) (string, error)

var operations = map[string]operation{
	"get": func(ctx context.Context, d *vat.Cap, path string) (string, error) {
		var what string
		err := vat.Do(ctx, d, schema.Dir_get, func(p schema.Dir_get_Params, _ *vat.Caps) error { return p.SetName(path) },
			func(r schema.Dir_get_Results, _ *vat.Caps) (err error) { what, err = nodeText(r.Node()); return err })
		return what, err
	},
	"walk":          walking(false),
	"walk noFollow": walking(true),
	"openDir": func(ctx context.Context, d *vat.Cap, path string) (string, error) {
		return "", vat.Do(ctx, d, schema.Dir_openDir, func(p schema.Dir_openDir_Params, _ *vat.Caps) error { return p.SetPath(path) }, nil)
	},
	"openFile": func(ctx context.Context, d *vat.Cap, path string) (string, error) {
		return "", vat.Do(ctx, d, schema.Dir_openFile, func(p schema.Dir_openFile_Params, _ *vat.Caps) error { return p.SetPath(path) }, nil)
	},
	"subDir": func(ctx context.Context, d *vat.Cap, path string) (string, error) {
		return "", vat.Do(ctx, d, schema.Dir_subDir, func(p schema.Dir_subDir_Params, _ *vat.Caps) error { return p.SetPath(path) }, nil)
	},
	"put":          putting(false),
	"put noFollow": putting(true),
	"stage": func(ctx context.Context, d *vat.Cap, path string) (string, error) {
		a := vat.Send(ctx, d, schema.Dir_stage, func(p schema.Dir_stage_Params, _ *vat.Caps) error { return p.SetPath(path) })
		defer a.Release()
		return "", commit(ctx, a.Cap(schema.Dir_stage_Results_writer))
	},
	"createDir": func(ctx context.Context, d *vat.Cap, path string) (string, error) {
		return "", vat.Do(ctx, d, schema.Dir_createDir, func(p schema.Dir_createDir_Params, _ *vat.Caps) error { return p.SetPath(path) }, nil)
	},
	"createFile": func(ctx context.Context, d *vat.Cap, path string) (string, error) {
		return "", vat.Do(ctx, d, schema.Dir_createFile, func(p schema.Dir_createFile_Params, _ *vat.Caps) error { return p.SetPath(path) }, nil)
	},
	"symlink": func(ctx context.Context, d *vat.Cap, path string) (string, error) {
		return "", vat.Do(ctx, d, schema.Dir_symlink, func(p schema.Dir_symlink_Params, _ *vat.Caps) error {
			return cmp.Or(p.SetPath(path), p.SetTarget("f"))
		}, nil)
	},
	"remove": func(ctx context.Context, d *vat.Cap, path string) (string, error) {
		return "", vat.Do(ctx, d, schema.Dir_remove, func(p schema.Dir_remove_Params, _ *vat.Caps) error { return p.SetPath(path) }, nil)
	},
	"move from": func(ctx context.Context, d *vat.Cap, path string) (string, error) {
		return "", move(ctx, d, path, d, "moved")
	},
	"move to": func(ctx context.Context, d *vat.Cap, path string) (string, error) {
		return "", move(ctx, d, "bait", d, path)
	},
	"copy from": func(ctx context.Context, d *vat.Cap, path string) (string, error) {
		return "", copyCap(ctx, d, path, "copied")
	},
	"copy to": func(ctx context.Context, d *vat.Cap, path string) (string, error) {
		return "", copyCap(ctx, d, "bait", path)
	},
	"list": func(ctx context.Context, d *vat.Cap, path string) (string, error) {
		a := vat.Send(ctx, d, schema.Dir_openDir, func(p schema.Dir_openDir_Params, _ *vat.Caps) error { return p.SetPath(path) })
		defer a.Release()
		sub := a.Cap(schema.Dir_openDir_Results_dir)
		defer sub.Release()
		defer noteOpened(ctx, a)
		return list(ctx, sub)
	},
	"tree": func(ctx context.Context, d *vat.Cap, path string) (text string, err error) {
		err = vat.Do(ctx, d, schema.Dir_tree, func(p schema.Dir_tree_Params, _ *vat.Caps) error { return p.SetPath(path) },
			func(r schema.Dir_tree_Results, _ *vat.Caps) error {
				l, err := r.Branches()
				for i := range l.Len() {
					st, _ := l.At(i).Stat()
					name, _ := st.Name()
					text += name + "\n"
				}
				return err
			})
		return text, err
	},
	"changedSince": func(ctx context.Context, d *vat.Cap, path string) (text string, err error) {
		err = vat.Do(ctx, d, schema.Dir_changedSince, func(p schema.Dir_changedSince_Params, _ *vat.Caps) error {
			return wire.SetAll([]string{path}, p.NewKnown, func(k schema.Known, path string) error { return k.SetPath(path) })
		}, func(r schema.Dir_changedSince_Results, _ *vat.Caps) error {
			l, err := r.Changed()
			for i := range l.Len() {
				if why, _ := l.At(i).Error(); why != "" {
					return wire.Decode(&vat.Exception{Reason: why})
				}
			}
			return err
		})
		return text, err
	},
	"glob": func(ctx context.Context, d *vat.Cap, path string) (string, error) { return glob(ctx, d, path) },
	"stat": onFile(func(ctx context.Context, f *vat.Cap) (string, error) {
		return "", vat.Do(ctx, f, schema.File_stat, func(p schema.File_stat_Params, _ *vat.Caps) error { p.SetWithVersion(true); return nil }, nil)
	}),
	"readText": onFile(func(ctx context.Context, f *vat.Cap) (text string, err error) {
		return text, vat.Do(ctx, f, schema.File_readText, nil, func(r schema.File_readText_Results, _ *vat.Caps) error {
			text, err = r.Text()
			return err
		})
	}),
	"readBytes": onFile(readBytes),
	"read": onFile(func(ctx context.Context, f *vat.Cap) (text string, err error) {
		err = vat.Do(ctx, f, schema.File_read, func(p schema.File_read_Params, _ *vat.Caps) error { p.SetLength(4096); return nil },
			func(r schema.File_read_Results, _ *vat.Caps) error { b, err := r.Data(); text = string(b); return err })
		return text, err
	}),
	"readLines": onFile(func(ctx context.Context, f *vat.Cap) (text string, err error) {
		err = vat.Do(ctx, f, schema.File_readLines, nil,
			func(r schema.File_readLines_Results, _ *vat.Caps) error {
				b, err := r.Data()
				text = string(b)
				return err
			})
		return text, err
	}),
	"stream": onFile(func(ctx context.Context, f *vat.Cap) (string, error) {
		var s sink
		err := vat.Do(ctx, f, schema.File_stream, func(p schema.File_stream_Params, caps *vat.Caps) error {
			return p.SetSink(caps.Put(vat.Serve(sinkTable, &s)))
		}, nil)
		return s.String(), err
	}),
	"writeText": onFile(func(ctx context.Context, f *vat.Cap) (string, error) {
		return "", vat.Do(ctx, f, schema.File_writeText, func(p schema.File_writeText_Params, _ *vat.Caps) error { return p.SetText("written") }, nil)
	}),
	"writeBytes": onFile(func(ctx context.Context, f *vat.Cap) (string, error) {
		return "", vat.Do(ctx, f, schema.File_writeBytes, func(p schema.File_writeBytes_Params, _ *vat.Caps) error { return p.SetData([]byte("written")) }, nil)
	}),
	"stage file": onFile(func(ctx context.Context, f *vat.Cap) (string, error) {
		a := vat.Send(ctx, f, schema.File_stage, nil)
		defer a.Release()
		return "", commit(ctx, a.Cap(schema.File_stage_Results_writer))
	}),
	"edit": onFile(func(ctx context.Context, f *vat.Cap) (string, error) {
		text, err := readBytes(ctx, f)
		if err != nil {
			text = "x"
		}
		return "", vat.Do(ctx, f, schema.File_edit, func(p schema.File_edit_Params, _ *vat.Caps) error {
			return wire.SetEdits(p, []edits.Edit{{Old: []byte(text), New: []byte(text + "edited")}})
		}, nil)
	}),
	"write": onFile(func(ctx context.Context, f *vat.Cap) (string, error) {
		return "", vat.Do(ctx, f, schema.File_write, func(p schema.File_write_Params, _ *vat.Caps) error { return p.SetData([]byte("in place")) }, nil)
	}),
	"append": onFile(func(ctx context.Context, f *vat.Cap) (string, error) {
		return "", vat.Do(ctx, f, schema.File_append, func(p schema.File_append_Params, _ *vat.Caps) error { return p.SetData([]byte("appended")) }, nil)
	}),
	"truncate": onFile(func(ctx context.Context, f *vat.Cap) (string, error) {
		return "", vat.Do(ctx, f, schema.File_truncate, nil, nil)
	}),
	"setAttributes": onFile(func(ctx context.Context, f *vat.Cap) (string, error) {
		return "", vat.Do(ctx, f, schema.File_setAttributes, executable(true), nil)
	}),
}

// executable asks for a file that can be executed, or not.
func executable(is bool) func(schema.File_setAttributes_Params, *vat.Caps) error {
	return func(p schema.File_setAttributes_Params, _ *vat.Caps) error {
		a, err := p.NewAttributes()
		if err == nil {
			a.Executable().SetSet(is)
		}
		return err
	}
}

// Sets of operations.
const (
	opens    = "get, walk, walk noFollow, openDir, openFile, subDir"
	through  = "walk, walk noFollow, openDir, openFile, subDir" // a path of several names
	reads    = "list, stat, readText, readBytes, readLines, read, stream"
	creates  = "put, stage, createDir, createFile, symlink, move to"
	changes  = "remove, move from"
	inPlace  = "write, append, truncate, setAttributes"
	wholes   = "writeText, writeBytes, stage file, edit"
	fileUses = "stat, readText, readBytes, readLines, read, stream, " + wholes + ", " + inPlace
	every    = opens + ", " + reads + ", " + creates + ", put noFollow, " + changes + ", " + inPlace + ", " + wholes
	pathwise = through + ", " + reads + ", " + creates + ", put noFollow, " + changes + ", " + inPlace + ", " + wholes
)

func walking(noFollow bool) operation {
	return func(ctx context.Context, d *vat.Cap, path string) (string, error) {
		var what string
		err := vat.Do(ctx, d, schema.Dir_walk, func(p schema.Dir_walk_Params, _ *vat.Caps) error {
			p.SetNoFollow(noFollow)
			return p.SetPath(path)
		}, func(r schema.Dir_walk_Results, _ *vat.Caps) (err error) { what, err = nodeText(r.Node()); return err })
		return what, err
	}
}

func putting(noFollow bool) operation {
	return func(ctx context.Context, d *vat.Cap, path string) (string, error) {
		return "", vat.Do(ctx, d, schema.Dir_put, func(p schema.Dir_put_Params, _ *vat.Caps) error {
			p.SetNoFollow(noFollow)
			p.SetData([]byte("put"))
			return p.SetPath(path)
		}, nil)
	}
}

func onFile(do func(context.Context, *vat.Cap) (string, error)) operation {
	return func(ctx context.Context, d *vat.Cap, path string) (string, error) {
		a := vat.Send(ctx, d, schema.Dir_openFile, func(p schema.Dir_openFile_Params, _ *vat.Caps) error { return p.SetPath(path) })
		defer a.Release()
		f := a.Cap(schema.Dir_openFile_Results_file)
		defer f.Release()
		defer noteOpened(ctx, a)
		return do(ctx, f)
	}
}

type whetherOpenedKey struct{}

// whetherOpened returns a context in which an operation that opens a name first
// sets behind if the open was refused.
func whetherOpened(ctx context.Context, behind *bool) context.Context {
	return context.WithValue(ctx, whetherOpenedKey{}, behind)
}

// noteOpened sets the behind of whetherOpened.
func noteOpened[R ~capnp.StructKind](ctx context.Context, a *vat.Answer[R]) {
	if behind, ok := ctx.Value(whetherOpenedKey{}).(*bool); ok {
		_, _, err := a.Await(ctx)
		*behind = err != nil
	}
}

func readBytes(ctx context.Context, f *vat.Cap) (text string, err error) {
	err = vat.Do(ctx, f, schema.File_readBytes, nil, func(r schema.File_readBytes_Results, _ *vat.Caps) error {
		b, err := r.Data()
		text = string(b)
		return err
	})
	return text, err
}

// commit writes to a staged writer and commits it. It takes over w.
func commit(ctx context.Context, w *vat.Cap) error {
	defer w.Release()
	err := vat.Do(ctx, w, schema.Writer_write, func(p schema.Writer_write_Params, _ *vat.Caps) error { return p.SetData([]byte("staged")) }, nil)
	if err != nil {
		return err
	}
	return vat.Do(ctx, w, schema.Writer_commit, nil, nil)
}

func move(ctx context.Context, d *vat.Cap, path string, dst *vat.Cap, newPath string) error {
	return vat.Do(ctx, d, schema.Dir_move, func(p schema.Dir_move_Params, caps *vat.Caps) error {
		p.SetPath(path)
		p.SetDst(caps.Put(dst.AddRef()))
		return p.SetNewPath(newPath)
	}, nil)
}

func copyCap(ctx context.Context, d *vat.Cap, path, newPath string) error {
	return vat.Do(ctx, d, schema.Dir_copy, func(p schema.Dir_copy_Params, _ *vat.Caps) error {
		p.SetPath(path)
		return p.SetNewPath(newPath)
	}, nil)
}

func list(ctx context.Context, d *vat.Cap) (string, error) {
	var names []string
	err := vat.Do(ctx, d, schema.Dir_list, func(p schema.Dir_list_Params, _ *vat.Caps) error { p.SetWithStat(true); return nil },
		func(r schema.Dir_list_Results, _ *vat.Caps) (err error) {
			names, err = statNames(r.Entries())
			return err
		})
	return strings.Join(names, "\n"), err
}

func glob(ctx context.Context, d *vat.Cap, pattern string) (string, error) {
	var names []string
	err := vat.Do(ctx, d, schema.Dir_glob, func(p schema.Dir_glob_Params, _ *vat.Caps) error { return p.SetPattern(pattern) },
		func(r schema.Dir_glob_Results, _ *vat.Caps) (err error) {
			names, err = statNames(r.Entries())
			return err
		})
	return strings.Join(names, "\n"), err
}

// statNames returns the names of a page, as "name (raw bytes)" if there are raw
// bytes.
func statNames(l schema.Stat_List, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	var out []string
	for i := range l.Len() {
		name, err := l.At(i).Name()
		if err != nil {
			return nil, err
		}
		if raw, err := l.At(i).RawName(); err != nil {
			return nil, err
		} else if len(raw) > 0 {
			name += fmt.Sprintf(" (%x)", raw)
		}
		out = append(out, name)
	}
	return out, nil
}

func nodeText(n schema.Node, err error) (string, error) {
	if err != nil {
		return "", err
	}
	if n.Which() != schema.Node_Which_link {
		return n.Which().String(), nil
	}
	l, err := n.Link()
	if err != nil {
		return "", err
	}
	target, err := l.Target()
	return fmt.Sprintf("link %q outside=%v", target, l.Outside()), err
}

// try does an operation, and returns its answer and its error with its code.
func try(ctx context.Context, op string, d *vat.Cap, path string) (string, error) {
	do, there := operations[op]
	if !there {
		return "", vfs.Errorf(vfs.Internal, "no such operation: %s", op)
	}
	text, err := do(ctx, d, path)
	return text, wire.Decode(err)
}

// sink receives what a file streams.
type sink struct{ syncBuffer }

var sinkTable = vat.NewTable(
	vat.Handle(schema.Sink_write, func(s *sink, c vat.Call[schema.Sink_write_Params, vat.Empty]) error {
		b, err := c.Params().Data()
		s.Write(b)
		return err
	}),
	vat.Handle(schema.Sink_done, func(*sink, vat.Call[schema.Sink_done_Params, schema.Sink_done_Results]) error { return nil }),
)
