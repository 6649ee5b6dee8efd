//go:build linux

package tests

import (
	"fmt"
	"strings"

	"capnproto.org/go/capnp/v3"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// Questions to a Session, a Dir and a Revoker: one function for each method.

// restoreDir restores secret in every possible way. It returns the answer of the method restoreDir.
func (a *asker) restoreDir(whose string, secret []byte) dirCap {
	a.Helper()
	caps := open(a, a.session, "session.restore "+whose, schema.Session_restore, func(p schema.Session_restore_Params, _ *vat.Caps) error {
		return p.SetSecret(secret)
	}, at(schema.Session_restore_Results_ref, schema.Ref_dir))
	a.statDir(dirCap{caps[0], "restored " + whose}, false)
	open(a, a.session, "session.restorePetitioner "+whose, schema.Session_restorePetitioner, func(p schema.Session_restorePetitioner_Params, _ *vat.Caps) error {
		return p.SetSecret(secret)
	})
	open(a, a.session, "session.restoreFile "+whose, schema.Session_restoreFile, func(p schema.Session_restoreFile_Params, _ *vat.Caps) error {
		return p.SetSecret(secret)
	})
	caps = open(a, a.session, "session.restoreDir "+whose, schema.Session_restoreDir, func(p schema.Session_restoreDir_Params, _ *vat.Caps) error {
		return p.SetSecret(secret)
	}, at(schema.Session_restoreDir_Results_dir))
	return dirCap{caps[0], whose}
}

func (a *asker) restoreFile(whose string, secret []byte) fileCap {
	a.Helper()
	open(a, a.session, "session.restoreDir "+whose, schema.Session_restoreDir, func(p schema.Session_restoreDir_Params, _ *vat.Caps) error {
		return p.SetSecret(secret)
	})
	caps := open(a, a.session, "session.restoreFile "+whose, schema.Session_restoreFile, func(p schema.Session_restoreFile_Params, _ *vat.Caps) error {
		return p.SetSecret(secret)
	}, at(schema.Session_restoreFile_Results_file))
	return fileCap{caps[0], whose}
}

// share returns the secret, which differs each time. A nil c means no capability.
func (a *asker) share(what string, c *vat.Cap, isFile bool) (secret []byte, r revokerCap) {
	a.Helper()
	a.asked[schema.Session_share.Name] = true
	answer := vat.Send(a.ctx, a.session, schema.Session_share, func(p schema.Session_share_Params, caps *vat.Caps) error {
		ref, err := p.NewRef()
		if err != nil || c == nil {
			return err
		}
		if isFile {
			return ref.SetFile(caps.Put(c.AddRef()))
		}
		return ref.SetDir(caps.Put(c.AddRef()))
	})
	defer answer.Release()
	r = revokerCap{a.hold(answer.Cap(schema.Session_share_Results_revoker)), "share of " + what}
	res, _, err := answer.Await(a.ctx)
	if err == nil {
		var b []byte
		b, err = res.Secret()
		secret = append(secret, b...)
	}
	text := fmt.Sprintf("a secret of %d bytes", len(secret))
	if err != nil {
		text = a.exception(err)
	}
	a.heard = append(a.heard, exchange{"session.share " + what, text})
	return secret, r
}

type helpable interface {
	~capnp.StructKind
	SetMethod(string) error
}

type helpful interface {
	~capnp.StructKind
	Text() (string, error)
}

func askHelp[P helpable, R helpful](a *asker, on *vat.Cap, m vat.Method[P, R], method string) {
	a.Helper()
	ask(a, on, m.Name+" "+method, m, func(p P, _ *vat.Caps) error { return p.SetMethod(method) },
		func(r R, _ *vat.Caps) (string, error) { return r.Text() })
}

// list also returns the entries, for further questions.
func (a *asker) list(d dirCap, after string, limit uint32, withStat bool) (entries []vfs.Entry) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.list after %q limit %d withStat %v", d.how, after, limit, withStat), schema.Dir_list, func(p schema.Dir_list_Params, _ *vat.Caps) error {
		p.SetLimit(limit)
		p.SetWithStat(withStat)
		return p.SetAfter([]byte(after))
	}, func(r schema.Dir_list_Results, _ *vat.Caps) (string, error) {
		l, err := r.Entries()
		if err != nil {
			return "", err
		}
		for i := range l.Len() {
			name, err := wire.Name(l.At(i))
			if err != nil {
				return "", err
			}
			entries = append(entries, vfs.Entry{Name: name, Kind: wire.KindOf(l.At(i).Type())})
		}
		text, err := statsText(l, nil)
		return fmt.Sprintf("more %v: %s", r.More(), text), err
	})
	return entries
}

