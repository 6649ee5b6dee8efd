package patch

import (
	"regexp"
	"strconv"
	"strings"

	"capd/vfs"
)

// unified reads the unified diffs of a text. Whatever is between them, such as the message of a mail, is skipped.
func (r *reader) unified(p *Patch) error {
	for r.more() {
		var f File
		var err error
		switch l := r.peek(0); {
		case strings.HasPrefix(l, "diff --git "):
			f, err = r.gitFile()
		case r.isHeader():
			f, err = r.plainFile()
		case header.MatchString(l):
			return r.bad(vfs.Invalid, `a hunk has no file; "--- NAME" and "+++ NAME" come before it`)
		case strings.HasPrefix(l, "Binary files ") && strings.HasSuffix(strings.TrimSuffix(l, "\r"), " differ"):
			return r.bad(vfs.Unsupported, errBinary)
		default:
			r.at++
			continue
		}
		if err == nil {
			err = r.add(p, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const errBinary = "binary patches are not supported; put the file"

// isHeader reports whether the two lines that name a file are next.
func (r *reader) isHeader() bool {
	return strings.HasPrefix(r.peek(0), "--- ") && strings.HasPrefix(r.peek(1), "+++ ")
}

// header is the first line of a hunk. Its numbers may be left out.
var header = regexp.MustCompile(`^@@(?: -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@.*| .*@@.*|\s*)$`)

// gitFile reads a diff that begins as git's do.
func (r *reader) gitFile() (f File, err error) {
	f.line = r.at + 1
	name, named := sameNames(strings.TrimPrefix(r.peek(0), "diff --git "))
	if named {
		f.Path, f.To = name, name
	}
	for r.at++; r.more(); r.at++ {
		l := r.peek(0)
		if r.isHeader() || header.MatchString(l) || strings.HasPrefix(l, "diff --git ") {
			break
		}
		done, err := r.extended(&f, strings.TrimSuffix(l, "\r"))
		if err != nil {
			return f, err
		}
		if done {
			break
		}
	}
	if r.isHeader() {
		return f, r.named(&f)
	}
	return f, r.complete(&f)
}

// extended reads one of git's extended headers. done says that it is none.
func (r *reader) extended(f *File, l string) (done bool, err error) {
	for _, h := range []struct {
		prefix string
		read   func(value string) (bool, error)
	}{
		{"old mode ", func(v string) (_ bool, err error) { f.Was, err = r.mode(v); return true, err }},
		{"new mode ", func(v string) (_ bool, err error) { f.Is, err = r.mode(v); return true, err }},
		{"deleted file mode ", func(v string) (_ bool, err error) {
			f.Verb, f.whole = Delete, true
			f.Was, err = r.mode(v)
			return true, err
		}},
		{"new file mode ", func(v string) (_ bool, err error) { f.Verb = Create; f.Is, err = r.mode(v); return true, err }},
		{"copy from ", func(v string) (ok bool, _ error) { f.Verb = Copy; f.Path, ok = plainName(v); return ok, nil }},
		{"copy to ", func(v string) (ok bool, _ error) { f.Verb = Copy; f.To, ok = plainName(v); return ok, nil }},
		{"rename from ", func(v string) (ok bool, _ error) { f.Verb = Rename; f.Path, ok = plainName(v); return ok, nil }},
		{"rename to ", func(v string) (ok bool, _ error) { f.Verb = Rename; f.To, ok = plainName(v); return ok, nil }},
		{"similarity index ", nil},
		{"dissimilarity index ", nil},
		{"index ", func(v string) (bool, error) {
			if _, mode, some := strings.Cut(v, " "); some {
				_, err := r.mode(mode)
				return true, err
			}
			return true, nil
		}},
		{"GIT binary patch", func(string) (bool, error) { return true, r.bad(vfs.Unsupported, errBinary) }},
		{"Binary files ", func(string) (bool, error) { return true, r.bad(vfs.Unsupported, errBinary) }},
	} {
		value, is := strings.CutPrefix(l, h.prefix)
		if !is {
			continue
		}
		if h.read != nil {
			var ok bool
			if ok, err = h.read(value); err == nil && !ok {
				err = r.bad(vfs.Invalid, "this name in quotes cannot be read")
			}
		}
		return false, err
	}
	return true, nil
}

// mode reads one of git's modes.
func (r *reader) mode(s string) (Bit, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 8, 32)
	switch {
	case err != nil:
		return 0, r.bad(vfs.Invalid, "this mode cannot be read")
	case n&0o170000 == 0o120000:
		return 0, r.bad(vfs.Unsupported, "a patch cannot change links")
	case n&0o170000 == 0o160000:
		return 0, r.bad(vfs.Unsupported, "a patch cannot change submodules")
	case n&0o170000 != 0o100000:
		return 0, r.bad(vfs.Invalid, "this is not the mode of a file")
	case n&0o100 != 0:
		return Executable, nil
	}
	return Plain, nil
}

// plainFile reads a diff that begins with the names.
func (r *reader) plainFile() (File, error) {
	f := File{line: r.at + 1}
	return f, r.named(&f)
}

// named reads the two names and the hunks.
func (r *reader) named(f *File) error {
	old, ok := fileName(strings.TrimPrefix(r.peek(0), "--- "))
	now, ok2 := fileName(strings.TrimPrefix(r.peek(1), "+++ "))
	if !ok || !ok2 {
		return r.bad(vfs.Invalid, "this name in quotes cannot be read")
	}
	old, now = strip(old, now)
	switch {
	case f.Verb == Rename || f.Verb == Copy: // these names are without doubt
	case old == absent && now == absent:
		return r.bad(vfs.Invalid, "one of the two names must be that of a file")
	case old == absent:
		f.Verb, f.Path, f.To = Create, "", now
	case now == absent:
		f.Verb, f.Path, f.To, f.whole = Delete, old, "", true
	case old != now:
		// Programs other than git name the file that was kept, such as file.orig.
		if f.line != r.at+1 {
			return r.bad(vfs.Invalid, "the two names differ, and the patch does not say that the file is renamed")
		}
		f.Path, f.To = now, now
	default:
		f.Path, f.To = old, old
	}
	r.at += 2
	return r.complete(f)
}

// complete reads the hunks, and checks that the whole says what to do.
func (r *reader) complete(f *File) (err error) {
	for r.more() && header.MatchString(r.peek(0)) {
		h, err := r.hunk()
		if err != nil {
			return err
		}
		f.Hunks = append(f.Hunks, h)
	}
	switch f.Verb {
	case Create:
		f.Path = ""
	case Delete:
		f.To = ""
	}
	what := vfs.Errorf(vfs.Invalid, "line %d of the patch: it does not say which file it changes", f.line)
	switch {
	case f.Name() == "", (f.Verb == Rename || f.Verb == Copy || f.Verb == Modify) && (f.Path == "" || f.To == ""):
		return what
	case f.Verb == Modify && len(f.Hunks) == 0 && f.Is == Unsaid:
		return vfs.At(f.Path, vfs.Errorf(vfs.Invalid, "line %d of the patch: it says nothing that is to change; was it cut off?", f.line))
	case f.Verb == Create && (len(f.Hunks) > 1 || has(f.Hunks, " -")):
		return vfs.At(f.To, vfs.Errorf(vfs.Invalid, "line %d of the patch: a new file has one hunk, of added lines", f.line))
	case f.Verb == Delete && has(f.Hunks, " +"):
		return vfs.At(f.Path, vfs.Errorf(vfs.Invalid, "line %d of the patch: a deleted file has only removed lines", f.line))
	}
	return nil
}

// has reports whether hunks have a line with one of ops.
func has(hunks []Hunk, ops string) bool {
	for _, h := range hunks {
		for _, l := range h.lines {
			if strings.IndexByte(ops, l.op) >= 0 {
				return true
			}
		}
	}
	return false
}
