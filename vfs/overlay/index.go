package overlay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"regexp"
	"strconv"
	"strings"

	"capd/vfs"
	"capd/vfs/diff"
)

// Names in an upper store.
const (
	indexName    = "index"
	contentsName = "data"
	intentName   = "apply"
)

// LockName is a name in an upper store that an overlay does not use. Whoever opens the
// store may lock a file of that name, so that no two overlays write to one store.
const LockName = "lock"

// index is the record of all changes. The first line names the format. Every other line
// has a checksum and the edits of one change in JSON. If the last line is incomplete,
// that change was not made.
type index struct {
	file   vfs.File
	end    int64 // bytes of whole lines
	packed int64 // bytes when it was last compacted

	flusher *flusher
	lost    error // set when the tree has a change that could not be written
}

const indexFormat = "capd overlay 1\n"

// worthPacking is the least size, in bytes, at which an index is compacted.
const worthPacking = 64 << 10

func line(edits []edit) []byte {
	text, err := json.Marshal(edits)
	if err != nil { // numbers and bytes always encode
		panic(err)
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(text), text)
}

// parse parses one line, without its newline.
func parse(line []byte) ([]edit, bool) {
	if len(line) < 9 || line[8] != ' ' {
		return nil, false
	}
	sum, err := strconv.ParseUint(string(line[:8]), 16, 32)
	if err != nil || uint32(sum) != crc32.ChecksumIEEE(line[9:]) {
		return nil, false
	}
	var edits []edit
	if json.Unmarshal(line[9:], &edits) != nil {
		return nil, false
	}
	return edits, true
}

// records yields the edits of each whole line of text. It returns how many bytes these
// lines have, with the first. It answers corrupt for a bad line that is not the last.
func records(text []byte, yield func([]edit) error) (end int64, err error) {
	text, ok := bytes.CutPrefix(text, []byte(indexFormat))
	if !ok {
		return 0, unreadable(text)
	}
	end = int64(len(indexFormat))
	torn := false
	for len(text) > 0 {
		one, rest, whole := bytes.Cut(text, []byte("\n"))
		edits, ok := parse(one)
		switch {
		case !ok || !whole:
			torn = true
		case torn:
			return 0, errIndex
		default:
			for _, e := range edits {
				if !e.sound() {
					return 0, errIndex
				}
			}
			if err := yield(edits); err != nil {
				return 0, err
			}
			end += int64(len(one)) + 1
		}
		text = rest
	}
	return end, nil
}

var errIndex = vfs.Errorf(vfs.Corrupt, "the overlay's index is damaged; restore its upper store or begin with an empty one")

var errNewer = vfs.Errorf(vfs.Unsupported, "the overlay's upper store was written by a newer version of capd; open it with that one")

var newerFormat = regexp.MustCompile(`^capd overlay [0-9]{1,9}\n`)

// unreadable returns the error for an index that does not begin with indexFormat.
func unreadable(text []byte) error {
	if newerFormat.Match(text) {
		return errNewer
	}
	return errIndex
}

// sound reports whether e has all its fields, with possible values.
func (e *edit) sound() bool {
	path, to := string(e.Path), string(e.To)
	switch e.Do {
	case set:
		return sound(path) && e.Node != nil && e.Node.Kind <= vfs.LinkKind && e.Node.Content >= 0 &&
			(e.Node.Content == 0 || e.Node.Kind == vfs.FileKind) && (e.Node.Content != 0 || e.Node.Below || e.Node.Kind != vfs.FileKind)
	case know:
		return sound(path) && e.Base != nil
	case move:
		return sound(path) && sound(to) && !diff.Within(to, path)
	case adopt:
		return sound(path) && sound(to)
	case drop, detach, forget:
		return sound(path)
	case touch:
		return path == "" || sound(path)
	}
	return false
}

func sound(path string) bool {
	for name := range strings.SplitSeq(path, "/") {
		if vfs.CheckName(name) != nil {
			return false
		}
	}
	return true
}

// append adds a line. If a line cannot be written whole, the next one overwrites it.
func (x *index) append(ctx context.Context, edits []edit, sync bool) error {
	if x.lost != nil {
		return x.lost
	}
	text := line(edits)
	if _, err := x.file.WriteAt(ctx, text, x.end, vfs.If{}); err != nil {
		x.cut(ctx) // the line counts as incomplete all the same
		return err
	}
	if sync {
		if err := x.file.Sync(ctx); err != nil {
			x.cut(ctx)
			return err
		}
	}
	x.end += int64(len(text))
	x.flusher.newest.Add(1)
	return nil
}

