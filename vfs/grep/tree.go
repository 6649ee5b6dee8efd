package grep

import (
	"context"
	"math"
	"strings"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/ignore"
	"capd/vfs/search"
)

// Search looks through the files of a tree for lines that match a pattern.
type Search struct {
	Pattern *Pattern
	Show    Show

	Only   []*search.Pattern // paths of files; none: all
	Except []*search.Pattern // paths of files, and of directories with all that is below
	Ignore *ignore.Dir       // what ignore files above the tree say; nil: ignore files do not count
	// NoHidden leaves out names that begin with a dot, and all that is below them.
	NoHidden bool

	// From is where to begin, so that a search can continue where it stopped.
	From Cursor
	// Matches and Bytes bound what is found: how many lines match, or how many files with
	// Names and Counts, and what the result takes. Work bounds the bytes that are read. 0 is
	// no bound.
	Matches, Bytes int
	Work           int64

	// Found is called for every file with a match, in tree order.
	Found func(File)
	// Missed may be nil. It is called for every directory that could not be listed and every
	// file that could not be read; see [search.Search].
	Missed func(path string, err error)
}

// maxEntries is how many entries one search with bounds looks at. A directory with files counts
// as one more for each name of its path, since all of them are looked up.
const maxEntries = 20_000

// In searches the tree below d. It follows no links. more says that it stopped before the
// end, and next is where it goes on. It searches in the caller's goroutine: a guest's call has
// one turn, see package meter.
func (s Search) In(ctx context.Context, d vfs.Dir) (next Cursor, more bool, err error) {
	w := &walk{Search: s, ctx: ctx, d: d, left: newBudget(s)}
	w.room = room{w.left.matches, w.left.bytes}
	if w.Missed == nil {
		w.Missed = func(string, error) {}
	}
	w.worker = worker{searcher: newSearcher(s.Pattern), show: s.Show, room: w.room, most: s.Work, ctx: vfs.Unasked(ctx), d: d, buf: make([]byte, window)}
	if err := w.all(); err != nil {
		return Cursor{}, false, err
	}
	return w.next, w.over, ctx.Err()
}

// InFile searches one file, which Found calls path. Only, Except, Ignore and NoHidden do not
// apply to it. A file that cannot be read is an error.
func (s Search) InFile(ctx context.Context, file vfs.File, path string) (next Cursor, more bool, err error) {
	if s.From.Path != "" && s.From.whole {
		return s.From, false, nil
	}
	w := &walk{Search: s, ctx: ctx, left: newBudget(s)}
	f := &fileSearch{searcher: newSearcher(s.Pattern), show: s.Show, room: room{w.left.matches, w.left.bytes}, File: File{Path: path, at: s.From.place}}
	_, err = f.open(ctx, file, make([]byte, window), s.Work)
	if vfs.CodeOf(err) == vfs.TooLarge && s.Missed != nil { // what it has found counts
		s.Missed(path, err)
		err = nil
	}
	if err != nil {
		return Cursor{}, false, err
	}
	if f.some() {
		w.pass(f.File)
	}
	return w.next, w.over, ctx.Err()
}

// Bounds of a job.
const (
	jobFiles = 32
	jobDirs  = 16
)

// budget is what is left of the bounds of a search.
type budget struct {
	matches, bytes, entries int
	work                    int64
}

func newBudget(s Search) budget {
	b := budget{matches: s.Matches, bytes: s.Bytes, entries: math.MaxInt, work: s.Work}
	if b.matches == 0 {
		b.matches = math.MaxInt
	}
	if b.bytes == 0 {
		b.bytes = math.MaxInt
	}
	if b.work == 0 {
		b.work = math.MaxInt64
	} else {
		b.entries = maxEntries
	}
	return b
}

// walk is a search under way.
type walk struct {
	Search
	ctx    context.Context
	d      vfs.Dir
	worker worker

	room  room // of one file
	left  budget
	next  Cursor // after what was passed on
	over  bool   // a bound was reached
	fatal error

	looked   int // entries
	compared int // bytes, with Only and Except, that do not count yet

	filling *job   // not searched yet
	out     string // the directory that is left out, with a "/"; "" for none
	rules   []ruled
}

// job is some files that are searched together, in tree order.
type job struct {
	runs  []run
	files int
	last  string // the path up to which the tree is searched when the job is done

	found  []File
	missed []missed
	bytes  int  // of found
	cut    bool // not all was searched, since found fills more than a page
	read   int64
	err    error // it ends the search
}

// run is files of one directory that come one after the other.
type run struct {
	dir   string
	names []string
	from  place // in the first
}

type missed struct {
	path string
	err  error
}

