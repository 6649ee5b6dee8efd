package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"capd/client"
	"capd/state"
	"capd/vfs"
	edits "capd/vfs/edit"
	"capd/vfs/step"
)

// generation is a patch that makes files which have the text n, of n-1; of nothing for 0.
func generation(n, files int) []byte {
	var b strings.Builder
	b.WriteString("*** Begin Patch\n")
	for i := range files {
		if path := fmt.Sprintf("project/%d/f", i); n == 0 {
			fmt.Fprintf(&b, "*** Add File: %s\n+0\n", path)
		} else {
			fmt.Fprintf(&b, "*** Update File: %s\n-%d\n+%d\n", path, n-1, n)
		}
	}
	return []byte(b.String() + "*** End Patch\n")
}

// generationSteps returns steps that make the same of n-1 as generation does.
func generationSteps(n, files int) (steps []step.Step) {
	for i := range files {
		path := fmt.Sprintf("project/%d/f", i)
		steps = append(steps, step.Step{Verb: step.Edit, Path: path, Edits: []edits.Edit{{Old: fmt.Appendln(nil, n-1), New: fmt.Appendln(nil, n)}}})
	}
	return steps
}

// TestPatchKilled kills hosts while a guest changes many files, by patches and by steps in turn. After the next start all files have what one patch has left, and
// none that was answered is lost.
func TestPatchKilled(t *testing.T) {
	t.Parallel()
	p := newPlaceInMemory(t)
	const files = 60
	rounds, next, taken, made := times(2, 40), 0, 0, 0
	host, said := startHost(p)
	loc := locatorText.FindString(said)
	for round := range rounds {
		c, err := client.Dial(t.Context(), loc)
		ok(t, err)
		begun := make(chan struct{})
		ended := make(chan int, 1)
		go func() {
			n := next
			for ; ; n++ {
				if n == next+1 {
					close(begun)
				}
				var err error
				if n%2 == 0 {
					_, err = c.Dir(t.Context()).Patch(t.Context(), generation(n, files), client.PatchOptions{})
				} else {
					err = c.Dir(t.Context()).Change(t.Context(), generationSteps(n, files), false)
				}
				if err != nil {
					if n <= next {
						t.Errorf("patch %d: %v", n, err)
					}
					ended <- n
					return
				}
			}
		}()
		select {
		case <-begun:
		case n := <-ended:
			t.Fatalf("round %d: patch %d failed before the host was killed", round, n)
		}
		time.Sleep(time.Duration(5+23*round%90) * time.Millisecond) // whatever is under way then is what is tested
		ok(t, host.Process.Kill())
		_ = host.Wait()
		next = <-ended
		c.Close()
		host, _ = startHost(p) // takes back what was begun
		first := ""
		for i := range files {
			text, err := os.ReadFile(filepath.Join(p.served, fmt.Sprint(i), "f"))
			if ok(t, err); i == 0 {
				first = string(text)
			} else if string(text) != first {
				t.Fatalf("round %d: file %d has %q, the first %q", round, i, text, first)
			}
		}
		switch first {
		case fmt.Sprintln(next):
			made++
			next++
		case fmt.Sprintln(next - 1):
			taken++
		default:
			t.Fatalf("round %d: the files have %q, and %d patches were answered", round, first, next)
		}
	}
	c, err := client.Dial(t.Context(), loc)
	ok(t, err)
	defer c.Close()
	for _, is := range []int{next - 2, next - 1} { // undone, and that undone
		page, err := c.Dir(t.Context()).History(t.Context(), vfs.PastQuery{Limit: 1})
		ok(t, err)
		_, err = c.Dir(t.Context()).Undo(t.Context(), vfs.Undo{ID: page.Entries[0].ID})
		ok(t, err)
		for i := range files {
			text, err := os.ReadFile(filepath.Join(p.served, fmt.Sprint(i), "f"))
			if ok(t, err); string(text) != fmt.Sprintln(is) {
				t.Fatalf("undone, file %d has %q, want %d", i, text, is)
			}
		}
	}
	ok(t, host.Process.Kill())
	_ = host.Wait()
	_, settled := recordedPuts(t, state.Dir(p.state))
	t.Logf("patch: killed %d times in %d patches of %d files, %d taken back, %d made, %d settled: 0 in part, 0 lost", rounds, next, files, taken, made, settled)
}
