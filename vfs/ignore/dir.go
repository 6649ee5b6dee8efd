// Package ignore decides which names of a tree its ignore files leave out. It reads them as
// git does (gitignore(5)). It knows three files in a directory:
//
//   - .gitignore, for the directory and what is below it. The file that is deepest comes
//     first, and in a file the last rule that matches.
//   - .ignore, in the same form, which comes before every .gitignore. It is for what is in
//     the repository and yet not wanted in searches, or the other way round. ripgrep and fd
//     read it too.
//   - .git/info/exclude, which comes after every .gitignore of its repository.
//
// What git keeps for all repositories of a user is not in the tree, and does not count. A
// directory that has an entry .git is a repository of its own: what the .gitignore files
// above it say does not count there. The name .git itself is always left out. A link is
// no directory, and an ignore file that is a link does not count, both as in git.
package ignore

import "slices"

// Dir is what ignore files say about the names of one directory. A walk has one for each
// directory that it is in, and makes each of the one above it with [Dir.Enter] and
// [Dir.Load]. It does not enter a directory that is left out, so no rule can take back what is
// below. A Dir does not change, and several goroutines may use it. The zero Dir leaves out
// the name .git alone.
type Dir struct {
	own     *level // .ignore
	git     *level // .gitignore
	exclude *level // .git/info/exclude

	live, width int // rules of all levels, and the tokens of their patterns with asterisks
}

// level is the rules of one file, in a directory at or below that of the file.
type level struct {
	rules *Rules
	paths []partly // the rules with a slash that may match in this directory or below
	up    *level   // of a directory above
}

// partly is a rule of which a part has matched the names above.
type partly struct {
	*ruled
	at []uint16
}

// Rules returns how many rules count in the directory.
func (d *Dir) Rules() int { return d.live }

// Ignored reports whether an entry of the directory is left out.
func (d *Dir) Ignored(name string, isDir bool) bool {
	ignored, _ := d.Compare(name, isDir)
	return ignored
}

// Compare is Ignored, and returns how many steps it took: about as many as there are
// patterns to compare, and at most the bytes of the name times their characters.
func (d *Dir) Compare(name string, isDir bool) (ignored bool, steps int) {
	if name == ".git" {
		return true, 0
	}
	if d.live == 0 || name == "" {
		return false, 0
	}
	var memory [2][32]uint16
	b := buffers{memory[0][:], memory[1][:]}
	for _, first := range [...]*level{d.own, d.git, d.exclude} {
		for l := first; l != nil; l = l.up {
			rule, took := l.last(b, name, isDir)
			steps += took
			if rule > 0 {
				return !l.rules.keeps[rule-1], steps
			}
		}
	}
	return false, steps
}

// last returns the last rule that matches a name, or 0.
func (l *level) last(b buffers, name string, isDir bool) (best int32, steps int) {
	best, steps = l.rules.named(b, name, isDir)
	for i := len(l.paths) - 1; i >= 0 && l.paths[i].rule > best; i-- {
		p := &l.paths[i]
		if p.dirs && !isDir {
			continue
		}
		at, took := p.glob.after(b, p.at, name)
		steps += took
		if p.glob.ends(at) {
			return p.rule, steps
		}
	}
	return best, steps
}

// Enter returns what counts in the directory called name, without its own ignore files; see
// [Dir.Load].
func (d *Dir) Enter(name string) *Dir {
	if d.live == 0 {
		return d
	}
	below := &Dir{own: d.own.enter(name), git: d.git.enter(name), exclude: d.exclude.enter(name)}
	if below.own == d.own && below.git == d.git && below.exclude == d.exclude {
		return d
	}
	below.count()
	return below
}

// enter returns the levels from l up in the directory called name. It leaves out those in
// which nothing can match any more.
func (l *level) enter(name string) *level {
	if l == nil {
		return nil
	}
	up := l.up.enter(name)
	if len(l.paths) == 0 && up == l.up {
		return l
	}
	var paths []partly
	for i := range l.paths {
		p := &l.paths[i]
		at, _ := p.glob.after(buffers{}, p.at, name)
		if at = p.glob.step(nil, at, '/'); len(at) > 0 {
			paths = append(paths, partly{p.ruled, at})
		}
	}
	if len(paths) == 0 && l.rules.everywhere() == 0 {
		return up
	}
	return &level{l.rules, paths, up}
}

// everywhere returns how many names and patterns of names r has.
func (r *Rules) everywhere() int { return len(r.names) + len(r.exts) + len(r.globs) }

// with returns levels with one more for the file with the rules r. up are those above.
func with(r *Rules, up *level) *level {
	paths := make([]partly, len(r.paths))
	for i := range r.paths {
		paths[i] = partly{&r.paths[i], r.paths[i].start}
	}
	return &level{r, slices.Clip(paths), up}
}

// count counts the rules of d.
func (d *Dir) count() {
	d.live, d.width = 0, 0
	for _, first := range [...]*level{d.own, d.git, d.exclude} {
		for l := first; l != nil; l = l.up {
			d.live += l.rules.everywhere() + len(l.paths)
			d.width += l.rules.width
		}
	}
}
