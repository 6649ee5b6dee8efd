package tests

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"capd/client"
	"capd/state"
	"capd/vfs"
)

// under returns what is below dir.
func under(t *testing.T, dir string) (all []string) {
	t.Helper()
	ok(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // it is being removed
			return nil
		case err == nil && path != dir:
			all = append(all, path[len(dir)+1:])
		}
		return err
	}))
	return all
}

// TestTempKilled kills hosts while a guest has temporary directories with files in them, and writes, moves and copies there. The next host
// has none of that, and all that was answered elsewhere.
func TestTempKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t) // on disk
	temps, away := state.Dir(p.state).Temps(), filepath.Join(state.Dir(p.state).Roots(), "+gone")
	host, said := startHost(p)
	loc := locatorText.FindString(said)
	seen := 0
	rounds := times(3, 40)
	for round := range rounds {
		c, err := client.Dial(t.Context(), loc)
		ok(t, err)
		d, ctx, none := c.Dir(t.Context()).SubDir("project"), t.Context(), vfs.If{}
		tmp := d.Temp()
		deep := ""
		for i := range 40 {
			deep = vfs.Join(deep, fmt.Sprint("dir", i))
			_, err := tmp.CreateDir(ctx, deep)
			ok(t, err)
		}
		ok(t, putTemp(t, tmp, deep+"/f", strings.Repeat("x", 1<<20)))
		ok(t, putTemp(t, tmp, "moved", fmt.Sprint("moved in round ", round)))
		ok(t, tmp.Move(ctx, "moved", d, fmt.Sprint("moved", round), none, none))
		ok(t, putTemp(t, d, fmt.Sprint("put", round), fmt.Sprint("put in round ", round)))
		ended := make(chan struct{}, 3)
		busy := func(do func(i int) error) {
			go func() {
				for i := 0; ; i++ {
					if err := do(i); err != nil {
						ended <- struct{}{}
						return
					}
				}
			}()
		}
		busy(func(i int) error { return putTemp(t, tmp, fmt.Sprint("new", i%7), strings.Repeat("y", i%5*100_000)) })
		other := d.Temp()
		busy(func(int) error {
			if _, err := tmp.Copy(ctx, "dir0", other, "dir", none, none); err != nil {
				return err
			}
			return other.Move(ctx, "dir", tmp, "dir0/dir1/again", none, vfs.If{})
		})
		busy(func(int) error {
			short := d.Temp()
			defer short.Close()
			return putTemp(t, short, "f", "z")
		})
		if len(under(t, temps)) < 40 {
			t.Error("vacuous: the temporary directories are not on disk")
		}
		time.Sleep(time.Duration(1+37*round%150) * time.Millisecond)
		ok(t, host.Process.Kill())
		_ = host.Wait()
		left := len(under(t, temps))
		seen += left
		for range 3 {
			<-ended
		}
		c.Close()
		host, _ = startHost(p)
		for _, path := range under(t, temps) {
			if !strings.HasPrefix(path, ".capd-") && path != "journal" { // where this host stages
				t.Fatalf("round %d: %s is there again", round, path)
			}
		}
		if !waitFor(patience, func() bool { return len(under(t, away)) == 0 }) {
			t.Fatalf("round %d: %d files and directories were not removed", round, len(under(t, away)))
		}
		for i := range round + 1 {
			for _, what := range []string{"put", "moved"} {
				text, err := os.ReadFile(filepath.Join(p.served, fmt.Sprint(what, i)))
				want := fmt.Sprint("put in round ", i)
				if what == "moved" {
					want = fmt.Sprint("moved in round ", i)
				}
				if err != nil || string(text) != want {
					t.Fatalf("round %d: there is %q, %v", round, text, err)
				}
			}
		}
	}
	fmt.Printf("%d hosts killed with temporary directories, %d files and directories in them: none left\n", rounds, seen)
	c, err := client.Dial(context.Background(), loc)
	ok(t, err)
	defer c.Close()
	ok(t, putTemp(t, c.Dir(t.Context()).Temp(), "f", "works"))
}
