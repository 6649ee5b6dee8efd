package git

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"capd/vfs"
)

// confine opens the directories of l, which locate found for dir, so that nothing
// outside them is read. If the repository needs anything outside, it answers outside
// and says why.
func confine(dir string, l layout) (layout, error) {
	root, err := os.OpenRoot(dir)
	switch {
	case l.file != "":
		if err == nil {
			root.Close()
		}
		l, root, err = confineLinked(l)
	case err != nil:
	case l.common.path != l.git.path:
		err = leadsOut(l.git.full("commondir"))
	case l.git.path != dir:
		root, err = openDotGit(root, l.git.path)
	}
	if err != nil {
		if root != nil {
			root.Close()
		}
		return layout{}, ambient(err)
	}
	if l.file == "" {
		l.git = hostDir{path: l.git.path, root: root}
		l.common = l.git
	}
	if err = l.staysInside(); err == nil {
		l, err = l.complete()
	}
	if err != nil {
		root.Close()
		return layout{}, err
	}
	l.root = root
	return l, nil
}

func leadsOut(name string) error {
	return vfs.Errorf(vfs.Outside, "%s leads out of its repository; if you mean the repository that it leads to, mount that one by its name", name)
}

// openDotGit opens the .git directory in top. It closes top.
func openDotGit(top *os.Root, name string) (*os.Root, error) {
	defer top.Close()
	info, err := top.Lstat(".git")
	if err == nil && !info.IsDir() {
		err = leadsOut(name)
	}
	if err != nil {
		return nil, err
	}
	return top.OpenRoot(".git")
}

// confineLinked opens the repository that a linked worktree's .git file names, if that
// repository names this worktree (gitrepository-layout(5), worktrees/<id>/gitdir).
func confineLinked(l layout) (layout, *os.Root, error) {
	info, err := os.Lstat(l.file)
	if err != nil {
		return l, nil, err
	}
	own, err := filepath.EvalSymlinks(l.git.path)
	if err != nil {
		return l, nil, err
	}
	common, err := filepath.EvalSymlinks(l.common.path)
	if err != nil {
		return l, nil, err
	}
	if !info.Mode().IsRegular() || filepath.Dir(own) != filepath.Join(common, "worktrees") {
		return l, nil, leadsOut(l.file)
	}
	root, err := os.OpenRoot(common)
	if err != nil {
		return l, nil, err
	}
	l.common = hostDir{path: common, root: root}
	l.git = hostDir{path: own, root: root, at: path.Join("worktrees", filepath.Base(own))}
	line, err := l.git.readSmall("gitdir")
	if err != nil {
		return l, root, err
	}
	back := strings.TrimRight(line, "\r\n")
	if !filepath.IsAbs(back) {
		back = filepath.Join(own, back)
	}
	if !samePlace(back, l.file) {
		return l, root, leadsOut(l.file)
	}
	return l, root, nil
}

// samePlace reports whether two paths are the same name in the same directory.
// Comparing the files is not enough: a file may have several names.
func samePlace(a, b string) bool {
	in, err := filepath.EvalSymlinks(filepath.Dir(a))
	if err != nil {
		return false
	}
	other, err := filepath.EvalSymlinks(filepath.Dir(b))
	return err == nil && in == other && filepath.Base(a) == filepath.Base(b)
}

// staysInside answers outside for links that lead out of the repository. Links that it
// does not look at are refused when they are opened.
func (l layout) staysInside() error {
	if _, err := l.git.stat("HEAD"); escapes(err) {
		return leadsOut(l.git.full("HEAD"))
	}
	for _, name := range []string{"config", "packed-refs", "objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags", "refs/remotes", "refs/replace"} {
		if _, err := l.common.stat(name); escapes(err) {
			return leadsOut(l.common.full(name))
		}
	}
	return nil
}
