// Package editing changes parts of files as package edit changes parts of contents: it reads
// a file, edits, and replaces the file's content if that is still what was read.
//
// Edits of one file take turns, so that edits of different places that are made at once are
// all made, one after the other. An edit that finds that somebody else has changed the file
// meanwhile begins again.
package editing

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"time"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/edit"
	"capd/vfs/membrane"
)

// MaxDiff is the size, in bytes, of the longest difference that an edit answers.
const MaxDiff = 256 << 10

// Request is some edits of a file, all of them or none.
type Request struct {
	Edits []edit.Edit
	If    vfs.If // on what is there before; needed for edits by lines
	Dry   bool   // nothing is changed, and no approval asked for
}

// Result is what an edit has done, or would do.
type Result struct {
	Version  vfs.Version  // of the new content
	Diff     []byte       // unified, as git diff shows it; bytes that are not UTF-8 come as they are
	Cut      bool         // Diff or Changed are not whole: there is more than [MaxDiff] or [MaxRanges]
	Changed  []edit.Range // lines of the new content
	Replaced int          // how many places were replaced
}

// MaxRanges is how many ranges of lines an edit answers.
const MaxRanges = 1000

// Editor is a File that edits itself, such as one that a remote host serves.
type Editor interface {
	Edit(ctx context.Context, r Request) (Result, error)
}

// How an edit is made.
type How struct {
	Path  string            // of the file, for the difference
	Weigh func(int64) error // is told how many bytes are searched, before they are; may be nil
}

// Edit makes the edits of r in f. It answers conflict if they do not match, or if r.If does not
// hold; busy if others change the file all the time; and the errors of package edit, of
// [vfs.Open] and of [vfs.File].Replace.
func Edit(ctx context.Context, f vfs.File, r Request, how How) (Result, error) {
	if e, ok := f.(Editor); ok {
		return e.Edit(ctx, r)
	}
	for _, e := range r.Edits {
		if e.ByLines && r.If.Is.IsZero() {
			return Result{}, vfs.Errorf(vfs.Invalid, "an edit by lines needs the version that the lines were read with; pass it as ifVersion {equals}")
		}
	}
	if err := mayChange(ctx, f); err != nil {
		return Result{}, err
	}
	return (&editing{f: f, r: r, how: how}).run(ctx)
}

// mayChange answers readOnly, and what else refuses every change of f, before f is read.
func mayChange(ctx context.Context, f vfs.File) error {
	if vfs.IsImmutable(f) {
		return vfs.ReadOnly
	}
	return membrane.May(f, membrane.To(membrane.OpReplace))
}

type editing struct {
	f   vfs.File
	r   Request
	how How
}

// How long an edit waits for its turn, and how long it begins again. Tests set them.
var (
	patience = 30 * time.Second
	retries  = 10 * time.Second
)

func (e *editing) run(ctx context.Context) (Result, error) {
	for begun := time.Now(); ; {
		res, raced, err := e.attempt(ctx)
		if !raced {
			return res, err
		}
		if time.Since(begun) > retries {
			return Result{}, vfs.Errorf(vfs.Busy, "others change the file all the time; try again")
		}
		if err := pause(ctx); err != nil {
			return Result{}, err
		}
	}
}

// pause waits for a moment, of another length each time.
func pause(ctx context.Context) error {
	t := time.NewTimer(time.Millisecond + rand.N(20*time.Millisecond))
	defer t.Stop()
	return meter.Wait(ctx, func() {
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	})
}

// attempt edits once. raced says that somebody else has changed the file meanwhile.
func (e *editing) attempt(ctx context.Context) (res Result, raced bool, err error) {
	if e.r.Dry {
		ctx = vfs.Unasked(ctx)
	} else {
		end, err := turnOf(ctx, e.f)
		if err != nil {
			return res, false, err
		}
		defer end()
		// Nobody waits for the turn while somebody decides about this edit.
		call := vfs.CallOf(ctx)
		call.OnAside(func(wait func()) error { end(); wait(); return nil })
		ctx = vfs.WithCall(ctx, call)
	}
	held := membrane.CallBytesOf(ctx)
	defer held.End()
	content, version, err := e.read(ctx, held)
	if err != nil {
		return res, false, err
	}
	made, err := edit.Apply(content, e.r.Edits, func() error { return meter.Yield(ctx) })
	was := version()
	if err := cmp.Or(e.r.If.Check(true, was), err); err != nil {
		return res, false, err
	}
	res.Changed, res.Replaced = made.Changed, made.Replaced
	if len(res.Changed) > MaxRanges {
		res.Changed, res.Cut = res.Changed[:MaxRanges], true
	}
	hunks, cut := made.Hunks(MaxDiff)
	res.Cut = res.Cut || cut
	res.Diff = append(header(e.how.Path), hunks...)
	if e.r.Dry {
		res.Version = sha256.Sum256(made.Content)
		return res, false, e.could(ctx)
	}
	res.Version, err = e.f.Replace(ctx, bytes.NewReader(made.Content), vfs.If{Is: was})
	if vfs.CodeOf(err) == vfs.Conflict {
		return Result{}, e.r.If.IsZero(), err
	}
	return res, false, err
}

// could answers the error with which a change would be refused now, other than by a human.
func (e *editing) could(ctx context.Context) error {
	if _, ok := membrane.PlaceOf(e.f); !ok {
		return nil
	}
	x, err := membrane.Explain(ctx, e.f, membrane.Question{Right: membrane.Write})
	if err != nil || len(x.Asks) > 0 {
		return err
	}
	return x.Err
}

// longSum is the size, in bytes, from which a version is computed while the edits are made.
const longSum = 32 << 10

// read returns the whole content, and what waits for its version, which is called once.
func (e *editing) read(ctx context.Context, held *membrane.CallBytes) (_ []byte, version func() vfs.Version, err error) {
	c, err := vfs.Open(ctx, e.f)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	size := c.Size()
	if size > edit.MaxSize {
		return nil, nil, edit.ErrSize(size)
	}
	if e.how.Weigh != nil {
		if err := e.how.Weigh(size * int64(max(len(e.r.Edits), 1))); err != nil {
			return nil, nil, err
		}
	}
	if err := held.Take(4 * size); err != nil { // what was, what will be, and what is searched
		return nil, nil, err
	}
	b := make([]byte, size)
	n, err := c.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil, nil, err
	}
	b = b[:n]
	sum := func() vfs.Version {
		defer c.Close()
		v := vfs.Version(sha256.Sum256(b))
		vfs.Learn(c, v)
		return v
	}
	if n < longSum {
		return b, sum, nil
	}
	summed := make(chan vfs.Version, 1)
	go func() { summed <- sum() }()
	return b, func() vfs.Version { return <-summed }, nil
}

// header returns the lines of a difference before its hunks.
func header(path string) []byte {
	if path == "" {
		path = "file"
	}
	path = vfs.Printable(path)
	return []byte("--- a/" + path + "\n+++ b/" + path + "\n")
}
