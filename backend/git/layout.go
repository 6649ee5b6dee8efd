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

// layout says where a repository keeps what (gitrepository-layout(5)).
type layout struct {
	git    string // HEAD and the index: of this worktree
	common string // objects, refs and the configuration: of all worktrees
	bare   bool   // there is no main working tree
}

// maxSmallFile bounds the files of a repository that are read whole, in bytes: the
// configuration, HEAD, a ref.
const maxSmallFile = 1 << 20

// locate finds the repository that dir is: a bare one or a .git directory, or the
// working tree of one.
func locate(dir string) (layout, error) {
	if isRepository(dir) {
		return complete(dir)
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
	case err != nil:
		return layout{}, ambient(err)
	case info.IsDir() && isRepository(dotGit):
		return complete(dotGit)
	case !info.Mode().IsRegular():
		return layout{}, vfs.Errorf(vfs.NotFound, "%s is no git repository", dir)
	}
	line, err := readSmall(dotGit)
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
	return complete(to)
}

// isRepository is git's own test: a HEAD, and objects and refs there or in the
// common directory.
func isRepository(dir string) bool {
	if _, err := os.Lstat(filepath.Join(dir, "HEAD")); err != nil {
		return false
	}
	common := commonDir(dir)
	for _, name := range []string{"objects", "refs"} {
		if info, err := os.Stat(filepath.Join(common, name)); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

func commonDir(gitDir string) string {
	line, err := readSmall(filepath.Join(gitDir, "commondir"))
	if err != nil {
		return gitDir
	}
	common := strings.TrimRight(line, "\r\n")
	if !filepath.IsAbs(common) {
		common = filepath.Join(gitDir, common)
	}
	return common
}

// complete reads the configuration and refuses what this package does not know how
// to read, as git does.
func complete(gitDir string) (layout, error) {
	l := layout{git: gitDir, common: commonDir(gitDir)}
	text, err := readSmall(filepath.Join(l.common, "config"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return layout{}, ambient(err)
	}
	cfg, err := parseConfig(text)
	if err != nil {
		return layout{}, vfs.Errorf(vfs.Corrupt, "the configuration of %s cannot be read: %v", gitDir, err)
	}
	core := cfg.Section("core")
	switch core.Option("repositoryformatversion") {
	case "", "0", "1":
	default:
		return layout{}, vfs.Errorf(vfs.Unsupported, "%s has a repository format that is not known here", gitDir)
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
		l.bare = filepath.Base(l.common) != ".git" && !core.HasOption("worktree")
	}
	return l, nil
}

// knownExtension answers unsupported for an extension that changes what is stored or
// where, and that this package does not know.
func knownExtension(key, value string) error {
	switch key {
	case "noop", "noop-v1", "preciousobjects", "partialclone", "worktreeconfig", "relativeworktrees":
		return nil
	case "objectformat":
		if value == "sha1" {
			return nil
		}
		return vfs.Errorf(vfs.Unsupported, "this repository names objects by %s; only sha1 repositories are read here", vfs.Printable(value))
	case "refstorage":
		if value == "files" {
			return nil
		}
		return vfs.Errorf(vfs.Unsupported, "this repository keeps its refs as %s; run git refs migrate --ref-format=files", vfs.Printable(value))
	}
	return vfs.Errorf(vfs.Unsupported, "this repository needs the extension %s, which is not known here", vfs.Printable(key))
}

func parseConfig(text string) (cfg *config.Config, err error) {
	defer func() {
		if p := recover(); p != nil { // the parser is not ours, the text is anybody's
			err = fmt.Errorf("%v", p)
		}
	}()
	cfg = config.New()
	return cfg, config.NewDecoder(strings.NewReader(text)).Decode(cfg)
}

// readSmall reads a whole file of at most maxSmallFile bytes.
func readSmall(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return readBounded(f, maxSmallFile)
}
