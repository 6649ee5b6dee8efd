package worlds

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/membrane"
)

// A repository is a commit that both git and capd read.
type repository struct {
	git    tool
	dir    string
	commit string
	paths  []string // of the commit
	all    tally
}

// generated measures a repository made for the run: one pack, with contents that resemble source code.
func generated(_ Options, s *sizes, dir string) world {
	r := &repository{git: findGit(), dir: dir}
	w := r.world(fmt.Sprintf("git, %s files", count(s.tracked())), func(ctx context.Context) error {
		return r.fill(ctx, s.tracked())
	})
	w.long = true
	return w
}

// existing measures the repository that contains Options.Source.
func existing(o Options, _ *sizes, _ string) world {
	r := &repository{git: findGit()}
	return r.world("git, this repository", func(ctx context.Context) error {
		out, err := r.git.run(ctx, o.Source, "rev-parse", "--show-toplevel")
		r.dir = strings.TrimSpace(string(out))
		return err
	})
}

func (r *repository) world(name string, prepare func(context.Context) error) world {
	lsTree := &contender{name: "git ls-tree -r", missing: r.git.missing, run: func(ctx context.Context) (func() error, error) {
		out, err := r.git.run(ctx, r.dir, "ls-tree", "-r", "-z", r.commit)
		return func() error { return same(listed(out), r.paths) }, err
	}}
	lists := &contender{name: "capd", run: func(ctx context.Context) (func() error, error) {
		var paths []string
		err := r.open(func(root vfs.Dir) error { return list(ctx, root, "", &paths) })
		return func() error { return same(paths, r.paths) }, err
	}}
	catFile := &contender{name: "git ls-tree -r | git cat-file --batch", missing: r.git.missing, run: func(ctx context.Context) (func() error, error) {
		got, err := r.cat(ctx)
		return func() error { return got.is("git's files", r.all) }, err
	}}
	reads := &contender{name: "capd", run: func(ctx context.Context) (func() error, error) {
		read := &reader{}
		err := r.open(func(root vfs.Dir) error { return read.all(ctx, root) })
		return func() error { return read.is("the files", r.all) }, err
	}}
	return world{
		rows: []row{
			{name: name + ": list", floor: lsTree, capd: lists},
			{name: name + ": list and read", floor: catFile, capd: reads, target: 2},
		},
		setup: func(ctx context.Context) error {
			if err := prepare(ctx); err != nil {
				return err
			}
			return r.survey(ctx)
		},
	}
}

// survey asks git for the contents, to check every outcome.
func (r *repository) survey(ctx context.Context) error {
	out, err := r.git.run(ctx, r.dir, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	r.commit = strings.TrimSpace(string(out))
	if out, err = r.git.run(ctx, r.dir, "ls-tree", "-r", "-z", r.commit); err != nil {
		return err
	}
	r.paths = listed(out)
	r.all, err = r.cat(ctx)
	return err
}

// open opens the commit as a host opens it for a guest, and calls f with it.
func (r *repository) open(f func(root vfs.Dir) error) error {
	store, err := git.OpenAmbient(r.dir, git.Options{Revision: r.commit})
	if err != nil {
		return err
	}
	root := membrane.Guarded(store.Root(), nil)
	return errors.Join(f(root), root.Close(), store.Close())
}

// listed returns the paths in the output of git ls-tree -z.
func listed(out []byte) (paths []string) {
	for line := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		if _, path, ok := bytes.Cut(line, []byte{'\t'}); ok {
			paths = append(paths, string(path))
		}
	}
	return paths
}

// cat reads every blob with git, and tallies them.
func (r *repository) cat(ctx context.Context) (t tally, err error) {
	names := exec.CommandContext(ctx, r.git.path, "ls-tree", "-r", "--object-only", r.commit)
	blobs := exec.CommandContext(ctx, r.git.path, "cat-file", "--batch")
	names.Dir, blobs.Dir = r.dir, r.dir
	if blobs.Stdin, err = names.StdoutPipe(); err != nil {
		return t, err
	}
	out, err := blobs.StdoutPipe()
	if err != nil {
		return t, err
	}
	if err := errors.Join(blobs.Start(), names.Start()); err != nil {
		return t, err
	}
	err = t.batch(bufio.NewReaderSize(out, 64<<10))
	if err != nil { // otherwise neither must wait for a reader
		_, _ = io.Copy(io.Discard, out)
	}
	return t, errors.Join(err, blobs.Wait(), names.Wait())
}

// batch reads the output of git cat-file --batch: for each object "NAME TYPE SIZE", a newline, its content,
// and a newline.
func (t *tally) batch(in *bufio.Reader) error {
	var content []byte
	for {
		head, err := in.ReadSlice('\n')
		if err == io.EOF && len(head) == 0 {
			return nil
		} else if err != nil {
			return err
		}
		fields := bytes.Fields(head)
		if len(fields) != 3 {
			return fmt.Errorf("git cat-file says %q", head)
		}
		length, err := strconv.ParseUint(string(fields[2]), 10, 31)
		if err != nil {
			return err
		}
		size := int(length)
		if cap(content) < size+1 {
			content = make([]byte, size+1)
		}
		content = content[:size+1]
		if _, err := io.ReadFull(in, content); err != nil {
			return err
		}
		t.add(content[:size])
	}
}

// fill makes a bare repository of n files.
func (r *repository) fill(ctx context.Context, n int) error {
	if _, err := r.git.run(ctx, r.dir, "init", "--quiet", "--bare", "--initial-branch=main"); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, r.git.path, "fast-import", "--quiet")
	cmd.Dir = r.dir
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	in := bufio.NewWriterSize(pipe, 1<<20)
	random := rand.New(rand.NewPCG(1, 2))
	fmt.Fprint(in, "commit refs/heads/main\ncommitter A <a@example.com> 1700000000 +0000\ndata 2\nm\n")
	var b []byte
	for i := range n {
		b = b[:0]
		for size := 200 + random.IntN(4000); len(b) < size; {
			b = fmt.Appendf(b, "\tif word%d := call%d(value, %d); word%d != nil {\n", random.IntN(500), random.IntN(2000), random.IntN(1e6), i%100)
		}
		fmt.Fprintf(in, "M 100644 inline dir%d/part%d/file%d.go\ndata %d\n%s\n", i%50, i/50%40, i, len(b), b)
	}
	if err := errors.Join(in.Flush(), pipe.Close(), cmd.Wait()); err != nil {
		return err
	}
	_, err = r.git.run(ctx, r.dir, "gc", "--quiet")
	return err
}
