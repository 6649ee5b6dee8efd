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
	// the store's base or in the base's history, so that no commit is dropped from a
	// branch. "" means the base for an existing branch, and no commit for a new one.
	Old string
}

// Commit commits what was written, on top of the commit that the store shows, and moves
// a branch to the new commit. Afterwards the store shows that commit. What is written
// during Commit stays for the next one. Commit moves the branch under git's own lock,
// and only if it has the expected commit. Otherwise it answers conflict, and keeps what
// was written. When Commit has returned, the commit and its branch would survive a
// power cut.
//
// It answers busy for a branch that a working tree has checked out, since its files
// would appear changed, and while another git holds the branch's lock. It answers
// invalid when nothing has changed, and for anything that git fsck would refuse. It
// answers outside where a link leads out of the repository. It runs no hooks. Errors
// are for the host: they name paths.
func (s *Store) Commit(ctx context.Context, o CommitOptions) (made string, err error) {
	defer func() { err = ambient(err) }()
	if !s.writable {
		return "", vfs.ReadOnly
	}
	s.committing.Lock()
	defer s.committing.Unlock()
	name, err := s.target(o.Ref)
	if err != nil {
		return "", err
	}
	im, base, err := s.freeze(ctx)
	if err != nil {
		return "", err
	}
	if im == nil {
		return "", errNothing
	}
	defer im.release()
	from, err := s.expected(ctx, name, o.Old, base.id)
	if err != nil {
		return "", err
	}
	b := &builder{s: s, write: true, trees: map[plumbing.Hash]*tree{}}
	if err := b.build(ctx, im, 0); err != nil {
		return "", err
	}
	if im.id == base.tree {
		return "", errNothing
	}
	text, line, err := o.text(im.id, base.id)
	if err != nil {
		return "", err
	}
	id, err := b.put(ctx, plumbing.CommitObject, int64(len(text)), bytes.NewReader(text))
	if err != nil {
		return "", err
	}
	if err := b.flush(); err != nil {
		return "", err
	}
	c, err := s.commit(id)
	if err != nil {
		return "", err
	}
	err = vfs.Commit(ctx, vfs.Effect{}, func() (vfs.Effect, error) {
		if err := s.refs.update(name, from, id, line); err != nil {
			return vfs.Effect{}, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.settle(c, im)
		s.tip.Store(&tip{name, id})
		return vfs.Effect{}, nil
	})
	if err == nil {
		err = flushNames(s.refs.root, above(name)...)
	}
	if err != nil {
		return "", err
	}
	return id.String(), nil
}

var errNothing = vfs.Errorf(vfs.Invalid, "nothing has changed; there is nothing to commit")

// target returns the full name of the branch to commit to.
func (s *Store) target(ref string) (string, error) {
	if ref == "" {
		ref = s.tip.Load().ref
	}
	name := ref
	if !strings.HasPrefix(name, "refs/") {
		name = "refs/heads/" + ref
	}
	if ref == "" || !validRef(name) || !strings.HasPrefix(name, "refs/heads/") || name == "refs/heads/HEAD" {
		return "", vfs.Errorf(vfs.Invalid, "%q is not the name of a branch; say which branch gets the commit", ref)
	}
	switch out, err := s.refs.checkedOut(name); {
	case err != nil:
		return "", err
	case out:
		return "", vfs.Errorf(vfs.Busy, "%s is checked out in a working tree; commit to another branch (ref), and merge it there", name)
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

// freeze returns an image of what was written, and the commit that it is based on. The
// image is nil if nothing was written.
func (s *Store) freeze(ctx context.Context) (*image, commit, error) {
	if err := s.look(ctx); err != nil {
		return nil, commit{}, err
	}
	defer s.mu.RUnlock()
	if !s.isChanged() {
		return nil, s.base, nil
	}
	return freeze(s.root.dir), s.base, nil
}

// settle makes the store show c, which was made from im. Needs s.mu.
func (s *Store) settle(c commit, im *image) {
	live := s.root.dir
	s.rebase(c)
	if live == im.of {
		if live.settle(im); len(live.over) > 0 {
			s.root.dir = live
		}
	}
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
