package git

import (
	"errors"
	"fmt"
	"strings"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/memory"

	"capd/vfs"
)

// commit is what a store needs of a commit. The zero commit has an empty tree.
type commit struct {
	id   plumbing.Hash
	tree plumbing.Hash
	ms   int64 // of the committer
}

// commit reads a commit. The zero id gives the zero commit.
func (s *Store) commit(id plumbing.Hash) (commit, error) {
	if id.IsZero() {
		return commit{}, nil
	}
	c, err := s.decode(id)
	if err != nil {
		return commit{}, err
	}
	return commit{id, c.TreeHash, max(c.Committer.When.UnixMilli(), 0)}, nil
}

// decode reads a commit with all that it says.
func (s *Store) decode(id plumbing.Hash) (*object.Commit, error) {
	raw, err := s.objects.readAs(id, plumbing.CommitObject, maxMeta)
	if err != nil {
		return nil, err
	}
	c := &object.Commit{}
	if err := c.Decode(memoryObject(plumbing.CommitObject, raw)); err != nil || c.TreeHash.IsZero() {
		return nil, corrupt(id, "is no commit that can be read")
	}
	return c, nil
}

func memoryObject(kind plumbing.ObjectType, data []byte) *plumbing.MemoryObject {
	o := &plumbing.MemoryObject{}
	o.SetType(kind)
	_, _ = o.Write(data) // never fails
	return o
}

// shorthands are the places where a short name is looked up, in order
// (gitrevisions(7)).
var shorthands = []string{"%s", "refs/%s", "refs/tags/%s", "refs/heads/%s", "refs/remotes/%s", "refs/remotes/%s/HEAD"}

// resolve returns the commit of a revision, and the ref if the revision is the name of
// one. The id is zero for HEAD or a branch without a commit.
func (s *Store) resolve(revision string) (ref string, id plumbing.Hash, err error) {
	if revision == "@" {
		revision = string(plumbing.HEAD)
	}
	if plumbing.IsHash(revision) {
		id, err := s.peel(plumbing.NewHash(revision))
		if errors.Is(err, plumbing.ErrObjectNotFound) && id == plumbing.NewHash(revision) {
			err = vfs.Errorf(vfs.NotFound, "the repository has no object %s", id)
		}
		return "", id, err
	}
	for _, form := range shorthands {
		name := fmt.Sprintf(form, revision)
		if _, _, err := s.refs.read(name); errors.Is(err, vfs.NotFound) {
			continue
		} else if err != nil {
			return "", id, ambient(err)
		}
		last, id, err := s.refs.resolve(name)
		if err != nil {
			return "", id, ambient(err)
		}
		if !strings.HasPrefix(last, "refs/") {
			last = "" // HEAD is detached
		}
		switch {
		case !id.IsZero():
			id, err = s.peel(id)
		case name != string(plumbing.HEAD):
			err = vfs.Errorf(vfs.NotFound, "%s names %s, which is not there", name, last)
		}
		return last, id, err
	}
	id, err = s.expression(revision)
	return "", id, err
}

// peel follows annotated tags to a commit.
func (s *Store) peel(id plumbing.Hash) (plumbing.Hash, error) {
	for range maxSymbolic {
		kind, data, err := s.objects.read(id, maxMeta)
		switch {
		case err != nil:
			return id, err
		case kind == plumbing.CommitObject:
			return id, nil
		case kind != plumbing.TagObject:
			return id, flawed(vfs.Invalid, "%s is a %s and leads to no commit", id, kind)
		}
		tag := &object.Tag{}
		if err := tag.Decode(memoryObject(kind, data)); err != nil {
			return id, corrupt(id, "is no tag that can be read")
		}
		id = tag.Target
	}
	return id, flawed(vfs.Corrupt, "more than %d tags name another in a row", maxSymbolic)
}

// expression lets go-git resolve a revision that is not just the name of a ref.
func (s *Store) expression(revision string) (id plumbing.Hash, err error) {
	defer func() {
		if p := recover(); p != nil { // for a revision without a start
			err = vfs.Errorf(vfs.Invalid, "%s is no revision", vfs.Printable(revision))
		}
	}()
	reader := &reader{Storage: memory.NewStorage(), s: s, short: revision[:strings.IndexAny(revision+"^", "^~@:")]}
	repo, err := gogit.Open(reader, nil)
	if err != nil {
		return id, vfs.Hide(err)
	}
	found, err := repo.ResolveRevision(plumbing.Revision(revision))
	switch {
	case reader.ambiguous:
		return id, vfs.Errorf(vfs.Invalid, "more than one commit or tag begins with %s; write more of it", reader.short)
	case errors.Is(err, plumbing.ErrReferenceNotFound), errors.Is(err, plumbing.ErrObjectNotFound), errors.Is(err, object.ErrParentNotFound):
		return id, vfs.Errorf(vfs.NotFound, "the repository has no revision %s", vfs.Printable(revision))
	case errors.Is(err, vfs.Corrupt):
		return id, err
	case err != nil:
		return id, &vfs.Error{Code: vfs.NotFound, Msg: "the repository has no revision " + vfs.Printable(revision), Cause: err}
	}
	return *found, nil
}

// reader gives go-git commits and tags, through objects, and refs.
type reader struct {
	*memory.Storage
	s         *Store
	short     string // the beginning of an id, if it is one
	ambiguous bool
}

// EncodedObject implements storer.EncodedObjectStorer.
func (r *reader) EncodedObject(kind plumbing.ObjectType, id plumbing.Hash) (plumbing.EncodedObject, error) {
	have, data, err := r.s.objects.read(id, maxMeta)
	switch {
	case errors.Is(err, plumbing.ErrObjectNotFound), err == nil && kind != plumbing.AnyObject && kind != have:
		return nil, plumbing.ErrObjectNotFound
	case err != nil:
		return nil, err
	}
	return memoryObject(have, data), nil
}

// maxCandidates bounds how many objects with a short id's prefix are looked at.
const maxCandidates = 1024

// HashesWithPrefix lets go-git find a short id. If several objects match, only commits
// and tags count.
func (r *reader) HashesWithPrefix(prefix []byte) ([]plumbing.Hash, error) {
	if len(r.short) < 4 {
		return nil, nil
	}
	all, err := r.s.objects.withPrefix(prefix, maxCandidates)
	if err != nil {
		return nil, err
	}
	var fit []plumbing.Hash
	for _, id := range all {
		if !strings.HasPrefix(id.String(), strings.ToLower(r.short)) {
			continue
		}
		if kind, _, err := r.s.objects.kind(id); err == nil && (kind == plumbing.CommitObject || kind == plumbing.TagObject) {
			fit = append(fit, id)
		}
	}
	if len(fit) > 1 {
		r.ambiguous = true
		return nil, nil
	}
	return fit, nil
}

// Reference implements storer.ReferenceStorer.
func (r *reader) Reference(name plumbing.ReferenceName) (*plumbing.Reference, error) {
	id, symbolic, err := r.s.refs.read(string(name))
	switch {
	case errors.Is(err, vfs.NotFound):
		return nil, plumbing.ErrReferenceNotFound
	case err != nil:
		return nil, err
	case symbolic != "":
		return plumbing.NewSymbolicReference(name, plumbing.ReferenceName(symbolic)), nil
	}
	return plumbing.NewHashReference(name, id), nil
}

var (
	_ storer.EncodedObjectStorer = (*reader)(nil)
	_ storer.ReferenceStorer     = (*reader)(nil)
)
