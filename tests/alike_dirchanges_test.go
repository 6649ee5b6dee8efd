//go:build linux

package tests

import (
	"fmt"

	schema "capd/capnp"
	"capd/vat"
)

// Questions to a Dir that change something.

func (a *asker) put(d dirCap, path, data string, c condition, noFollow bool) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.put %q (%d bytes) %v noFollow %v", d.how, path, len(data), c, noFollow), schema.Dir_put, func(p schema.Dir_put_Params, caps *vat.Caps) error {
		p.SetNoFollow(noFollow)
		return firstError(p.SetPath(path), caps.SetData(schema.Dir_put_Params_data, []byte(data)), c.set(p.NewIfVersion))
	}, func(r schema.Dir_put_Results, _ *vat.Caps) (string, error) { return versionText(r.Version()) })
}

func (a *asker) stage(d dirCap, path string, c condition, noFollow bool) writerCap {
	a.Helper()
	how := fmt.Sprintf("%s.stage %q %v noFollow %v", d.how, path, c, noFollow)
	caps := open(a, d.Cap, how, schema.Dir_stage, func(p schema.Dir_stage_Params, _ *vat.Caps) error {
		p.SetNoFollow(noFollow)
		return firstError(p.SetPath(path), c.set(p.NewIfVersion))
	}, at(schema.Dir_stage_Results_writer))
	return writerCap{caps[0], how}
}

func (a *asker) createDir(d dirCap, path string) dirCap {
	a.Helper()
	how := fmt.Sprintf("%s.createDir %q", d.how, path)
	caps := open(a, d.Cap, how, schema.Dir_createDir, func(p schema.Dir_createDir_Params, _ *vat.Caps) error { return p.SetPath(path) }, at(schema.Dir_createDir_Results_dir))
	return dirCap{caps[0], how}
}

func (a *asker) temp(d dirCap) dirCap {
	a.Helper()
	how := d.how + ".temp"
	caps := open(a, d.Cap, how, schema.Dir_temp, nil, at(schema.Dir_temp_Results_dir))
	return dirCap{caps[0], how}
}

func (a *asker) symlink(d dirCap, path, target string) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.symlink %q to %.80q", d.how, path, target), schema.Dir_symlink, func(p schema.Dir_symlink_Params, _ *vat.Caps) error {
		return firstError(p.SetPath(path), p.SetTarget(target))
	}, nil)
}

func (a *asker) createFile(d dirCap, path string) fileCap {
	a.Helper()
	how := fmt.Sprintf("%s.createFile %q", d.how, path)
	caps := open(a, d.Cap, how, schema.Dir_createFile, func(p schema.Dir_createFile_Params, _ *vat.Caps) error { return p.SetPath(path) }, at(schema.Dir_createFile_Results_file))
	return fileCap{caps[0], how}
}

func (a *asker) remove(d dirCap, path string, c condition) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.remove %q %v", d.how, path, c), schema.Dir_remove, func(p schema.Dir_remove_Params, _ *vat.Caps) error {
		return firstError(p.SetPath(path), c.set(p.NewIfVersion))
	}, nil)
}

// move moves path to newPath below dst. A dst without a capability is sent as null.
func (a *asker) move(d dirCap, path string, dst dirCap, newPath string, from, to condition) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.move %q to %q in %q, %v, target %v", d.how, path, newPath, dst.how, from, to), schema.Dir_move, func(p schema.Dir_move_Params, caps *vat.Caps) error {
		if dst.Cap != nil {
			if err := p.SetDst(caps.Put(dst.AddRef())); err != nil {
				return err
			}
		}
		return firstError(p.SetPath(path), p.SetNewPath(newPath), from.set(p.NewIfVersion), to.set(p.NewIfTarget))
	}, nil)
}

// archive asks for an archive, of which the size is compared.
func (a *asker) archive(d dirCap, path, format string) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.archive %q as %q", d.how, path, format), schema.Dir_archive, func(p schema.Dir_archive_Params, caps *vat.Caps) error {
		return firstError(p.SetPath(path), p.SetFormat(format), p.SetSink(caps.Put(vat.Serve(sinkTable, &sink{}))))
	}, func(r schema.Dir_archive_Results, _ *vat.Caps) (string, error) {
		l, err := r.Missed()
		return fmt.Sprintf("%d entries, %d missed", r.Entries(), l.Len()), err
	})
}

// extract extracts path to newPath below dst. A dst without a capability is sent as null.
func (a *asker) extract(d dirCap, path string, dst dirCap, newPath string) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.extract %q to %q in %q", d.how, path, newPath, dst.how), schema.Dir_extract, func(p schema.Dir_extract_Params, caps *vat.Caps) error {
		if dst.Cap != nil {
			if err := p.SetDst(caps.Put(dst.AddRef())); err != nil {
				return err
			}
		}
		return firstError(p.SetPath(path), p.SetNewPath(newPath))
	}, func(r schema.Dir_extract_Results, _ *vat.Caps) (string, error) {
		return fmt.Sprintf("%d entries, %d bytes", r.Entries(), r.SizeBytes()), nil
	})
}

// copy copies path to newPath below dst. A dst without a capability is sent as null.
func (a *asker) copy(d dirCap, path string, dst dirCap, newPath string, from, to condition, over bool) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.copy %q to %q in %q, %v, target %v, over %v", d.how, path, newPath, dst.how, from, to, over), schema.Dir_copy, func(p schema.Dir_copy_Params, caps *vat.Caps) error {
		p.SetReplace(over)
		if dst.Cap != nil {
			if err := p.SetDst(caps.Put(dst.AddRef())); err != nil {
				return err
			}
		}
		return firstError(p.SetPath(path), p.SetNewPath(newPath), from.set(p.NewIfVersion), to.set(p.NewIfTarget))
	}, func(r schema.Dir_copy_Results, _ *vat.Caps) (string, error) {
		return fmt.Sprintf("%d entries, %d bytes", r.Entries(), r.SizeBytes()), nil
	})
}

// moveOver is move with replace, in one Dir.
func (a *asker) moveOver(d dirCap, path, newPath string, to condition) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.move %q over %q, target %v", d.how, path, newPath, to), schema.Dir_move, func(p schema.Dir_move_Params, _ *vat.Caps) error {
		p.SetReplace(true)
		return firstError(p.SetPath(path), p.SetNewPath(newPath), to.set(p.NewIfTarget))
	}, nil)
}

// tree asks for everything below a Dir, so that the effects of changes are compared, too. It
// records one answer, since each question depends on the answers before.
