package physical_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"capd/backend/physical"
	"capd/tests/powercut"
	"capd/vfs"
)

func init() { other["durable"] = makeDurable }

// sequences are the sequences of changes that a power cut may interrupt.
var sequences = map[string][]durableChange{"one by one": durable, "staged": stagedDurable}

// held describes a directory: paths to "dir", "link:" and a target, or a content.
type held map[string]string

// durableChange is a change with its effect.
type durableChange struct {
	name  string
	do    func(ctx context.Context, root vfs.Dir) error
	gives held   // "" for what is gone
	loose string // a file of which any part may be changed until it has answered
	also  []held // what else it may have altered until it has answered
}

// durable are changes, made one after another in a directory that holds durableBefore.
var durable = []durableChange{
	{name: "put a new file", gives: held{"new": "1"}, do: put("new", "1", vfs.If{})},
	{name: "put in place", gives: held{"new": "22"}, do: put("new", "22", vfs.If{})},
	{name: "put with a condition", gives: held{"new": "333"}, do: put("new", "333", vfs.If{Is: version("22")})},
	{name: "put a new one with a condition", gives: held{"absent": "4"}, do: put("absent", "4", vfs.If{Absent: true})},
	{name: "replace a File", gives: held{"absent": "55"}, do: func(ctx context.Context, root vfs.Dir) error {
		f, err := vfs.WalkFile(ctx, root, "absent")
		if err == nil {
			_, err = f.Replace(ctx, strings.NewReader("55"), vfs.If{})
		}
		return err
	}},
	{name: "install", gives: held{"tool": "exec:6"}, do: func(ctx context.Context, root vfs.Dir) error {
		_, err := vfs.Install(ctx, root, "tool", strings.NewReader("6"), true, vfs.If{})
		return err
	}},
	{name: "make a directory", gives: held{"a": "dir"}, do: func(ctx context.Context, root vfs.Dir) error { return closed(root.Mkdir(ctx, "a")) }},
	{name: "make one in it", gives: held{"a/b": "dir"}, do: in("a", func(ctx context.Context, d vfs.Dir) error { return closed(d.Mkdir(ctx, "b")) })},
	{name: "make a file in that", gives: held{"a/b/f": ""}, do: in("a/b", func(ctx context.Context, d vfs.Dir) error { return closed(d.Create(ctx, "f")) })},
	{name: "make a link", gives: held{"a/l": "link:b"}, do: in("a", func(ctx context.Context, d vfs.Dir) error { return vfs.Symlink(ctx, d, "l", "b") })},
	{name: "put below", gives: held{"a/b/g": "g"}, do: in("a/b", put("g", "g", vfs.If{}))},
	{name: "rename", gives: held{"new": gone, "old": "333"}, also: []held{{"old": "333"}}, do: move("new", "old", vfs.If{}, vfs.If{})},
	{name: "rename into a directory", gives: held{"old": gone, "a/old": "333"}, also: []held{{"a/old": "333"}}, do: move("old", "a/old", vfs.If{}, vfs.If{})},
	{name: "rename with a condition", gives: held{"a/old": gone, "old": "333"}, also: []held{{"old": "333"}}, do: move("a/old", "old", vfs.If{Is: version("333")}, vfs.If{})},
	{
		name: "rename over a version", gives: held{"old": gone, "a/b/g": "333"}, also: []held{{"old": "g", "a/b/g": "333"}, {"a/b/g": "333"}},
		do: move("old", "a/b/g", vfs.If{}, vfs.If{Is: version("g")}),
	},
	{
		name:  "move a directory",
		gives: held{"a/b": gone, "a/b/f": gone, "a/b/g": gone, "moved": "dir", "moved/f": "", "moved/g": "333"},
		also:  []held{{"moved": "dir", "moved/f": "", "moved/g": "333"}},
		do:    move("a/b", "moved", vfs.If{}, vfs.If{}),
	},
	{name: "remove a file", gives: held{"moved/f": gone}, do: in("moved", remove("f", vfs.If{}))},
	{name: "remove a version", gives: held{"moved/g": gone}, do: in("moved", remove("g", vfs.If{Is: version("333")}))},
	{name: "remove a link", gives: held{"a/l": gone}, do: in("a", remove("l", vfs.If{}))},
	{name: "remove a directory", gives: held{"moved": gone}, do: remove("moved", vfs.If{})},
	{name: "write and sync", gives: held{"log": "line 0\n!"}, loose: "log", do: log(func(ctx context.Context, f vfs.File) error {
		_, err := f.WriteAt(ctx, []byte("!"), 7, vfs.If{})
		return err
	})},
	{name: "append and sync", gives: held{"log": "line 0\n!more"}, loose: "log", do: log(func(ctx context.Context, f vfs.File) error {
		_, err := vfs.Append(ctx, f, []byte("more"), vfs.If{})
		return err
	})},
	{name: "sync what another program made", gives: held{"theirs": "5"}, also: []held{{"theirs": ""}}, loose: "theirs", do: func(ctx context.Context, root vfs.Dir) error {
		if err := os.WriteFile(filepath.Join(strings.Split(os.Getenv(otherVar), "\n")[1], "theirs"), []byte("5"), 0o644); err != nil {
			return err
		}
		f, err := vfs.WalkFile(ctx, root, "theirs")
		if err == nil {
			err = f.Sync(ctx)
		}
		return err
	}},
	{name: "truncate and sync", gives: held{"log": "li"}, loose: "log", do: log(func(ctx context.Context, f vfs.File) error { return f.Truncate(ctx, 2, vfs.If{}) })},
}

