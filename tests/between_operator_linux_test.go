package tests

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"capd/client"
	"capd/operator"
	"capd/record"
	"capd/vfs"
)

// operates: what an operator does to a mount is done or not, and the record says which.
func (w *world) operates(op string) act {
	switch op {
	case "commit":
		return w.commits()
	case "mount", "unmount":
		return w.mounts(op)
	case "hook", "unhook":
		return w.hooks(op)
	case "reload":
		return w.reloads()
	case "span":
		return w.spans()
	}
	below, draft := w.Getenv("SCRATCH")+"/"+w.name("below"), w.name("draft")
	w.Check(os.Mkdir(below, 0o700))
	w.Check(os.WriteFile(below+"/f", []byte("old"), 0o600))
	w.must("", "mount", draft, "overlay:keep:physical:"+below)
	_, err := w.run(w.first, "new", "put", draft+"/f")
	w.Check(err)
	args := []string{op, draft}
	if op == "undo" {
		w.must("", "apply", draft)
		args = []string{"apply", draft, "--undo", w.newest("apply")}
	}
	return act{func() bool {
		_, err := w.run("", "", args...)
		return err == nil
	}, func(answered bool) {
		text, err := os.ReadFile(below + "/f")
		w.Check(err)
		done := map[string]bool{"apply": string(text) == "new", "undo": string(text) == "old", "revert": w.must("", "diff", draft, "--stat") == ""}[op]
		w.told(op, draft, done, answered)
	}}
}

// told compares what an act has left with what was answered and with what the record says.
func (w *world) told(op, path string, done, answered bool) {
	switch {
	case answered && !done:
		w.lost++
		w.Logf("LOST: %s of %s", op, path)
	case done:
		w.changes[op+" "+path] = func() bool { return true }
	}
	want := record.NotDone
	if done {
		want = record.Done
	}
	if began, how := w.outcome(op, path); began && how != want || !began && done {
		w.unrecordedf("%s of %s is %q, and is recorded as %q", op, path, want, how)
	}
}

// newest returns the id of the newest change with an operation.
func (w *world) newest(op string) (id string) {
	w.entries(func(e record.Numbered) {
		if e.Kind == record.Intended && e.Op == op {
			id = fmt.Sprintf("c%d", e.Number)
		}
	})
	return id
}

// outcome returns how the record says that an act ended.
func (w *world) outcome(op, path string) (began bool, r record.Result) {
	var of int64
	w.entries(func(e record.Numbered) {
		switch {
		case e.Kind == record.Intended && e.Op == op && string(e.Path) == path:
			began, of, r = true, e.Number, ""
		case began && e.Of == of && (e.Kind == record.Ended || e.Kind == record.Settled):
			r = e.Result
		}
	})
	return began, r
}

// commits: the branch has the commit, or it has not.
func (w *world) commits() act {
	repo, mount := w.Getenv("SCRATCH")+"/"+w.name("repo"), w.name("repo")
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=Ada", "-c", "user.email=ada@example.org"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			w.Fatalf("git %q: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	w.Check(os.Mkdir(repo, 0o700))
	git("init", "-q", "-b", "main")
	git("commit", "-q", "--allow-empty", "-m", "first")
	git("branch", "work")
	w.must("", "mount", mount, "git:"+repo+"?writable&keep#work")
	_, err := w.run(w.first, "new", "put", mount+"/f")
	w.Check(err)
	return act{func() bool {
		_, err := w.run("", "", "commit", mount, "-m", "second", "--author", "Ada <ada@example.org>")
		return err == nil
	}, func(answered bool) {
		done := git("rev-list", "--count", "work") == "2"
		w.told("commit", mount, done, answered)
	}}
}

// mounts: a mount that was answered is there, and one that was unmounted is not.
func (w *world) mounts(op string) act {
	path := w.name("mount")
	args := []string{"mount", path, "physical:" + w.dir}
	if op == "unmount" {
		w.must("", args...)
		args = []string{"unmount", path}
	}
	return act{func() bool {
		_, err := w.run("", "", args...)
		return err == nil
	}, func(answered bool) {
		con, err := w.console()
		w.Check(err)
		defer con.Close()
		fs, err := con.VirtualFs(context.Background())
		w.Check(err)
		all, err := fs.Mounts(context.Background())
		w.Check(err)
		there := slices.ContainsFunc(all, func(m operator.Mount) bool { return m.Path == path })
		w.kept(op+" "+path, there, op == "mount", answered)
	}}
}

