package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"capd/vfs"
)

// grants: a grant that was answered works.
func (w *world) grants(string) act {
	name := w.name("grant")
	var loc string
	return act{func() bool {
		var err error
		loc, err = w.run("", "", "grant", name, "--path", "project/sub")
		return err == nil
	}, func(answered bool) {
		if answered {
			w.works[name] = loc
		}
	}}
}

// shares: so does a share.
func (w *world) shares(string) act {
	name := w.name("share")
	var loc string
	return act{func() bool {
		var err error
		loc, err = w.run(w.first, "", "attenuate", "--path", "project/sub")
		return err == nil
	}, func(answered bool) {
		if answered {
			w.works[name] = loc
		}
	}}
}

// uses: a use that was answered is counted, and one that was not is counted once or not at all.
func (w *world) uses(string) act {
	const uses = 3
	if w.usesLeft == 0 {
		name := w.name("uses")
		w.use, w.usesLeft = w.must("", "grant", name, "--path", "project", "--uses", fmt.Sprint(uses)), uses
		w.useOf = name
	}
	return act{func() bool {
		_, err := w.run(w.use, "", "ls")
		return err == nil
	}, func(answered bool) {
		left := w.left()
		switch want := w.usesLeft - 1; {
		case left == want, !answered && left == w.usesLeft:
		case left > want:
			w.undone++
			w.Logf("UNDONE: %d uses are left of %d after one", left, w.usesLeft)
		default:
			w.lost++
			w.Logf("LOST: %d uses are left of %d after one", left, w.usesLeft)
		}
		if w.usesLeft = left; left == 0 && answers(w, w.use) != vfs.Expired {
			w.undone++
			w.Logf("UNDONE: %s works once more than it may", w.useOf)
		}
	}}
}

// left returns how many uses are left of the grant with uses.
func (w *world) left() int {
	var all []struct {
		Guest    string
		UsesLeft int
	}
	w.Check(json.Unmarshal([]byte(w.must("", "grants", "--json")), &all))
	for _, g := range all {
		if g.Guest == w.useOf {
			return max(g.UsesLeft, 0)
		}
	}
	w.lost++
	w.Logf("LOST: %s", w.useOf)
	return 0
}

// revokes: a grant that was revoked stays so, with what was shared from it. If the answer did not come, both work or
// neither.
func (w *world) revokes(string) act {
	name := w.name("revoked")
	loc := w.must("", "grant", name, "--path", "project")
	share := w.must(loc, "attenuate", "--path", "sub")
	return act{func() bool {
		_, err := w.run("", "", "revoke", name)
		return err == nil
	}, func(answered bool) {
		if answered || answers(w, loc) == vfs.Revoked {
			w.gone[name], w.gone[name+"/1"] = loc, share
		} else {
			w.works[name], w.works[name+"/1"] = loc, share
		}
	}}
}

// locks: a guest that was locked changes nothing until it is unlocked, and one that was unlocked can.
func (w *world) locks(way string) act {
	name := w.name("locked")
	loc := w.must("", "grant", name, "--path", "project")
	if way == "unlock" {
		w.must("", "set-writable", name, "false")
	}
	return act{func() bool {
		_, err := w.run("", "", "set-writable", name, fmt.Sprint(way == "unlock"))
		return err == nil
	}, func(answered bool) {
		if code := tryPut(w, loc, name, ""); answered && code != map[string]vfs.Code{"lock": vfs.ReadOnly, "unlock": ""}[way] {
			w.undone++
			w.Logf("UNDONE: %s of %s, and a put answers %q", way, name, code)
		} else if code == vfs.ReadOnly {
			w.locked[name] = loc
		} else {
			w.works[name] = loc
		}
	}}
}

// request is a change that waits for an approval.
type request struct{ path, content, id string }

// ask makes a change that waits for an approval, and reports whether the operator has seen it. Somebody listens until then.
func (w *world) ask() (q request, seen bool) {
	q = request{path: ".git/" + w.name("asked"), content: w.name("content")}
	con, err := w.console()
	w.Check(err)
	defer con.Close()
	ctx, stop := context.WithCancel(context.Background())
	listening := make(chan error, 1)
	go func() { // after all that there is now
		_, _, _, err := con.Events(ctx, 1<<62, time.Minute)
		listening <- err
	}()
	defer func() { stop(); <-listening }()
	guest := make(chan error, 1)
	for !w.host.killed() { // until the host has heard that somebody listens
		cmd := w.command(w.first, "put", "project/"+q.path)
		cmd.Stdin = strings.NewReader(q.content)
		w.Check(cmd.Start())
		go func() { guest <- cmd.Wait() }()
		id := ""
		for id == "" && len(guest) == 0 {
			id = w.pending(q.path)
		}
		_ = cmd.Process.Kill()
		<-guest
		if q.id = id; id != "" {
			return q, true
		}
	}
	return q, false
}