// stagedDurable place directories: one whose nodes are synced one by one, and one that is
// synced with its file system.
var stagedDurable = []durableChange{
	{name: "place a small directory", gives: stagedHeld("small", 2), do: stage("small", 2)},
	{name: "place a large directory", gives: stagedHeld("large", 20), do: stage("large", 20)},
	{name: "put in what was placed", gives: held{"large/in/late": "late"}, do: in("large/in", put("late", "late", vfs.If{}))},
}

// stage places a directory with a link and n files, one of which was replaced and one renamed.
func stage(name string, n int) func(context.Context, vfs.Dir) error {
	return func(ctx context.Context, root vfs.Dir) error {
		s, err := vfs.StageDir(ctx, root, name)
		if err != nil {
			return err
		}
		defer s.Close()
		defer s.Drop(ctx)
		d, err := s.Mkdir(ctx, "in")
		for i := 0; err == nil && i < n; i++ {
			err = put(fmt.Sprint("f", i), "old", vfs.If{Absent: true})(ctx, d)
		}
		for _, do := range []func(context.Context, vfs.Dir) error{
			put("f0", "new", vfs.If{Is: version("old")}), move("f1", "moved", vfs.If{}, vfs.If{}),
			func(ctx context.Context, d vfs.Dir) error { return vfs.Symlink(ctx, d, "l", "f0") },
		} {
			if err == nil {
				err = do(ctx, d)
			}
		}
		if err != nil {
			return err
		}
		return s.Place(ctx)
	}
}

func stagedHeld(name string, n int) held {
	h := held{name: "dir", name + "/in": "dir", name + "/in/f0": "new", name + "/in/moved": "old", name + "/in/l": "link:f0"}
	for i := 2; i < n; i++ {
		h[fmt.Sprintf("%s/in/f%d", name, i)] = "old"
	}
	return h
}

var durableBefore = held{"log": "line 0\n", "stays": "dir", "stays/f": "stays"}

const gone = "gone"

func version(data string) vfs.Version { return sha256.Sum256([]byte(data)) }

func put(name, data string, c vfs.If) func(context.Context, vfs.Dir) error {
	return func(ctx context.Context, d vfs.Dir) error {
		_, err := d.Replace(ctx, name, strings.NewReader(data), c)
		return err
	}
}

func remove(name string, c vfs.If) func(context.Context, vfs.Dir) error {
	return func(ctx context.Context, d vfs.Dir) error { return d.Remove(ctx, name, c) }
}

func closed[N vfs.Node](n N, err error) error {
	if err == nil {
		err = n.Close()
	}
	return err
}

