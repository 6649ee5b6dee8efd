package grep

import (
	"strings"

	"capd/vfs"
	"capd/vfs/ignore"
)

// ruled is what ignore files say in a directory.
type ruled struct {
	dir   string
	rules *ignore.Dir
}

// leavesOut reports whether the search leaves out what is at path.
func (w *walk) leavesOut(path string, isDir bool) bool {
	dir, name := parent(path)
	switch {
	case w.NoHidden && name[0] == '.', w.matches(w.Except, path):
		return true
	case w.Ignore == nil:
		return false
	}
	return w.rulesIn(dir).Ignored(name, isDir)
}

// rulesIn returns what ignore files say in the directory at path. It keeps what they say on
// the way there.
func (w *walk) rulesIn(path string) *ignore.Dir {
	if len(w.rules) == 0 {
		w.rules = append(w.rules, ruled{"", w.load(w.Ignore, "")})
	}
	for len(w.rules) > 1 && !strings.HasPrefix(path+"/", w.rules[len(w.rules)-1].dir+"/") {
		w.rules = w.rules[:len(w.rules)-1]
	}
	for {
		last := w.rules[len(w.rules)-1]
		if last.dir == path {
			return last.rules
		}
		rest := strings.TrimPrefix(path[len(last.dir):], "/")
		name, _, _ := strings.Cut(rest, "/")
		at := vfs.Join(last.dir, name)
		w.rules = append(w.rules, ruled{at, w.load(last.rules.Enter(name), at)})
	}
}

// load returns rules with what the ignore files of the directory at path say.
func (w *walk) load(rules *ignore.Dir, path string) *ignore.Dir {
	d, leave, err := vfs.Descend(w.ctx, w.d, names(path))
	if err != nil {
		return rules // the search of the directory says so
	}
	defer leave()
	rules, read := rules.Load(w.ctx, d, nil, func(name string, err error) { w.miss(vfs.Join(path, name), err) })
	w.left.work -= int64(read)
	return rules
}

// names returns the names of a path; none for "".
func names(path string) []string {
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}
