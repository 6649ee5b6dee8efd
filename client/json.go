package client

import (
	"bytes"
	"context"
	"math/rand/v2"
	"time"

	"capd/jsonfile"
	"capd/vfs"
)

// A JSON document is a file of at most 4 MiB. [capd/jsonfile] says what is one, and what a
// pointer is.

// ReadJSON returns the value at pointer in the JSON document, as it is written there, and the
// file's version. It answers notFound if nothing is at pointer, and invalid, with the line and
// the column, if the file is not JSON.
func (f *File) ReadJSON(ctx context.Context, pointer string) (value []byte, v vfs.Version, err error) {
	doc, v, err := f.readDocument(ctx)
	if err != nil {
		return nil, vfs.Version{}, err
	}
	value, err = jsonfile.Get(doc, pointer)
	if err != nil {
		return nil, vfs.Version{}, err
	}
	return value, v, nil
}

// WriteJSON puts value, which is JSON, at pointer in the JSON document, and leaves every other
// byte of the file as it is. It replaces the value that is there, adds a member to an object,
// or, with "-" as the last name, an element to an array. It answers notFound if that object or
// array is missing.
//
// Of writers at the same time none undoes what another wrote: WriteJSON replaces only the
// content that it has read, and otherwise reads again. With a condition it does not, and
// answers conflict.
func (f *File) WriteJSON(ctx context.Context, pointer string, value []byte, c vfs.If) (vfs.Version, error) {
	return f.changeDocument(ctx, c, func(doc []byte) ([]byte, error) { return jsonfile.Set(doc, pointer, value) })
}

// RemoveJSON removes the member or the element at pointer from the JSON document, as WriteJSON
// writes one.
func (f *File) RemoveJSON(ctx context.Context, pointer string, c vfs.If) (vfs.Version, error) {
	return f.changeDocument(ctx, c, func(doc []byte) ([]byte, error) { return jsonfile.Remove(doc, pointer) })
}

func (f *File) readDocument(ctx context.Context) ([]byte, vfs.Version, error) {
	doc, v, err := f.ReadBytes(ctx)
	if vfs.CodeOf(err) == vfs.TooLarge {
		err = vfs.Errorf(vfs.TooLarge, "a JSON document is at most %d bytes; read all of the file instead, change it and put it", jsonfile.MaxBytes)
	}
	return doc, v, err
}

// Two writers get in each other's way only while one of them reads and writes. Many writers all
// get their turn, since one of them lands each time.
const (
	documentTries = 64
	documentWait  = 64 * time.Millisecond // at most, between two tries
)

func (f *File) changeDocument(ctx context.Context, c vfs.If, change func([]byte) ([]byte, error)) (vfs.Version, error) {
	for try := range documentTries {
		doc, v, err := f.readDocument(ctx)
		if err == nil {
			err = c.Check(true, v)
		}
		if err == nil {
			doc, err = change(doc)
		}
		if err != nil {
			return vfs.Version{}, err
		}
		written, err := f.Replace(ctx, bytes.NewReader(doc), vfs.If{Is: v})
		if vfs.CodeOf(err) != vfs.Conflict || !c.IsZero() {
			return written, err
		}
		select {
		case <-time.After(rand.N(min(documentWait, time.Millisecond<<try))):
		case <-ctx.Done():
			return vfs.Version{}, ctx.Err()
		}
	}
	return vfs.Version{}, vfs.Errorf(vfs.Conflict, "others changed the file meanwhile, %d times; try again", documentTries)
}
