package peers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"

	"capd/bench/load"
	"capd/client"
	"capd/vfs"
	"capd/vfs/edit"
	"capd/vfs/editing"
)

// Capd is all of capd.
var Capd = &Contender{
	Name:    "capd",
	About:   "`capd serve` and capd/client: guards, gates, a real directory; a put is durable",
	Ops:     append(slices.Clone(capdOps), load.Edit),
	OpsTLS:  append(slices.Clone(capdOps), load.Edit),
	Ours:    true,
	Durable: true,
	Version: capdVersion,
	Command: func(p Place) *exec.Cmd {
		args := []string{"serve", p.Tree, "--state", p.Scratch}
		if p.TLS {
			args = append(args, "--listen", "tls:"+p.Address)
		}
		cmd := exec.Command(p.Capd, args...)
		if p.Profile != "" {
			cmd.Env = append(os.Environ(), ProfileEnv+"="+p.Profile)
		}
		return cmd
	},
	Address: func(p Place, line string) (string, bool) {
		_, remote := strings.CutPrefix(line, "capnp://sha-256:")
		return line, remote == p.TLS && strings.HasPrefix(line, "capnp://")
	},
	Client: newCapdClient,
}

// ProfileEnv names the file that a profiled capd writes.
const ProfileEnv = "CAPD_BENCH_PROFILE"

func capdVersion(p Place) (string, error) {
	out, err := exec.Command(p.Capd, "version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return first, nil
}

type capdClient struct {
	table []byte
	dir   *client.Dir // the tree
}

// CapdTree is where `capd serve` puts the directory.
const CapdTree = "project"

func newCapdClient(p Place) (load.Client, error) {
	table, err := load.ReadTable(p.Table)
	if err != nil {
		return nil, err
	}
	conn, err := client.Dial(context.Background(), p.Address)
	if err != nil {
		return nil, err
	}
	return &capdClient{table, conn.Dir(context.Background()).SubDir(CapdTree)}, nil
}

func (c *capdClient) Op(op string, size int) (func(worker int) func() error, error) {
	ctx := context.Background()
	switch op {
	case load.Pread:
		pieces := load.Pieces(c.table, size)
		file := c.dir.OpenFile(load.TableFile)
		return func(worker int) func() error {
			return load.InTurn(pieces, worker, func(p *load.Piece) error {
				return file.View(ctx, int64(p.Offset), size, func(b []byte, _ bool) error { return p.Check(b) })
			})
		}, nil
	case load.Whole, load.DeepFile:
		whole := load.FileOf(c.table, size)
		return func(int) func() error {
			into := make([]byte, size)
			return func() error {
				f := c.dir.OpenFile(load.At(op, load.FileName(size)))
				defer f.Close()
				n, err := f.ReadAt(ctx, into, 0)
				if err != nil && err != io.EOF {
					return err
				}
				return whole.Check(into[:n])
			}
		}, nil
	case load.Version:
		whole := load.FileOf(c.table, size)
		return func(int) func() error {
			return func() error {
				f := c.dir.OpenFile(load.FileName(size))
				defer f.Close()
				b, _, err := f.ReadBytes(ctx)
				if err != nil {
					return err
				}
				return whole.Check(b)
			}
		}, nil
	case load.Put:
		pieces := load.Pieces(c.table, size)
		return func(worker int) func() error {
			name := path.Join(load.PutDir, fmt.Sprint("capd", worker))
			return load.InTurn(pieces, worker, func(p *load.Piece) error {
				_, err := c.dir.Put(ctx, name, bytes.NewReader(p.Bytes), vfs.If{})
				return err
			})
		}, nil
	case load.Edit:
		return c.edit(ctx, size)
	case load.Stat, load.DeepStat:
		return func(int) func() error {
			return func() error {
				info, err := vfs.StatAt(ctx, c.dir, load.At(op, load.TableFile), true)
				if err != nil {
					return err
				}
				return load.CheckStat(info.Size)
			}
		}, nil
	case load.List:
		return func(int) func() error {
			return func() error {
				listed := c.dir.SubDir(load.ListedDir)
				defer listed.Close()
				return list(ctx, listed)
			}
		}, nil
	case load.HeldList:
		listed := c.dir.SubDir(load.ListedDir)
		return func(int) func() error {
			return func() error { return list(ctx, listed) }
		}, nil
	case load.Download:
		s := load.NewStreamed(c.table, load.TableBytes)
		return func(int) func() error {
			return func() error {
				f := c.dir.OpenFile(load.BigFile)
				defer f.Close()
				var sum summer
				if _, err := f.Stream(ctx, &sum, 0, 0); err != nil {
					return err
				}
				return s.Check(uint32(sum))
			}
		}, nil
	}
	return nil, load.ErrUnsupported
}

func list(ctx context.Context, d *client.Dir) error {
	n := 0
	for _, err := range d.List(ctx) {
		if err != nil {
			return err
		}
		n++
	}
	return load.CheckList(n)
}

// A summer is a writer that computes the sum of what it gets.
type summer uint32

func (s *summer) Write(b []byte) (int, error) {
	*s = summer(load.Add(uint32(*s), b))
	return len(b), nil
}

// edited is how many files are edited in turn, so that each has been at rest for a while, as what an agent edits has.
const edited = 64

// edit returns the operation [load.Edit].
func (c *capdClient) edit(ctx context.Context, size int) (func(worker int) func() error, error) {
	const line = "the line that is edited: %010d\n"
	pieces := load.Pieces(c.table, size)
	content := append([]byte(nil), pieces[0].Bytes...)
	for i := 63; i < size; i += 64 { // the table has no lines
		content[i] = '\n'
	}
	copy(content[size/2:], fmt.Sprintf(line, 0))
	name := func(worker, i int) string { return path.Join(load.PutDir, fmt.Sprint("capd-edited", worker, "-", i)) }
	return func(worker int) func() error {
		n := 0
		var failed error
		for i := range edited {
			if _, err := c.dir.Put(ctx, name(worker, i), bytes.NewReader(content), vfs.If{}); err != nil {
				failed = err
			}
		}
		return func() error {
			if failed != nil {
				return failed
			}
			f := c.dir.OpenFile(name(worker, n%edited))
			defer f.Close()
			was, becomes := fmt.Appendf(nil, line, n/edited), fmt.Appendf(nil, line, n/edited+1)
			n++
			made, err := f.Edit(ctx, editing.Request{Edits: []edit.Edit{{Old: was, New: becomes}}})
			if err == nil && made.Replaced != 1 {
				err = fmt.Errorf("%d places were edited", made.Replaced)
			}
			return err
		}
	}, nil
}