// cut removes what follows the last whole line, if it can.
func (x *index) cut(ctx context.Context) { _ = x.file.Truncate(inside(ctx), x.end, vfs.If{}) }

func (x *index) sync(ctx context.Context) error { return x.file.Sync(ctx) }

func (x *index) close() {
	if x.file != nil {
		x.file.Close()
	}
}

// load reads what an overlay wrote in the upper store, or initializes an empty store.
func (o *Overlay) load(ctx context.Context) error {
	kept, err := o.opened(ctx)
	if err != nil {
		return err
	}
	if err := o.contents.open(ctx, o.upper); err != nil {
		return err
	}
	if !kept {
		return o.pack(ctx)
	}
	end, err := o.replay(ctx)
	if err != nil {
		return err
	}
	if err := o.sweep(ctx); err != nil {
		return err
	}
	if err = o.pack(ctx); vfs.CodeOf(err) == vfs.Quota {
		return o.resumeIndex(ctx, end)
	}
	return err
}

// resumeIndex appends to the index that is there, which has end bytes of whole lines. It is
// for an upper store without room for a packed index, which is the longer one where a
// directory moved to a longer path.
func (o *Overlay) resumeIndex(ctx context.Context, end int64) error {
	if err := o.openIndex(ctx, end); err != nil {
		return err
	}
	o.index.cut(ctx)
	return o.index.sync(ctx)
}

// opened reports whether the upper store has an index. It answers invalid for a store
// that holds anything else.
func (o *Overlay) opened(ctx context.Context) (bool, error) {
	kept, others := false, false
	for e, err := range o.upper.List(ctx) {
		if err != nil {
			return false, err
		}
		kept = kept || e.Name == indexName && e.Kind == vfs.FileKind
		others = others || e.Name != contentsName && e.Name != LockName // these are made before the index
	}
	if others && !kept {
		return false, vfs.Errorf(vfs.Invalid, "the overlay's upper store holds something else; give it an empty one")
	}
	return kept, nil
}

// replay makes the edits in the index, and returns how many bytes its whole lines have.
func (o *Overlay) replay(ctx context.Context) (end int64, err error) {
	text, err := readWhole(ctx, o.upper, indexName)
	if err != nil {
		return 0, err
	}
	return records(text, func(edits []edit) error {
		for _, c := range o.edit(edits) {
			o.contents.forget(c)
		}
		return nil
	})
}

// pack rewrites the index without edits that no longer matter.
func (o *Overlay) pack(ctx context.Context) error {
	o.mu.RLock()
	text := o.packed()
	o.mu.RUnlock()
	return o.rewrite(ctx, text)
}

// packed returns the shortest index that makes the tree. Needs mu.
func (o *Overlay) packed() []byte {
	text := []byte(indexFormat)
	for _, e := range o.dump() {
		text = append(text, line([]edit{e})...)
	}
	return text
}

// rewrite replaces the index by text.
func (o *Overlay) rewrite(ctx context.Context, text []byte) error {
	if _, err := o.upper.Replace(ctx, indexName, bytes.NewReader(text), vfs.If{}); err != nil {
		return err
	}
	return o.openIndex(ctx, int64(len(text)))
}

// openIndex opens the index, of which end bytes are on disk.
func (o *Overlay) openIndex(ctx context.Context, end int64) error {
	f, err := vfs.LookupAs[vfs.File](ctx, o.upper, indexName, errIndex)
	if err != nil {
		return err
	}
	w := &o.flusher
	w.mu.Lock()
	defer w.mu.Unlock()
	o.index.close()
	o.index = index{file: f, end: end, packed: end, flusher: w}
	w.safe = w.newest.Load()
	return nil
}

// compact packs an index in which most edits no longer matter. A failure, such as a
// full upper store, is ignored.
func (o *Overlay) compact(ctx context.Context) {
	if o.index.end > max(worthPacking, 4*o.index.packed) && o.pack(ctx) != nil {
		o.index.packed = o.index.end / 2 // do not try every time
	}
}

// readWhole reads the whole file called name.
func readWhole(ctx context.Context, d vfs.Dir, name string) ([]byte, error) {
	f, err := vfs.LookupAs[vfs.File](ctx, d, name, errIndex)
	if err != nil {
		return nil, err
	}
	r, err := diff.ReadFile(ctx, f)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
