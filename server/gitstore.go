package server

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	gogit "github.com/go-git/go-git/v5"
	gitconfig "github.com/go-git/go-git/v5/config"

	"capd/backend/git"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/diff"
	"capd/vfs/unified"
	"capd/virtualfs"
	"capd/worktree"
)

// Committed returns a URL, for a [Mount], of dir as it is in the last commit of the repository around dir. The
// mount follows new commits. Committed reports false if there is no repository or no commit. It also reports false
// for a repository with parts elsewhere, such as borrowed objects: nobody named that repository.
func Committed(dir string) (url string, there bool) {
	repo, ok := git.FindAmbient(dir)
	if !ok {
		return "", false
	}
	here, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", false
	}
	top, err := filepath.EvalSymlinks(repo)
	if err != nil {
		return "", false
	}
	below, err := filepath.Rel(top, here)
	if err != nil || !filepath.IsLocal(below) {
		return "", false
	}
	u := &URL{Scheme: "git", Path: top, Query: map[string][]string{"follow": {""}, "confined": {""}}, Fragment: "HEAD"}
	if below != "." {
		u.Fragment += ":" + filepath.ToSlash(below)
	}
	return u.String(), true
}

// git opens git:REPO#REV, or the part git:REPO#REV:SUBDIR of it.
func (s stores) git(ctx context.Context, u *virtualfs.URL) (*virtualfs.Store, error) {
	if u.Flag("writable") {
		return s.worktree(ctx, u)
	}
	_, below, _ := strings.Cut(u.Fragment, ":")
	store, repo, err := openGit(u, u.Base)
	if err == nil && below != "" {
		if store.Root, err = repo.Part(ctx, below); err != nil {
			repo.Close()
		}
	}
	return store, err
}

// openGit opens the revision of u, or what base names unless that is "": a commit, which
// may be "", and after a blank a ref, if it is another than that of u.
func openGit(u *virtualfs.URL, base string) (*virtualfs.Store, *git.Store, error) {
	revision, _, _ := strings.Cut(u.Fragment, ":")
	commit, other, _ := strings.Cut(base, " ")
	follow, writable := u.Flag("follow"), u.Flag("writable")
	repo, err := git.OpenAmbient(u.Path, git.Options{Revision: cmp.Or(other, revision), Commit: commit, Follow: follow, Writable: writable, Confined: u.Flag("confined")})
	if err != nil {
		return nil, nil, err
	}
	store := &virtualfs.Store{
		Root: repo.Root, Close: repo.Close,
		Deny: deny.Secrets, Ask: deny.Triggers, Fixed: !writable,
		Detail: func() string { return revisionText(repo.Revision(), follow) },
		Own:    &commits{repo: repo, dir: u.Path},
	}
	if !follow {
		usual := ""
		if other == "" {
			usual = repo.Revision().Ref
		}
		store.Base = func() string {
			r := repo.Revision()
			if r.Ref == usual {
				return r.Commit
			}
			return r.Commit + " " + r.Ref
		}
	}
	return store, repo, nil
}

