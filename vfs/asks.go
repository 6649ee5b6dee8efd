package vfs

import "context"

// Bound is what an approval of a change holds for, besides the operation and its paths. A membrane
// sets it in the call; see [Staged].
type Bound struct {
	// Found is what has to be at the path, and FoundTo what has to be at the target of a rename. The
	// store sees to it: otherwise the change answers conflict.
	Found, FoundTo If

	Exec bool // the file is to be executable

	// Attributes are what is set of a file; nil for any other change.
	Attributes *Attributes

	// Stands says that the change was approved for now, whatever is there; see [Stands]. Then Found and FoundTo are what
	// its caller asked for.
	Stands bool

	// Data is written at Offset, or appended, or is the text of a link. For a truncate
	// Offset is the new size. Data can be used until [Change].Ready has returned. It is nil
	// for a change that stages a whole file.
	Offset int64
	Data   []byte

	// Parts is what a change is made of that is made as several, in order; nil for any other. Its approval holds for all of
	// them, and they are made only as they are here.
	Parts []Part
}

// Part is a node that is moved with the directory that holds it, or what a change of many paths makes of one path.
type Part struct {
	Path    string  // below what is moved, "" for that itself; or from the directory of the change
	Kind    Kind    // Other for what is removed
	Version Version // of a file
	Size    int64   // of a file, in bytes
	Exec    bool    // of a file
	Target  string  // of a link

	// What was there, in a change of many paths: WasKind is Other for nothing.
	WasKind Kind
	Was     Version // of a file
}

var errNobody = Errorf(AskDenied, "this needs an approval, and nobody can be asked here")

// Asks says that the change of ctx needs an approval, and why. It answers askDenied when
// nobody can give one now. Otherwise the change waits for the approval in [Ready].
func Asks(ctx context.Context, why string) error {
	c := callOf(ctx)
	switch {
	case c.answers == nil:
		return errNobody
	case c.inParts && c.answers.whole.Load():
		return nil
	case c.inParts:
		return Errorf(AskDenied, "this needs an approval, which cannot be asked for within a larger change; make this change by itself")
	}
	err := c.answers.Asks(why)
	if err == nil && c.answers.trial {
		return errNobody
	}
	if err == nil {
		c.answers.asked.Store(true)
	}
	return err
}

// Unasked returns ctx for calls in which a read that needs an approval answers askDenied, and
// nobody is asked. It is for searches: they read files that nobody named.
func Unasked(ctx context.Context) context.Context {
	call := CallOf(ctx)
	call.Unasked = true
	return WithCall(ctx, call)
}

// Answered reports whether somebody answers for the change of ctx: it has a [Change].
func Answered(ctx context.Context) bool {
	a := callOf(ctx).answers
	return a != nil && !a.trial
}

// IsTrial reports whether the change of ctx is only tried, and nobody answers for it yet; see [Call.OnTrial].
func IsTrial(ctx context.Context) bool {
	a := callOf(ctx).answers
	return a != nil && a.trial
}

// Stands reports whether the change of ctx, which needs an approval, was approved for now, whatever is there. Nobody is asked then.
func Stands(ctx context.Context) bool {
	a := callOf(ctx).answers
	return a != nil && a.Stands()
}

// Asked reports whether the change of ctx will wait for an approval. Then what it holds is given up meanwhile; see
// [Call.OnAside].
func Asked(ctx context.Context) bool {
	a := callOf(ctx).answers
	return a != nil && a.asked.Load()
}

// InParts returns ctx for a change that is made as several. No approval can be asked for
// one of them: it would be asked about what was not yet decided to be made. Whoever makes the whole may ask about that,
// with [Bound].Parts, and call [Ready] before the first part. Then the parts are approved.
func InParts(ctx context.Context) context.Context {
	call := CallOf(ctx)
	call.inParts = true
	return WithCall(ctx, call)
}

// IsPart reports whether the change of ctx is one of several that make a larger one; see [InParts].
func IsPart(ctx context.Context) bool { return callOf(ctx).inParts }
