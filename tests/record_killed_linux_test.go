package tests

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"capd/client"
	"capd/database"
	"capd/record"
	"capd/state"
	"capd/vfs"
)

// startHost starts capd serve on p, and returns what it has printed when it serves. The test ends it.
func startHost(p *place) (host *exec.Cmd, said string) {
	p.Helper()
	host = execCapd(p, "serve", p.served, "--state", p.state)
	var out syncBuffer
	host.Stdout, host.Stderr = &out, &out
	ok(p, host.Start())
	p.Cleanup(func() { host.Process.Kill(); host.Wait() })
	if !waitFor(2*patience, func() bool { return strings.Contains(out.String(), "Ctrl-C") }) {
		p.Fatalf("capd serve printed %s", out.String())
	}
	return host, out.String()
}

// TestRecordKilled kills hosts while guests put files. Whatever was answered is there and recorded as done, whatever is
// there was intended, and nothing shows in the record that was not done to it.
func TestRecordKilled(t *testing.T) {
	t.Parallel()
	p := newPlaceInMemory(t)
	rounds, writers := times(3, 40), 4
	var mu sync.Mutex
	answered, begun := map[string]string{}, map[string]bool{} // versions by path; paths
	loc := ""
	for round := range rounds {
		host, said := startHost(p)
		if found := locatorText.FindString(said); found != "" {
			loc = found
		}
		var all sync.WaitGroup
		for w := range writers {
			c, err := client.Dial(t.Context(), loc)
			ok(t, err)
			defer c.Close()
			all.Go(func() {
				for i := 0; ; i++ {
					path := fmt.Sprintf("project/%d-%d-%d", round, w, i)
					mu.Lock()
					begun[path] = true
					mu.Unlock()
					v, err := c.Dir(t.Context()).Put(t.Context(), path, strings.NewReader(path), vfs.If{})
					if err != nil {
						return
					}
					mu.Lock()
					answered[path] = v.String()
					mu.Unlock()
				}
			})
		}
		time.Sleep(time.Duration(20+37*round%80) * time.Millisecond) // whatever is under way then is what is tested
		ok(t, host.Process.Kill())
		_ = host.Wait()
		all.Wait()
	}
	host, _ := startHost(p) // settles
	ok(t, host.Process.Kill())
	_ = host.Wait()

	done, settled := recordedPuts(t, state.Dir(p.state))
	for path, v := range answered {
		if done[path] != v {
			t.Errorf("%s was answered, and is recorded as %q", path, done[path])
		}
	}
	there, err := os.ReadDir(p.served)
	ok(t, err)
	for _, e := range there {
		path := "project/" + e.Name()
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(p.served, e.Name()))
		if ok(t, err); string(text) != path || !begun[path] || done[path] != vfs.Version(sha256.Sum256(text)).String() {
			t.Errorf("%s is there with %q, and is recorded as %q", path, text, done[path])
		}
	}
	if len(answered) == 0 || len(there) < len(answered) {
		t.Errorf("%d puts were answered, and there are %d files", len(answered), len(there))
	}
	t.Logf("record: killed %d times, %d puts answered, %d settled afterwards: 0 lost, 0 unrecorded", rounds, len(answered), settled)
}

// recordedPuts verifies the record, and returns the versions of the files whose puts are recorded as done, and how many
// changes a start has settled.
func recordedPuts(t *testing.T, d state.Dir) (done map[string]string, settled int) {
	t.Helper()
	view, err := database.OpenView(t.Context(), d)
	ok(t, err)
	defer view.Close()
	key, err := d.ReadRecordKey()
	ok(t, err)
	line, err := record.Verifier(key.Public().(ed25519.PublicKey))
	ok(t, err)
	r, err := record.Verify(t.Context(), view, record.VerifyOptions{Key: line})
	if ok(t, err); len(r.Problems) > 0 {
		t.Errorf("the record: %q", r.Problems)
	}
	done, open := map[string]string{}, map[int64]record.Numbered{}
	for e, err := range record.Entries(t.Context(), view, record.Query{}) {
		ok(t, err)
		if e.Kind == record.Settled {
			settled++
		}
		switch of := open[e.Of]; {
		case e.Kind == record.Intended:
			open[e.Number] = e
		case e.Of > 0:
			delete(open, e.Of)
			if e.Result == record.Done {
				done[string(of.Path)] = of.Version
			}
		}
	}
	if len(open) > 0 {
		t.Errorf("%d changes have no end", len(open))
	}
	return done, settled
}