// worktree opens git:REPO?writable#REV.
func (s stores) worktree(ctx context.Context, u *virtualfs.URL) (*virtualfs.Store, error) {
	upper, err := s.upper(ctx, u)
	if err != nil {
		return nil, err
	}
	store, repo, err := openGit(u, cmp.Or(u.Base, upper.Base))
	if err != nil {
		return nil, errors.Join(err, upper.Tree.Close(), upper.End(false))
	}
	tree, err := worktree.New(ctx, repo, upper.Tree)
	if err != nil {
		return nil, errors.Join(err, repo.Close(), upper.Tree.Close(), upper.End(false))
	}
	own := &commits{repo: repo, tree: tree, dir: u.Path, rebased: func() error { return upper.Rebase(store) }}
	store.Root, store.Own, store.Kept = tree.Root, own, upper.Kept
	store.Close = func() error {
		settled := !own.Changed()
		return errors.Join(tree.Close(), upper.End(settled))
	}
	if err = own.rebased(); err == nil && upper.Kept {
		store.Grown, err = tree.Growth(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

func revisionText(r git.Revision, follow bool) string {
	commit := "no commit yet"
	if len(r.Commit) > 12 {
		commit = r.Commit[:12]
	}
	ref := strings.TrimPrefix(strings.TrimPrefix(r.Ref, "refs/heads/"), "refs/tags/")
	switch {
	case ref == "":
		return commit
	case follow:
		return "follows " + ref + ", now " + commit
	case r.Commit == "":
		return ref + ", " + commit
	}
	return ref + " at " + commit
}

// commits gives access to the uncommitted changes of a git mount, and to its revisions.
type commits struct {
	repo *git.Store
	tree *worktree.Tree // nil for a mount that cannot be written to
	dir  string

	rebased func() error // called when later changes are based on another commit; nil unless tree is set
}

// Changed implements [virtualfs.Own].
func (c *commits) Changed() bool {
	if c.tree == nil {
		return false
	}
	changed, err := c.tree.Changed(context.Background())
	return err != nil || changed
}

// Diff implements [virtualfs.Own].
func (c *commits) Diff(ctx context.Context, from, to string, yield func(diff.Change, virtualfs.Text) bool) error {
	all, text, err := c.changes(ctx, from, to)
	for _, ch := range all {
		if !yield(ch, func(ctx context.Context) (string, string, error) { return text(ctx, ch) }) {
			break
		}
	}
	return err
}

// changes returns what Diff yields, and what makes the texts.
func (c *commits) changes(ctx context.Context, from, to string) (all []diff.Change, text func(context.Context, diff.Change) (string, string, error), err error) {
	switch {
	case from != "" || to != "":
		shown := c.repo.Revision().Commit
		all, err = c.repo.Diff(ctx, cmp.Or(from, shown), cmp.Or(to, shown))
		return all, unified.InPlace.Text, err
	case c.tree == nil:
		return nil, nil, vfs.Errorf(vfs.Unsupported, "this revision cannot be written to, so it has no changes; compare two revisions, or mount it with ?writable")
	}
	all, patch, err := c.tree.Diff(ctx)
	return all, patch.Text, err
}

// Commit implements [virtualfs.Own].
func (c *commits) Commit(ctx context.Context, w operator.Commit, check func([]diff.Change) error, ready func(branch, id string) error) (string, error) {
	if c.tree == nil {
		return "", vfs.Errorf(vfs.ReadOnly, "this revision cannot be written to, so there is nothing to commit; mount it with ?writable")
	}
	by := git.Author{Name: w.Author, Email: w.Email}
	if by.Name == "" {
		if by = usualAuthor(c.dir); by.Name == "" || by.Email == "" {
			return "", vfs.Errorf(vfs.Invalid, "neither the repository's configuration nor git's says who commits; name an author, or set user.name and user.email")
		}
	}
	id, err := c.tree.CommitIf(ctx, git.CommitOptions{Message: w.Message, Author: by, Ref: w.Ref, Old: w.Old}, check,
		func(p *git.Prepared) error { return ready(p.Branch, p.ID) })
	if err != nil {
		return id, err
	}
	return id, c.rebased()
}

// Has implements [virtualfs.Own].
func (c *commits) Has(ctx context.Context, branch, id string) (bool, error) {
	return c.repo.Has(ctx, branch, id)
}

// usualAuthor returns the author in git's configuration, as far as it is set.
func usualAuthor(dir string) git.Author {
	repo, err := gogit.PlainOpenWithOptions(dir, &gogit.PlainOpenOptions{EnableDotGitCommonDir: true})
	if err != nil {
		return git.Author{}
	}
	conf, err := repo.ConfigScoped(gitconfig.SystemScope)
	if err != nil {
		return git.Author{}
	}
	return git.Author{Name: conf.User.Name, Email: conf.User.Email}
}

// Revert implements [virtualfs.Own].
func (c *commits) Revert(ctx context.Context, paths []string) (n int, err error) {
	all, _, err := c.changes(ctx, "", "")
	if err != nil {
		return 0, err
	}
	for _, ch := range all {
		if paths == nil || slices.ContainsFunc(paths, func(p string) bool { return diff.Within(ch.Path, p) }) {
			n++
		}
	}
	return n, c.tree.Revert(ctx, paths)
}