// readMany reads several files with one call.
func (a *asker) readMany(d dirCap, paths ...string) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.readMany %q", d.how, paths), schema.Dir_readMany, func(p schema.Dir_readMany_Params, _ *vat.Caps) error {
		return wire.SetTexts(paths, p.NewPaths)
	}, func(r schema.Dir_readMany_Results, _ *vat.Caps) (string, error) {
		files, err := r.Files()
		if err != nil {
			return "", err
		}
		var all []string
		for i := range files.Len() {
			why, _ := files.At(i).Error()
			what, err := bytesText(files.At(i).Data())
			if err != nil {
				return "", err
			}
			v, err := versionText(files.At(i).Version())
			if err != nil {
				return "", err
			}
			all = append(all, what+" "+v+" "+why)
		}
		return strings.Join(all, "; "), nil
	})
}

// changes asks what has changed. Whether it is all that did depends on the store.
func (a *asker) changes(d dirCap, cursor []byte) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.changes %q", d.how, cursor), schema.Dir_changes, func(p schema.Dir_changes_Params, _ *vat.Caps) error {
		return p.SetCursor(cursor)
	}, func(r schema.Dir_changes_Results, _ *vat.Caps) (string, error) {
		all, err := r.Events()
		return fmt.Sprint(all.Len(), r.Rescan()), err
	})
}

// changedSince asks whether paths are not there.
func (a *asker) changedSince(d dirCap, paths ...string) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.changedSince %q", d.how, paths), schema.Dir_changedSince, func(p schema.Dir_changedSince_Params, _ *vat.Caps) error {
		return wire.SetAll(paths, p.NewKnown, func(k schema.Known, path string) error { return k.SetPath(path) })
	}, func(r schema.Dir_changedSince_Results, _ *vat.Caps) (string, error) {
		changed, err := r.Changed()
		if err != nil {
			return "", err
		}
		all := fmt.Sprint(r.Looked())
		for i := range changed.Len() {
			why, _ := changed.At(i).Error()
			v, err := versionText(changed.At(i).Version())
			if err != nil {
				return "", err
			}
			all += fmt.Sprintf("; %d %s %s", changed.At(i).Index(), v, why)
		}
		return all, nil
	})
}

// openNoFollow opens path itself, not following a link, as a directory and as a file.
func (a *asker) openNoFollow(d dirCap, path string) {
	a.Helper()
	open(a, d.Cap, fmt.Sprintf("%s.openDir %q noFollow", d.how, path), schema.Dir_openDir, func(p schema.Dir_openDir_Params, _ *vat.Caps) error {
		p.SetNoFollow(true)
		return p.SetPath(path)
	})
	open(a, d.Cap, fmt.Sprintf("%s.openFile %q noFollow", d.how, path), schema.Dir_openFile, func(p schema.Dir_openFile_Params, _ *vat.Caps) error {
		p.SetNoFollow(true)
		return p.SetPath(path)
	})
}

func (a *asker) get(d dirCap, name string) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.get %q", d.how, name), schema.Dir_get, func(p schema.Dir_get_Params, _ *vat.Caps) error {
		return p.SetName(name)
	}, func(r schema.Dir_get_Results, _ *vat.Caps) (string, error) { return wholeNode(r.Node()) })
}

func (a *asker) walk(d dirCap, path string, noFollow, statOnly bool) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.walk %q noFollow %v statOnly %v", d.how, path, noFollow, statOnly), schema.Dir_walk, func(p schema.Dir_walk_Params, _ *vat.Caps) error {
		p.SetNoFollow(noFollow)
		p.SetStatOnly(statOnly)
		return p.SetPath(path)
	}, func(r schema.Dir_walk_Results, _ *vat.Caps) (string, error) { return wholeNode(r.Node()) })
}