// pending returns the id of the request that waits for a path, or "" if there is none or the host was killed.
func (w *world) pending(path string) string {
	con, err := w.console()
	if err != nil {
		return ""
	}
	defer con.Close()
	all, _ := con.Asks(context.Background(), false)
	for _, a := range all {
		if a.Path == "project/"+path {
			return a.ID
		}
	}
	return ""
}

// asks: a request that the operator has seen is there until somebody decides.
func (w *world) asks(string) act {
	var q request
	return act{func() (seen bool) {
		q, seen = w.ask()
		return seen
	}, func(seen bool) {
		id := w.pending(q.path)
		if seen && id != q.id {
			w.lost++
			w.Logf("LOST: request %s", q.id)
		}
		if id != "" { // so that not too many wait
			w.must("", "ask", id, "deny")
			w.decided[id] = "deny"
		}
	}}
}

// decides: a decision that was answered holds for the change that was asked about, and for no other.
func (w *world) decides(answer string) act {
	q, seen := w.ask()
	if !seen {
		w.Fatalf("nobody was asked about %s", q.path)
	}
	return act{func() bool {
		_, err := w.run("", "", "ask", q.id, answer)
		return err == nil
	}, func(answered bool) {
		if !answered && w.pending(q.path) != "" {
			w.must("", "ask", q.id, answer) // as if nobody had tried
		}
		w.decided[q.id] = answer
		want := map[string][2]vfs.Code{"once": {"", vfs.AskDenied}, "deny": {vfs.Denied, vfs.AskDenied}, "always": {"", ""}}[answer]
		for i, content := range []string{q.content, "other"} {
			code := tryPut(w, w.first, "project/"+q.path, content)
			switch {
			case code == want[i]:
			case want[i] == "":
				w.lost++
				w.Logf("LOST: %s was answered, and the put answers %s", answer, code)
			default:
				w.undone++
				w.Logf("UNDONE: %s was answered, and put %d answers %q", answer, i, code)
			}
		}
	}}
}

// makes: a change that was answered is there, and any other is there as a whole or not at all.
func (w *world) makes(way string) act {
	path, content := "sub/"+w.name("changed"), w.name("content")
	w.Check(os.WriteFile(filepath.Join(w.dir, path+".old"), []byte("old"), 0o644))
	at, from := "project/"+path, "project/"+path+".old"
	var args []string
	var there func() bool
	op := "replace"
	switch way {
	case "put":
		args, there = []string{"put", at}, func() bool { return w.has(path, content) }
	case "overwrite":
		args, there = []string{"put", from}, func() bool { return w.has(path+".old", content) }
	case "append":
		op = "append"
		args, there = []string{"append", from}, func() bool { return w.has(path+".old", "old"+content) }
	case "mkdir":
		op = "mkdir"
		args, there = []string{"mkdir", at}, func() bool { return w.exists(path) }
	case "mv":
		op = "rename"
		args, there = []string{"mv", from, at}, func() bool { return w.has(path, "old") && !w.exists(path+".old") }
	case "rm":
		op = "remove"
		args, there = []string{"rm", from}, func() bool { return !w.exists(path + ".old") }
	}
	as := w.picture(path)
	return act{func() bool {
		_, err := w.run(w.first, content, args...)
		return err == nil
	}, func(answered bool) {
		if answered || there() {
			w.changes[op+" "+args[1]] = there
		} else if w.picture(path) != as {
			w.undone++
			w.Logf("UNDONE: %q is there in part", args)
		}
	}}
}

// picture tells what is at a path and beside it.
func (w *world) picture(path string) string {
	was, _ := os.ReadFile(filepath.Join(w.dir, path+".old"))
	now, err := os.ReadFile(filepath.Join(w.dir, path))
	return fmt.Sprintf("%q %q %v", was, now, err == nil)
}

// starts: a host that is killed while it starts, after another that was killed in a change, has changed nothing.
func (w *world) starts(way string) act {
	a := w.makes(way)
	w.Check(w.host.arm(1 + rand.IntN(20)))
	done := a.do()
	w.host.end()
	w.kills++
	return act{after: func(bool) { a.after(done) }}
}
