package vfs

import (
	"context"
	"io"
)

// Visitor is a Dir that can read many files in one call, without a node for each. It is
// for searches of contents.
type Visitor interface {
	// Visit reads the files called names in the directory at dir, which is reached from
	// this one by those names and follows no link; none is this directory itself. It reads
	// one file after the other into window, in the order of names, and calls see for each.
	// When see returns false Visit ends without an error. see must not wait, and must not
	// keep Data.
	//
	// Visit leaves out names that may not be read, as policy says. If the directory cannot
	// be reached it returns the error of Lookup and calls see for none.
	Visit(ctx context.Context, dir, names []string, window []byte, see func(Visited) bool) error
}

// Visited is a file that [Visit] has read.
type Visited struct {
	Name  string
	Data  []byte // the whole content, in the window; nil if there is none, or with Large
	Large bool   // the content fills the window or is larger; open the file to read it
	Err   error  // why the file could not be read; notRegular for anything else than a file
}

// Visit calls d.Visit, or [VisitEach] if d is no [Visitor].
func Visit(ctx context.Context, d Dir, dir, names []string, window []byte, see func(Visited) bool) error {
	if v, ok := d.(Visitor); ok {
		return v.Visit(ctx, dir, names, window, see)
	}
	return VisitEach(ctx, d, dir, names, window, see)
}

// VisitEach does what [Visitor] says by looking up each file. It does not leave out names
// by itself: what may not be read has an error.
func VisitEach(ctx context.Context, d Dir, dir, names []string, window []byte, see func(Visited) bool) error {
	in, leave, err := Descend(ctx, d, dir)
	if err != nil {
		return err
	}
	defer leave()
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !see(visit(ctx, in, name, window)) {
			return nil
		}
	}
	return nil
}

// Descend returns the directory at names below d, or d itself for none. It follows no link.
// leave closes what it opened.
func Descend(ctx context.Context, d Dir, names []string) (in Dir, leave func(), err error) {
	in, leave = d, func() {}
	for len(names) > 0 {
		some := names[:min(len(names), MaxLooked)]
		n, err := LookPath(ctx, in, some)
		if err == ErrStepwise {
			some = names[:1]
			n, err = in.Lookup(ctx, names[0])
		}
		leave()
		if err != nil {
			return nil, nil, err
		}
		if in, err = AsDir(n); err != nil {
			return nil, nil, err
		}
		leave = func() { n.Close() }
		names = names[len(some):]
	}
	return in, leave, nil
}

func visit(ctx context.Context, d Dir, name string, window []byte) Visited {
	f, err := LookupAs[File](ctx, d, name, NotRegular)
	if err != nil {
		return Visited{Name: name, Err: err}
	}
	defer f.Close()
	for n := 0; n < len(window); {
		k, err := f.ReadAt(ctx, window[n:], int64(n))
		n += k
		switch {
		case err == io.EOF:
			return Visited{Name: name, Data: window[:n]}
		case err != nil:
			return Visited{Name: name, Err: err}
		}
	}
	return Visited{Name: name, Large: true}
}
