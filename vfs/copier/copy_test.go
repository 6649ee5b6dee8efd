package copier_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"capd/vfs"
	"capd/vfs/copier"
	"capd/vfs/faultfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// notes are what the sinks of one copy were told.
type notes struct {
	mu    sync.Mutex
	made  map[string]string
	ended map[string]bool // by path; whether it was whole
	wrong []string
	calls int
	fail  int // the call that fails, counted from 1
	with  error
}

func (n *notes) note(path, what string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.calls++; n.calls == n.fail {
		return n.with
	}
	n.made[path] = what
	return nil
}

// noting is a sink that notes.
type noting struct {
	*notes
	path string
}

func (s noting) Mkdir(_ context.Context, name string, _ vfs.Info) (copier.Sink, error) {
	path := vfs.Join(s.path, name)
	return noting{s.notes, path}, s.note(path, "directory")
}

func (s noting) Link(_ context.Context, name, target string) error {
	return s.note(vfs.Join(s.path, name), "link "+target)
}

func (s noting) File(_ context.Context, name string, f *copier.File) error {
	data, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
	if err != nil {
		return err
	}
	return s.note(vfs.Join(s.path, name), fmt.Sprint("file ", f.Info.Exec, len(data)))
}

func (s noting) End(_ context.Context, whole bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, twice := s.ended[s.path]; twice {
		s.wrong = append(s.wrong, "ended twice: "+s.path)
	}
	for path := range s.made {
		_, ended := s.ended[path]
		if strings.HasPrefix(path, s.path+"/") && s.made[path] == "directory" && !ended {
			s.wrong = append(s.wrong, s.path+" ended before "+path)
		}
	}
	s.ended[s.path] = whole
	return nil
}

// TestSink: a sink gets everything once, and ends after what is in it, whether or not
// something fails, and nothing of the source stays open.
func TestSink(t *testing.T) {
	want := map[string]string{"d": "directory", "d/e": "directory", "d/hollow": "directory", "d/f": "file false 6", "d/x": "file true 2",
		"d/e/g": "file false 20000", "d/e/empty": "file false 0", "d/l": "link ../beyond", "f": "file false 5", "l": "link f"}
	planned := vfs.Errorf(vfs.Internal, "planned")
	for _, workers := range []int{1, 4} {
		for fail := range 14 {
			for _, with := range []error{planned, copier.ErrLeftOut} {
				_, from := check.Store(t, cargo)
				plan, open := new(faultfs.Plan), 0
				var mu sync.Mutex
				plan.Watch(func(op faultfs.Op, stage faultfs.Stage) {
					mu.Lock()
					defer mu.Unlock()
					switch {
					case stage != faultfs.After:
					case op == faultfs.Lookup, op == faultfs.Open:
						open++
					case op == faultfs.Close:
						open--
					}
				})
				n := &notes{made: map[string]string{}, ended: map[string]bool{}, fail: fail, with: with}
				err := copier.Copy(t.Context(), faultfs.New(from, plan), noting{n, ""}, copier.Options{Workers: workers})
				where := fmt.Sprintf("%d workers, call %d, %v", workers, fail, with)
				fails := fail > 0 && fail <= len(want) && with == error(planned)
				if fails != (vfs.CodeOf(err) == vfs.Internal) || !fails && err != nil {
					t.Errorf("%s: %v", where, err)
				}
				if whole, ended := n.ended[""]; !ended || whole == fails {
					t.Errorf("%s: ended %v, whole %v", where, ended, whole)
				}
				for path, what := range n.made {
					if want[path] != what {
						t.Errorf("%s: %s is %q, want %q", where, path, what, want[path])
					}
				}
				if fail == 0 && len(n.made) != len(want) {
					t.Errorf("%s: made %v", where, slices.Sorted(maps.Keys(n.made)))
				}
				if len(n.wrong) > 0 || open != 0 && (workers == 1 || !fails) { // a Lookup that is cancelled counts as one that opened
					t.Errorf("%s: %q; %d are left open", where, n.wrong, open)
				}
			}
		}
	}
}

// TestPolicies: what is left out is what the options say, and everything else is there.
func TestPolicies(t *testing.T) {
	_, from := check.Store(t, vfstest.Tree{"a": {Data: "a"}, "d/b": {Data: "b"}, "d/in": {Link: "../a"}, "d/out": {Link: "../../x"}, "no/c": {Data: "c"}})
	for name, c := range map[string]struct {
		o    copier.Options
		want string
		code vfs.Code
	}{
		"all":                {copier.Options{}, "a d d/b d/in d/out no no/c", ""},
		"exclude":            {copier.Options{Exclude: func(path string) bool { return path == "no" }}, "a d d/b d/in d/out", ""},
		"links within":       {copier.Options{Link: copier.Within(from)}, "", vfs.Outside},
		"links within, skip": {copier.Options{Link: copier.Within(from), Skip: func(copier.Unread) error { return nil }}, "a d d/b d/in no no/c", ""},
		"listed": {copier.Options{Listed: func(_ context.Context, _ vfs.Dir, path string) error {
			if path == "d" {
				return vfs.Denied
			}
			return nil
		}}, "", vfs.Denied},
	} {
		n := &notes{made: map[string]string{}, ended: map[string]bool{}}
		check.Is(t, name, copier.Copy(t.Context(), from, noting{n, ""}, c.o), c.code)
		if got := strings.Join(slices.Sorted(maps.Keys(n.made)), " "); c.code == "" && got != c.want {
			t.Errorf("%s: copied %s, want %s", name, got, c.want)
		}
	}
}