// in makes the change in the directory at path.
func in(path string, do func(context.Context, vfs.Dir) error) func(context.Context, vfs.Dir) error {
	return func(ctx context.Context, root vfs.Dir) error {
		d, err := vfs.WalkDir(ctx, root, path)
		if err != nil {
			return err
		}
		return do(ctx, d)
	}
}

func move(from, to string, source, target vfs.If) func(context.Context, vfs.Dir) error {
	return func(ctx context.Context, root vfs.Dir) error {
		src, name, done, err := vfs.WalkParent(ctx, root, from)
		if err != nil {
			return err
		}
		defer done()
		dst, newName, done, err := vfs.WalkParent(ctx, root, to)
		if err != nil {
			return err
		}
		defer done()
		return src.Rename(ctx, name, dst, newName, source, target)
	}
}

// log changes the file log in place and syncs it.
func log(change func(context.Context, vfs.File) error) func(context.Context, vfs.Dir) error {
	return func(ctx context.Context, root vfs.Dir) error {
		f, err := vfs.WalkFile(ctx, root, "log")
		if err == nil {
			err = change(ctx, f)
		}
		if err == nil {
			err = f.Sync(ctx)
		}
		return err
	}
}

// makeDurable makes all changes, and prints when each has answered.
func makeDurable(args []string) {
	s, err := physical.OpenAmbient(args[0], physical.Options{Portable: args[1] == "best-effort"})
	for _, c := range sequences[args[2]] {
		if err == nil {
			err = c.do(context.Background(), s.Root())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, c.name+":", err)
			os.Exit(1)
		}
		fmt.Println(c.name)
	}
}

// TestPowerCut: after a power cut at any moment, a change that has answered is there, a
// change in progress is done or not, and nothing else has changed.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	for name, o := range modes {
		for which, changes := range sequences {
			t.Run(name+", "+which, func(t *testing.T) {
				t.Parallel()
				w := serve(t, o)
				w.mkdir("stays")
				w.write("stays/f", "stays")
				w.write("log", "line 0\n")
				powercut.Run(t, w.dir, program("durable", w.dir, w.store.Confinement(), which)).Each(t, func(dir string, said []string) error {
					s, err := physical.OpenAmbient(dir, o)
					if err != nil {
						return err
					}
					defer s.Close()
					s.Root() // removes what was staged
					got, err := holding(dir)
					if err != nil {
						return err
					}
					return allowed(changes, got, len(said))
				})
			})
		}
	}
}

// allowed reports whether a tree may be left when this many changes have answered.
func allowed(changes []durableChange, got held, answered int) error {
	before := maps.Clone(durableBefore)
	for _, c := range changes[:answered] {
		before.change(c.gives)
	}
	if answered == len(changes) {
		return differs(got, before, "")
	}
	next := changes[answered]
	err := differs(got, before, next.loose)
	for _, gives := range append(next.also, next.gives) {
		after := maps.Clone(before)
		after.change(gives)
		if differs(got, after, next.loose) == nil {
			return nil
		}
	}
	return err
}

func (h held) change(gives held) {
	maps.Copy(h, gives)
	maps.DeleteFunc(h, func(_, what string) bool { return what == gone })
}

// differs compares, except for the content of the file called loose.
func differs(got, want held, loose string) error {
	got, want = maps.Clone(got), maps.Clone(want)
	if _, ok := got[loose]; ok {
		got[loose] = want[loose]
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("it holds %q, want %q", got, want)
	}
	return nil
}

// holding returns what dir holds after a store has cleaned it.
func holding(dir string) (held, error) {
	h := held{}
	return h, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel := path[len(dir)+1:]
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch e.Type() {
		case fs.ModeDir:
			h[rel] = "dir"
		case fs.ModeSymlink:
			target, err := os.Readlink(path)
			h[rel] = "link:" + target
			return err
		default:
			data, err := os.ReadFile(path)
			h[rel] = string(data)
			if info.Mode()&0o100 != 0 {
				h[rel] = "exec:" + h[rel]
			}
			return err
		}
		return nil
	})
}