// hooks: so it is with hooks.
func (w *world) hooks(op string) act {
	name := w.name("hook")
	ctx := context.Background()
	do := func() error { return w.addHook(name) }
	if op == "unhook" {
		w.Check(do())
		do = func() error { _, err := w.run("", "", "hooks", "rm", name); return err }
	}
	return act{func() bool { return do() == nil }, func(answered bool) {
		con, err := w.console()
		w.Check(err)
		defer con.Close()
		all, err := con.Hooks(ctx)
		w.Check(err)
		there := slices.ContainsFunc(all, func(h operator.HookState) bool { return h.Name == name })
		w.kept(op+" "+name, there, op == "hook", answered)
		if there { // there may be 64
			w.must("", "hooks", "rm", name)
		}
	}}
}

func (w *world) addHook(name string) error {
	con, err := w.console()
	if err != nil {
		return err
	}
	defer con.Close()
	return con.AddHook(context.Background(), operator.Hook{Name: name, Before: true, Observe: true, Patterns: []string{"none"}}, passing{})
}

// passing is a hook that lets everything pass.
type passing struct{}

func (passing) Before(context.Context, operator.HookedChange) (operator.HookAnswer, string, error) {
	return operator.HookOK, "", nil
}
func (passing) After(context.Context, operator.HookedChange, operator.HookOutcome) error { return nil }

// kept compares whether something is there with whether it should be.
func (w *world) kept(what string, there, want, answered bool) {
	switch {
	case !answered || there == want:
	case want:
		w.lost++
		w.Logf("LOST: %s", what)
	default:
		w.undone++
		w.Logf("UNDONE: %s", what)
	}
}

// reloads: after a reload, or after the next start, there is what the file says.
func (w *world) reloads() act {
	before, name := w.reloaded, w.name("reloaded")
	w.reloaded = name
	w.configure()
	logged := len(w.host.log.String())
	return act{func() bool {
		w.Check(w.host.hangup())
		waitFor(40*patience, func() bool {
			return w.host.killed() || strings.Contains(w.host.log.String()[logged:], "capd: reload")
		})
		return strings.Contains(w.host.log.String()[logged:], "capd: reloaded")
	}, func(bool) { // the next start reads the file, too
		text, err := os.ReadFile(filepath.Join(w.Getenv("SCRATCH"), name))
		w.Check(err)
		w.works[name] = strings.TrimSpace(string(text))
		if was, ok := w.works[before]; ok {
			delete(w.works, before)
			w.gone[before] = was
		}
	}}
}

// configure writes the configuration of the next host, or reload.
func (w *world) configure() {
	text := fmt.Sprintf("mounts:\n  - {path: project, url: %q}\nguests:\n  - {name: guest}\n", "physical:"+w.dir)
	if w.reloaded != "" {
		text += fmt.Sprintf("  - {name: %s, path: project/sub, locatorFile: %s}\n", w.reloaded, filepath.Join(w.Getenv("SCRATCH"), w.reloaded))
	}
	w.Check(os.WriteFile(w.config, []byte(text), 0o600))
}

// spans: what was written in place, of which the end is recorded when the file is closed.
func (w *world) spans() act {
	path := "sub/" + w.name("span")
	at := filepath.Join(w.dir, path)
	w.Check(os.WriteFile(at, []byte("0123456789"), 0o600))
	return act{func() bool { return w.inPlace("project/"+path) == nil }, func(answered bool) {
		there := w.has(path, "0aa34bb789")
		w.kept("write "+path, there, true, answered)
		if began, how := w.outcome("write", "project/"+path); answered && (!began || how == record.NotDone) {
			w.unrecordedf("the writes of %s are recorded as %q", path, how)
		}
	}}
}

// inPlace writes twice in the file at path, and closes it.
func (w *world) inPlace(path string) error {
	ctx := context.Background()
	c, err := client.Dial(ctx, w.first)
	if err != nil {
		return err
	}
	defer c.Close()
	f := c.Dir(ctx).OpenFile(path)
	for off, text := range map[int64]string{1: "aa", 5: "bb"} {
		if _, err := f.WriteAt(ctx, []byte(text), off, vfs.If{}); err != nil {
			return err
		}
	}
	return f.Close()
}