func (a *asker) openDir(d dirCap, path string) dirCap {
	a.Helper()
	how := fmt.Sprintf("%s.openDir %q", d.how, path)
	caps := open(a, d.Cap, how, schema.Dir_openDir, func(p schema.Dir_openDir_Params, _ *vat.Caps) error { return p.SetPath(path) }, at(schema.Dir_openDir_Results_dir))
	return dirCap{caps[0], how}
}

func (a *asker) subDir(d dirCap, path string) dirCap {
	a.Helper()
	how := fmt.Sprintf("%s.subDir %q", d.how, path)
	caps := open(a, d.Cap, how, schema.Dir_subDir, func(p schema.Dir_subDir_Params, _ *vat.Caps) error { return p.SetPath(path) }, at(schema.Dir_subDir_Results_dir))
	return dirCap{caps[0], how}
}

func (a *asker) readOnlyDir(d dirCap) dirCap {
	a.Helper()
	how := d.how + ".readOnly"
	return dirCap{open(a, d.Cap, how, schema.Dir_readOnly, nil, at(schema.Dir_readOnly_Results_dir))[0], how}
}

func (a *asker) revocableDir(d dirCap) (dirCap, revokerCap) {
	a.Helper()
	how := d.how + ".revocable"
	caps := open(a, d.Cap, how, schema.Dir_revocable, nil, at(schema.Dir_revocable_Results_dir), at(schema.Dir_revocable_Results_revoker))
	return dirCap{caps[0], how}, revokerCap{caps[1], how}
}

func (a *asker) revoke(r revokerCap) {
	a.Helper()
	ask(a, r.Cap, r.how+" revoke", schema.Revoker_revoke, nil, nil)
}

func (a *asker) openFile(d dirCap, path string) fileCap {
	a.Helper()
	how := fmt.Sprintf("%s.openFile %q", d.how, path)
	caps := open(a, d.Cap, how, schema.Dir_openFile, func(p schema.Dir_openFile_Params, _ *vat.Caps) error { return p.SetPath(path) }, at(schema.Dir_openFile_Results_file))
	return fileCap{caps[0], how}
}

func (a *asker) statDir(d dirCap, withVersion bool) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.stat withVersion %v", d.how, withVersion), schema.Dir_stat, func(p schema.Dir_stat_Params, _ *vat.Caps) error {
		p.SetWithVersion(withVersion)
		return nil
	}, func(r schema.Dir_stat_Results, _ *vat.Caps) (string, error) { return statText(r.Stat()) })
}

func (a *asker) glob(d dirCap, pattern, after string, limit uint32) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.glob %q after %q limit %d", d.how, pattern, after, limit), schema.Dir_glob, func(p schema.Dir_glob_Params, _ *vat.Caps) error {
		p.SetLimit(limit)
		return firstError(p.SetPattern(pattern), p.SetAfter([]byte(after)))
	}, func(r schema.Dir_glob_Results, _ *vat.Caps) (string, error) {
		text, err := statsText(r.Entries())
		if err != nil {
			return "", err
		}
		cursor, err := r.Cursor()
		return fmt.Sprintf("more %v cursor %q: %s", r.More(), cursor, text), err
	})
}

// shape asks for a tree.
func (a *asker) shape(d dirCap, path string, depth, limit, maxBytes uint32, flags [3]bool) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.tree %q depth %d limit %d bytes %d %v", d.how, path, depth, limit, maxBytes, flags), schema.Dir_tree, func(p schema.Dir_tree_Params, _ *vat.Caps) error {
		p.SetDepth(depth)
		p.SetLimit(limit)
		p.SetMaxBytes(maxBytes)
		p.SetIgnoreFiles(flags[0])
		p.SetNoHidden(flags[1])
		p.SetWithStat(flags[2])
		return p.SetPath(path)
	}, func(r schema.Dir_tree_Results, _ *vat.Caps) (string, error) {
		l, err := r.Branches()
		var b strings.Builder
		for i := range l.Len() {
			st, err := l.At(i).Stat()
			if err != nil {
				return "", err
			}
			name, err := st.Name()
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "%d %q %v %d more %d %v left %d; ", l.At(i).Depth(), name, st.Type(), st.SizeBytes(), l.At(i).More(), l.At(i).AtLeast(), l.At(i).Left())
		}
		return b.String(), err
	})
}

