package records

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"capd/client"
	"capd/vfs"
)

const (
	// watchedDirs is how many directories a guest asks about.
	watchedDirs = 10_000
	// toldPuts is how many puts are told in a turn.
	toldPuts = 100
)

// changes measures what it takes to tell a guest what changes below many directories, in a capd of its own.
func changes(o *Options, dir string) *world {
	w := &watched{dir: dir, n: max(100, int(watchedDirs*o.Scale))}
	return &world{
		rows: []*contest{
			{Row{Name: "changes: from a put to its event, p99", Unit: "ms", Target: 60}, nil, w.told},
			{Row{Name: fmt.Sprintf("changes: memory of %d watched directories", w.n), Unit: "MB", Target: 20}, nil, w.memory},
		},
		setup: func(context.Context) (err error) {
			if w.capd, err = o.Capd(); err != nil {
				return err
			}
			for i := range w.n {
				if err := os.MkdirAll(filepath.Join(dir, "tree", fmt.Sprint(i/100), fmt.Sprint(i)), 0o700); err != nil {
					return err
				}
			}
			return nil
		},
		close: func() error { return nil },
	}
}

type watched struct {
	dir, capd string
	n         int
}

// ask starts a host, and calls do with it, with a guest's directory, and with what it answers first about changes.
func (w *watched) ask(ctx context.Context, before func(pid int) error, do func(pid int, d *client.Dir, first vfs.ChangesPage) error) error {
	cmd := exec.CommandContext(ctx, w.capd, "serve", filepath.Join(w.dir, "tree"), "--state", filepath.Join(w.dir, "state"), "--json")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		_ = os.RemoveAll(filepath.Join(w.dir, "state"))
	}()
	var said struct {
		Grants []struct {
			Locator string `json:"locator"`
		} `json:"grants"`
	}
	if err := json.NewDecoder(bufio.NewReader(out)).Decode(&said); err != nil {
		return err
	}
	if len(said.Grants) == 0 {
		return fmt.Errorf("%s serve has granted nothing", w.capd)
	}
	c, err := client.Dial(ctx, said.Grants[0].Locator)
	if err != nil {
		return err
	}
	defer c.Close()
	d := c.Dir(ctx).SubDir("project")
	if _, err := d.Stat(ctx); err != nil {
		return err
	}
	if err := before(cmd.Process.Pid); err != nil {
		return err
	}
	first, err := d.Changes(ctx, vfs.ChangesQuery{})
	if err == nil && !first.Complete {
		err = fmt.Errorf("not all of %d directories can be watched", w.n)
	}
	if err != nil {
		return err
	}
	return do(cmd.Process.Pid, d, first)
}

// told returns after how many milliseconds a guest that waits is told of a put, at p99, from the moment that the put is sent.
func (w *watched) told(ctx context.Context) (ms float64, err error) {
	err = w.ask(ctx, func(int) error { return nil }, func(_ int, d *client.Dir, page vfs.ChangesPage) error {
		var took []time.Duration
		for i := range toldPuts {
			var at time.Time
			done := make(chan error, 1)
			go func() {
				next, err := d.Changes(ctx, vfs.ChangesQuery{Cursor: page.Cursor, Wait: vfs.MaxChangesWait})
				at, page = time.Now(), next
				done <- err
			}()
			time.Sleep(5 * time.Millisecond) // it waits
			begun := time.Now()
			if _, err := d.Put(ctx, fmt.Sprintf("0/%d.txt", i), strings.NewReader("x"), vfs.If{}); err != nil {
				return err
			}
			if err := <-done; err != nil {
				return err
			}
			took = append(took, at.Sub(begun))
		}
		slices.Sort(took)
		ms = float64(took[len(took)*99/100].Microseconds()) / 1e3
		return nil
	})
	return ms, err
}

// memory returns by how many MB the host has grown when it watches.
func (w *watched) memory(ctx context.Context) (mb float64, err error) {
	var before float64
	err = w.ask(ctx, func(pid int) (err error) {
		before, err = resident(pid, "VmRSS")
		return err
	}, func(pid int, _ *client.Dir, _ vfs.ChangesPage) error {
		after, err := resident(pid, "VmRSS")
		mb = after - before
		return err
	})
	return mb, err
}
