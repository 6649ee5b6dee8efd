package git

import (
	"bytes"
	"context"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"capd/vfs"
	"capd/vfs/diff"
)

// Author is the author of a commit.
type Author struct {
	Name, Email string
	When        time.Time // zero means now
}

// CommitOptions say what commit to make, and on which branch.
type CommitOptions struct {
	Message string
	Author  Author

	// Ref is a branch: its full name, or the part after refs/heads/. "" means the
	// branch that the store shows.
	Ref string

	// Old is the commit that the branch must have, in hexadecimal digits. It must be
	// the one that the store shows or in its history, so that no commit is dropped from a
	// branch. "" means the one that the store shows for an existing branch, and no
	// commit for a new one.
	Old string
}

// Prepared is a commit that is complete but that no branch has yet.
type Prepared struct {
	ID     string // hexadecimal
	Branch string // its full name

	s      *Store
	commit commit
	from   plumbing.Hash // the commit that the branch must have
	line   string        // for the branch's log
}

// Prepare makes the commit of changes to the tree that the store shows, on top of the
// commit that it shows. A change of a file needs Content, unless it only moved. The
// contents are read piece by piece, each twice, or not at all if [Store.Stage] has read
// the same. No branch has the commit before [Prepared.Make]. The store must show the
// same commit until then; see [Store.SetHold].
//
// Prepare answers conflict if the branch does not have the expected commit. It answers
// busy for a branch that a working tree has checked out, since its files would appear
// changed. It answers invalid when nothing has changed, and for anything that git fsck
// would refuse. It answers outside where a link leads out of the repository. It runs no
// hooks. Errors are for the host: they name paths.
func (s *Store) Prepare(ctx context.Context, o CommitOptions, changes []diff.Change) (p *Prepared, err error) {
	defer func() { err = ambient(err) }()
	base, name, from, err := s.check(ctx, o)
	if err != nil {
		return nil, err
	}
	if len(changes) == 0 {
		return nil, errNothing
	}
	b := newBuilder(s)
	tree, err := b.tree(ctx, base.tree, changes)
	if err != nil {
		return nil, err
	}
	if tree == base.tree || tree == emptyTree && base.tree.IsZero() {
		return nil, errNothing
	}
	text, line, err := o.text(tree, base.id)
	if err != nil {
		return nil, err
	}
	id, err := b.put(ctx, plumbing.CommitObject, int64(len(text)), bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if err := b.flush(); err != nil {
		return nil, err
	}
	c, err := s.commit(id)
	if err != nil {
		return nil, err
	}
	return &Prepared{ID: id.String(), Branch: name, s: s, commit: c, from: from, line: line}, nil
}

// Make makes the branch have the commit, under git's own lock. The store then shows the
// commit. Make answers conflict if the branch no longer has the expected commit, and
// busy while another git holds its lock; nothing has changed then.
func (p *Prepared) Make() error {
	if err := p.s.refs.update(p.Branch, p.from, p.commit.id, p.line); err != nil {
		return ambient(err)
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.show(p.commit, &tip{p.Branch, p.commit.id})
	return nil
}

// Sync returns when what Make did would survive a power cut.
func (p *Prepared) Sync() error { return ambient(flushNames(p.s.refs.root, above(p.Branch)...)) }

var errNothing = vfs.Errorf(vfs.Invalid, "nothing has changed; there is nothing to commit")

// check returns the commit that the store shows, the branch that is to have the next one,
// and the commit that the branch must have.
func (s *Store) check(ctx context.Context, o CommitOptions) (base commit, name string, from plumbing.Hash, err error) {
	if !s.commits {
		return base, "", from, vfs.ReadOnly
	}
	if name, err = s.target(o.Ref); err != nil {
		return base, "", from, err
	}
	if err := s.look(ctx); err != nil {
		return base, "", from, err
	}
	base = s.base
	s.mu.RUnlock()
	if from, err = s.expected(ctx, name, o.Old, base.id); err == nil {
		_, _, err = o.text(base.tree, base.id)
	}
	return base, name, from, err
}

// target returns the full name of the branch to commit to.
func (s *Store) target(ref string) (string, error) {
	if ref == "" {
		ref = s.tip.Load().ref
		if !strings.HasPrefix(ref, "refs/heads/") {
			return "", vfs.Errorf(vfs.Invalid, "no branch is mounted here; say which branch gets the commit")
		}
	}
	name := ref
	if !strings.HasPrefix(name, "refs/") {
		name = "refs/heads/" + ref
	}
	if !validRef(name) || !strings.HasPrefix(name, "refs/heads/") || name == "refs/heads/HEAD" {
		return "", vfs.Errorf(vfs.Invalid, "%q is not the name of a branch; say which branch gets the commit", ref)
	}
	switch out, err := s.refs.checkedOut(name); {
	case err != nil:
		return "", err
	case out:
		return "", vfs.Errorf(vfs.Busy, "%s is checked out in a working tree; commit to another branch, and merge it there", name)
	}
	return name, nil
}

// expected returns the commit that a branch must have before it may be moved.
func (s *Store) expected(ctx context.Context, name, old string, base plumbing.Hash) (plumbing.Hash, error) {
	if old != "" && !plumbing.IsHash(old) {
		return base, vfs.Errorf(vfs.Invalid, "%q is no id of a commit", old)
	}
	_, now, err := s.refs.resolve(name)
	if err != nil {
		return base, ambient(err)
	}
	from := base
	switch {
	case old != "":
		from = plumbing.NewHash(old)
	case now.IsZero():
		from = plumbing.ZeroHash
	}
	if now != from {
		return base, conflict(name, now)
	}
	if now.IsZero() || now == base {
		return from, nil
	}
	switch ok, err := s.isAncestor(ctx, now, base); {
	case err != nil:
		return base, err
	case !ok:
		return base, vfs.Errorf(vfs.Conflict, "the branch has commits that this mount does not have; mount it again")
	}
	return from, nil
}

// text returns the commit object, and the line for the branch's log.
func (o CommitOptions) text(tree, parent plumbing.Hash) (text []byte, line string, err error) {
	who := object.Signature{Name: strings.TrimSpace(o.Author.Name), Email: strings.TrimSpace(o.Author.Email), When: o.Author.When}
	if who.When.IsZero() {
		who.When = time.Now()
	}
	switch {
	case who.Name == "" || strings.ContainsAny(who.Name+who.Email, "<>\n\x00") || !utf8.ValidString(who.Name+who.Email):
		return nil, "", vfs.Errorf(vfs.Invalid, "an author needs a name, and neither it nor the address may hold \"<\", \">\", NUL or a new line")
	case who.When.Unix() < 0 || who.When.Year() > 2099:
		return nil, "", vfs.Errorf(vfs.Invalid, "an author's time must be after 1970 and before 2100")
	case strings.TrimSpace(o.Message) == "" || strings.Contains(o.Message, "\x00") || !utf8.ValidString(o.Message):
		return nil, "", vfs.Errorf(vfs.Invalid, "a commit needs a message, of valid UTF-8 without NUL")
	}
	c := object.Commit{Author: who, Committer: who, Message: strings.TrimRight(o.Message, "\n") + "\n", TreeHash: tree}
	if !parent.IsZero() {
		c.ParentHashes = []plumbing.Hash{parent}
	}
	encoded := &plumbing.MemoryObject{}
	if err := c.Encode(encoded); err != nil {
		return nil, "", vfs.Hide(err)
	}
	r, err := encoded.Reader()
	if err != nil {
		return nil, "", vfs.Hide(err)
	}
	if text, err = io.ReadAll(r); err != nil {
		return nil, "", vfs.Hide(err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(o.Message), "\n")
	var sig bytes.Buffer
	if err := who.Encode(&sig); err != nil {
		return nil, "", vfs.Hide(err)
	}
	return text, sig.String() + "\tcommit: " + strings.ReplaceAll(first, "\t", " "), nil
}