// globLeaving leaves out what ignore files name, or hidden names.
func (a *asker) globLeaving(d dirCap, pattern string, ignored, hidden bool) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.glob %q ignoreFiles %v noHidden %v", d.how, pattern, ignored, hidden), schema.Dir_glob, func(p schema.Dir_glob_Params, _ *vat.Caps) error {
		p.SetIgnoreFiles(ignored)
		p.SetNoHidden(hidden)
		return p.SetPattern(pattern)
	}, func(r schema.Dir_glob_Results, _ *vat.Caps) (string, error) {
		text, err := statsText(r.Entries())
		return fmt.Sprintf("more %v: %s", r.More(), text), err
	})
}

// grep asks for a page of 2, with everything else left to flags.
func (a *asker) grep(d dirCap, path, pattern, after string, flags uint) {
	a.Helper()
	ask(a, d.Cap, fmt.Sprintf("%s.grep %q below %q after %q flags %b", d.how, pattern, path, after, flags), schema.Dir_grep, func(p schema.Dir_grep_Params, _ *vat.Caps) error {
		p.SetLimit(2)
		w, err := p.NewWhat()
		if err != nil {
			return err
		}
		w.SetIgnoreCase(flags&1 != 0)
		w.SetWords(flags&2 != 0)
		w.SetIgnoreFiles(flags&4 != 0)
		w.SetNoHidden(flags&8 != 0)
		w.SetShow(schema.Grep_Show(flags >> 4))
		w.SetBefore(1)
		w.SetBehind(1)
		return firstError(w.SetPattern(pattern), p.SetPath(path), p.SetAfter([]byte(after)))
	}, func(r schema.Dir_grep_Results, _ *vat.Caps) (string, error) {
		cursor, err := r.Cursor()
		text := fmt.Sprintf("more %v cursor %q:", r.More(), cursor)
		found, err := afterFirst(r.Found())(err)
		if err != nil {
			return "", err
		}
		for i := range found.Len() {
			f := found.At(i)
			name, err := wire.FoundName(f)
			lines, err := afterFirst(f.Lines())(err)
			if err != nil {
				return "", err
			}
			text += fmt.Sprintf(" %q %d %v", name, f.Count(), f.Binary())
			for i := range lines.Len() {
				l := lines.At(i)
				t, err := l.Text()
				if err != nil {
					return "", err
				}
				text += fmt.Sprintf(" %d%v%q", l.Number(), l.Match(), t)
			}
		}
		return text, nil
	})
}

// afterFirst returns v, unless there is an error before.
func afterFirst[T any](v T, err error) func(before error) (T, error) {
	return func(before error) (T, error) { return v, firstError(before, err) }
}

func (a *asker) tree(what string, d dirCap) {
	a.Helper()
	before := len(a.heard)
	var below func(d dirCap)
	below = func(d dirCap) {
		for _, e := range a.list(d, "", 0, true) {
			switch e.Kind {
			case vfs.DirKind:
				below(a.openDir(d, e.Name))
			case vfs.FileKind:
				a.readBytes(a.openFile(d, e.Name))
			case vfs.LinkKind:
				a.walk(d, e.Name, true, false)
			}
		}
	}
	below(d)
	var all strings.Builder
	for _, e := range a.heard[before:] {
		fmt.Fprintf(&all, "\n    %s: %s", e.question, e.answer)
	}
	a.heard = append(a.heard[:before], exchange{"all of " + what, all.String()})
}

// wipe removes everything below a Dir, and records nothing.
func (a *asker) wipe(d dirCap) {
	a.Helper()
	before := len(a.heard)
	for _, e := range a.list(d, "", 0, false) {
		if e.Kind == vfs.DirKind {
			a.wipe(a.openDir(d, e.Name))
		}
		a.remove(d, e.Name, condition{})
	}
	a.heard = a.heard[:before]
}
