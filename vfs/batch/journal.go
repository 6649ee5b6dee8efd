package batch

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"capd/vfs"
	"capd/vfs/diff"
)

// The files that the journal has for a batch: its id and one of these suffixes. Each is
// written by one Replace, so it is whole or missing. A batch without an intent has
// changed nothing. A batch with an intent and without an outcome may have made some of
// its changes.
const (
	dataFile    = ".data"    // contents, one after the other
	intentFile  = ".intent"  // an intent
	outcomeFile = ".outcome" // an outcome
)

// outcome is how a kept batch ended.
type outcome string

const (
	done   outcome = "done"
	undone outcome = "undone" // undone, except where somebody else made changes
)

// entry is one batch in a journal.
type entry struct {
	journal vfs.Dir
	id      string
	intent  intent
	data    vfs.Content // nil until it is read
}

// newEntry makes an entry with that id, or with a new one: the time in milliseconds and a random number,
// in hexadecimal.
func newEntry(journal vfs.Dir, id string) (*entry, error) {
	if id != "" {
		return &entry{journal: journal, id: id}, checkID(id)
	}
	var b [8]byte
	rand.Read(b[:])
	return &entry{journal: journal, id: fmt.Sprintf("%013x-%x", time.Now().UnixMilli(), b)}, nil
}

var idFormat = regexp.MustCompile(`^(?:[0-9a-f]{13}-[0-9a-f]{16}|c[0-9]{1,19})$`)

// checkID answers invalid unless id is one of a batch.
func checkID(id string) error {
	if !idFormat.MatchString(id) {
		return vfs.Errorf(vfs.Invalid, "this is not the id of a batch; Run returned it")
	}
	return nil
}

// close closes what e has open.
func (e *entry) close() {
	if e.data != nil {
		e.data.Close()
		e.data = nil
	}
}

// put replaces one of e's files.
func (e *entry) put(ctx context.Context, file string, r io.Reader) error {
	_, err := e.journal.Replace(ctx, e.id+file, r, vfs.If{})
	return err
}

// take removes one of e's files, if it is there.
func (e *entry) take(ctx context.Context, file string) error {
	err := e.journal.Remove(ctx, e.id+file, vfs.If{})
	if vfs.CodeOf(err) == vfs.NotFound {
		return nil
	}
	return err
}

// open opens one of e's files.
func (e *entry) open(ctx context.Context, file string) (vfs.Content, error) {
	n, err := e.journal.Lookup(ctx, e.id+file)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	f, ok := n.(vfs.File)
	if !ok {
		return nil, vfs.NotRegular
	}
	return vfs.Open(ctx, f)
}

// read reads one of e's files, of at most that many bytes.
func (e *entry) read(ctx context.Context, file string, most int64) ([]byte, error) {
	c, err := e.open(ctx, file)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if c.Size() > most {
		return nil, vfs.Errorf(vfs.Corrupt, "a file in the journal is too long")
	}
	return io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
}

// stage copies all contents that the batch needs, also those to undo it.
func (e *entry) stage(ctx context.Context, at *diff.Cursor) error {
	p := &packer{ctx: ctx, sources: sources(at, e.intent.Changes), packed: map[vfs.Version]segment{}}
	defer p.close()
	e.intent.contents = p.packed
	if len(p.sources) == 0 {
		return nil
	}
	return e.put(ctx, dataFile, p)
}

func (e *entry) writeIntent(ctx context.Context) error {
	text, err := e.intent.encode()
	if err != nil {
		return err
	}
	return e.put(ctx, intentFile, bytes.NewReader(text))
}

// readIntent answers notFound when there is none, and corrupt.
func (e *entry) readIntent(ctx context.Context) error {
	text, err := e.read(ctx, intentFile, maxIntent)
	if err != nil {
		return err
	}
	e.intent, err = decode(text)
	return err
}

// mark writes how the batch ended. unmark removes that again.
func (e *entry) mark(ctx context.Context, o outcome) error {
	return e.put(ctx, outcomeFile, strings.NewReader(string(o)))
}

func (e *entry) unmark(ctx context.Context) error { return e.take(ctx, outcomeFile) }

// outcome returns "" when the batch has none.
func (e *entry) outcome(ctx context.Context) (outcome, error) {
	text, err := e.read(ctx, outcomeFile, 64)
	if vfs.CodeOf(err) == vfs.NotFound {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if o := outcome(text); o == done || o == undone {
		return o, nil
	}
	return "", vfs.Errorf(vfs.Corrupt, "an outcome in the journal cannot be read")
}

// drop removes the batch from the journal. The intent goes first and durably: without
// it the other files mean nothing.
func (e *entry) drop(ctx context.Context) error {
	e.close()
	if err := e.take(ctx, intentFile); err != nil {
		return err
	}
	ctx, sync := vfs.SyncTogether(ctx)
	err := e.take(ctx, outcomeFile)
	if err == nil {
		err = e.take(ctx, dataFile)
	}
	return errors.Join(err, sync())
}

// inMemory is the size, in bytes, up to which a content is read whole before it is put
// in place, so that putting it does not wait for reads.
const inMemory = 1 << 20

// content reads one of the batch's contents and checks it. It is valid until close.
func (e *entry) content(ctx context.Context, v vfs.Version) (io.Reader, error) {
	s, ok := e.intent.contents[v]
	if !ok {
		return nil, errCopy
	}
	if e.data == nil {
		var err error
		if e.data, err = e.open(ctx, dataFile); err != nil {
			return nil, err
		}
	}
	r := verify(e.data, s, v)
	if s.Size > inMemory {
		return r, nil
	}
	b, err := io.ReadAll(r)
	return bytes.NewReader(b), err
}
