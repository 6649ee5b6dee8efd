package git

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/config"

	"capd/vfs"
)

// layout is the directories of a repository (gitrepository-layout(5)).
type layout struct {
	git    hostDir // HEAD and the index of this worktree
	common hostDir // objects, refs and the configuration of all worktrees
	bare   bool    // it has no main working tree
	file   string  // the .git file that named git, if any

	root *os.Root // common, for writing: links that lead out of it are not followed; nil until opened
}

func (l layout) close() {
	if l.root != nil {
		l.root.Close()
	}
}

// open finds the repository at dir, and opens the directories it has to hold open.
func open(dir string, o Options) (layout, error) {
	l, err := locate(dir)
	switch {
	case err != nil:
		return layout{}, err
	case o.Confined:
		return confine(dir, l)
	case o.Writable:
		if l.root, err = os.OpenRoot(l.common.path); err != nil {
			return layout{}, ambient(err)
		}
	}
	return l, nil
}

// locate finds the repository at dir: a bare one, a .git directory, or that of a
// working tree.
func locate(dir string) (layout, error) {
	if isRepository(dir) {
		return layoutOf(dir).complete()
	}
	dotGit := filepath.Join(dir, ".git")
	info, err := os.Stat(dotGit)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDir) {
		info, err = os.Stat(dir) // dir may be the .git file of a worktree
		dotGit = dir
		if err == nil && info.IsDir() {
			return layout{}, vfs.Errorf(vfs.NotFound, "%s is no git repository", dir)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDir):
		return layout{}, vfs.Errorf(vfs.NotFound, "there is no %s; name the directory of a git repository", dir)
	case err != nil:
		return layout{}, ambient(err)
	case info.IsDir() && isRepository(dotGit):
		return layoutOf(dotGit).complete()
	case !info.Mode().IsRegular():
		return layout{}, vfs.Errorf(vfs.NotFound, "%s is no git repository", dir)
	}
	line, err := hostDir{path: filepath.Dir(dotGit)}.readSmall(filepath.Base(dotGit))
	if err != nil {
		return layout{}, ambient(err)
	}
	to, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "gitdir: ")
	if !ok {
		return layout{}, vfs.Errorf(vfs.NotFound, "%s is not the .git file of a worktree", dotGit)
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(dotGit), to)
	}
	if !isRepository(to) {
		return layout{}, vfs.Errorf(vfs.NotFound, "%s says that its repository is %s, where there is none", dotGit, to)
	}
	l := layoutOf(to)
	l.file = dotGit
	return l.complete()
}

// isRepository is git's own test: a HEAD, and objects and refs there or in the common
// directory.
func isRepository(dir string) bool {
	l := layoutOf(dir)
	_, err := l.git.lstat("HEAD")
	return err == nil && l.common.isDir("objects") && l.common.isDir("refs")
}

// layoutOf returns the directories that gitDir names, or gitDir alone if its commondir
// cannot be read.
func layoutOf(gitDir string) layout {
	l := layout{git: hostDir{path: gitDir}, common: hostDir{path: gitDir}}
	if line, err := l.git.readSmall("commondir"); err == nil {
		l.common.path = strings.TrimRight(line, "\r\n")
		if !filepath.IsAbs(l.common.path) {
			l.common.path = filepath.Join(gitDir, l.common.path)
		}
	}
	return l
}

// complete reads the configuration. Like git it refuses what it does not know how to
// read.
func (l layout) complete() (layout, error) {
	if _, err := l.git.readSmall("commondir"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return layout{}, ambient(err)
	}
	text, err := l.common.readSmall("config")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return layout{}, ambient(err)
	}
	cfg, err := parseConfig(text)
	if err != nil {
		return layout{}, vfs.Errorf(vfs.Corrupt, "the configuration of %s cannot be read: %v", l.common.path, err)
	}
	core := cfg.Section("core")
	switch core.Option("repositoryformatversion") {
	case "", "0", "1":
	default:
		return layout{}, vfs.Errorf(vfs.Unsupported, "%s has a repository format that capd does not know", l.common.path)
	}
	for _, o := range cfg.Section("extensions").Options {
		if err := knownExtension(strings.ToLower(o.Key), strings.ToLower(o.Value)); err != nil {
			return layout{}, err
		}
	}
	switch bare := strings.ToLower(core.Option("bare")); bare {
	case "true", "yes", "on", "1":
		l.bare = !core.HasOption("worktree")
	case "":
		l.bare = filepath.Base(l.common.path) != ".git" && !core.HasOption("worktree")
	}
	return l, nil
}

// knownExtension answers unsupported for an unknown extension, since it may change what
// is stored or where.
func knownExtension(key, value string) error {
	switch key {
	case "noop", "noop-v1", "preciousobjects", "partialclone", "worktreeconfig", "relativeworktrees":
		return nil
	case "objectformat":
		if value == "sha1" {
			return nil
		}
		return vfs.Errorf(vfs.Unsupported, "this repository names objects by %s; capd reads only sha1 repositories", vfs.Printable(value))
	case "refstorage":
		if value == "files" {
			return nil
		}
		return vfs.Errorf(vfs.Unsupported, "this repository keeps its refs as %s; run git refs migrate --ref-format=files", vfs.Printable(value))
	}
	return vfs.Errorf(vfs.Unsupported, "this repository needs the extension %s, which capd does not know", vfs.Printable(key))
}

func parseConfig(text string) (cfg *config.Config, err error) {
	defer func() {
		if p := recover(); p != nil { // the parser is not ours, and the text may be anything
			err = fmt.Errorf("%v", p)
		}
	}()
	cfg = config.New()
	return cfg, config.NewDecoder(strings.NewReader(text)).Decode(cfg)
}