// all searches from From on.
func (w *walk) all() error {
	w.next = w.From
	w.filling = &job{}
	if w.From.Path != "" && !w.From.whole {
		dir, name := parent(w.From.Path)
		w.filling.add(dir, name, w.From.place)
		w.filling.last = w.From.Path
	}
	pattern, err := search.Compile("**")
	if err != nil {
		return err
	}
	if len(w.Only) == 1 {
		pattern = w.Only[0]
	}
	err = search.Search{Pattern: pattern, After: w.From.Path, Visit: w.visit, Missed: w.miss}.In(w.ctx, w.d)
	if err == nil {
		err = w.fatal
	}
	if err == nil && !w.over {
		w.search()
		err = w.fatal
	}
	return err
}

func (w *walk) miss(path string, err error) {
	if w.out == "" || !strings.HasPrefix(path, w.out) {
		w.filling.missed = append(w.filling.missed, missed{path, err})
	}
}

// visit is called for every entry of the tree.
func (w *walk) visit(path string, kind vfs.Kind, hit bool, work int) bool {
	if w.left.entries -= work; w.left.entries < 0 {
		w.search()
		w.over = true
		return false
	}
	if w.looked++; w.looked%256 == 0 && meter.Yield(w.ctx) != nil || w.ctx.Err() != nil {
		return false
	}
	w.filling.last = path
	if w.out != "" && strings.HasPrefix(path, w.out) {
		return true
	}
	if kind != vfs.DirKind && (!hit || kind != vfs.FileKind) {
		return true
	}
	if w.leavesOut(path, kind == vfs.DirKind) {
		if kind == vfs.DirKind {
			w.out = path + "/"
		}
		return true
	}
	if kind == vfs.DirKind || len(w.Only) > 1 && !w.matches(w.Only, path) {
		return true
	}
	dir, name := parent(path)
	if w.filling.add(dir, name, place{}) {
		w.left.entries -= strings.Count(dir, "/") + 1
	}
	if w.filling.files < jobFiles && len(w.filling.runs) <= jobDirs {
		return true
	}
	w.search()
	return !w.over && w.fatal == nil && meter.Yield(w.ctx) == nil
}

// matches reports whether one of many patterns matches path. What it compares counts as entries,
// and others get their turns meanwhile. After the call has ended nothing matches.
func (w *walk) matches(all []*search.Pattern, path string) bool {
	for _, p := range all {
		if w.compared > compareAhead {
			if meter.Yield(w.ctx) != nil {
				return false
			}
			w.left.entries -= search.Work(w.compared)
			w.compared = 0
		}
		hit, compared := p.Compare(path)
		if w.compared += compared; hit {
			return true
		}
	}
	return false
}

// compareAhead is how many bytes of patterns are compared before others get their turns.
const compareAhead = 256 << 10

// parent splits a path into its directory and its last name.
func parent(path string) (dir, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// add adds a file. It reports whether that begins a run.
func (j *job) add(dir, name string, from place) bool {
	j.files++
	if n := len(j.runs); n > 0 && j.runs[n-1].dir == dir {
		j.runs[n-1].names = append(j.runs[n-1].names, name)
		return false
	}
	j.runs = append(j.runs, run{dir, []string{name}, from})
	return true
}

// search searches the job that was filled, and passes on what it has found.
func (w *walk) search() {
	j := w.filling
	w.filling = &job{}
	w.worker.work(j)
	if w.fatal = j.err; w.fatal == nil {
		w.take(j)
	}
}

// take passes on what a job has found.
func (w *walk) take(j *job) {
	for _, f := range j.found {
		if w.pass(f); w.over {
			return
		}
	}
	for _, m := range j.missed {
		w.Missed(m.path, m.err)
		w.left.bytes -= len(m.path) + 128
	}
	switch {
	case j.cut:
		w.over = true
		return
	case j.last != "":
		w.next = Cursor{Path: j.last, whole: true}
	}
	if w.left.work -= j.read; w.left.work < 0 || w.left.bytes < 0 {
		w.over = true
	}
}

// pass passes on a file, as far as there is room.
func (w *walk) pass(f File) {
	if len(f.Lines) == 0 && f.Count > 0 {
		cost := lineCost + len(f.Path)
		if w.left.matches == 0 || w.left.bytes < cost {
			w.over = true
			return
		}
		w.left.matches--
		w.left.bytes -= cost
		w.Found(f)
		w.next = Cursor{Path: f.Path, whole: true}
		return
	}
	n, matches := 0, int64(0)
	w.left.bytes -= len(f.Path)
	for ; n < len(f.Lines); n++ {
		l := &f.Lines[n]
		if l.Match && w.left.matches == 0 || w.left.bytes < lineCost+len(l.Text) {
			break
		}
		if l.Match {
			matches++
			w.left.matches--
		}
		w.left.bytes -= lineCost + len(l.Text)
	}
	if n < len(f.Lines) {
		w.over = true
		if n == 0 {
			return
		}
		f.at, f.stopped = f.Lines[n-1].end, true
		f.Lines, f.Count = f.Lines[:n], matches
	}
	if n > 0 {
		w.Found(f)
	}
	w.next = Cursor{Path: f.Path, whole: !f.stopped, place: f.at}
	w.over = w.over || f.stopped
}
