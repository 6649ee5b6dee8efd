package server_test

import (
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"capd/database"
	"capd/record"
	"capd/server"
	"capd/state"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

func sum(text string) string { return vfs.Version(sha256.Sum256([]byte(text))).String() }

// interrupted is an act of an operator in which a host is killed.
type interrupted struct {
	op, url        string // the URL of the mount: "" is an overlay that keeps its changes; "physical:" stands for the case's directory
	there          string // what is in its file f then; "d/": there is a directory d instead
	changes        []record.Change
	branch, commit string
	want           record.Result
}

// TestSettledActs starts a host after another was killed while its operator did something. What is there then says whether it was
// done.
func TestSettledActs(t *testing.T) {
	t.Parallel()
	project, _, clean := scene()
	defer clean()
	tip, err := exec.Command("git", "-C", project, "rev-parse", "main").Output()
	check.OK(t, err)
	cases := interruptions("git:"+project+"?writable#main", strings.TrimSpace(string(tip)))
	base := t.TempDir()
	for name := range cases {
		check.OK(t, os.Mkdir(filepath.Join(base, name), 0o700))
	}
	s := startInterrupted(t, base, cases)
	d, _, err := s.FS().Root(t.Context())
	check.OK(t, err)
	for _, name := range []string{"not reverted/waits", "reverted in part/waits"} {
		check.OK(t, check.Put(t.Context(), d, name, "text"))
	}
	d.Close()
	check.OK(t, s.Close())
	interrupt(t, base, cases)
	check.OK(t, startInterrupted(t, base, cases).Close())
	for name, got := range settledActs(t, base) {
		if want := cases[name].want; got != want {
			t.Errorf("%s: settled %q, want %q", name, got, want)
		}
		delete(cases, name)
	}
	for name := range cases {
		t.Errorf("%s is not settled", name)
	}
}

// interruptions returns the cases, which are mounted by their names. commit is the newest of the branch main.
func interruptions(repo, commit string) map[string]interrupted {
	is := func(c ...record.Change) []record.Change { return c }
	f := record.Change{Path: "f", Was: sum("old"), Version: sum("new")}
	dir := record.Change{Path: "d", Kind: "directory"}
	gone := record.Change{Path: "f", Was: sum("old")}
	link := record.Change{Path: "l", WasKind: "symlink", Kind: "symlink"}
	waits := record.Change{Path: "waits", Version: sum("text")}
	const main = "refs/heads/main"
	return map[string]interrupted{
		"applied":            {op: "apply", there: "new", changes: is(f), want: record.Done},
		"not applied":        {op: "apply", there: "old", changes: is(dir, f), want: record.NotDone},
		"another since":      {op: "apply", there: "other", changes: is(f), want: record.Unknown},
		"made":               {op: "apply", there: "d/", changes: is(dir), want: record.Done},
		"not made":           {op: "apply", there: "old", changes: is(dir), want: record.NotDone},
		"removed":            {op: "apply", changes: is(gone), want: record.Done},
		"not removed":        {op: "apply", there: "old", changes: is(gone), want: record.NotDone},
		"a link":             {op: "apply", there: "old", changes: is(link), want: record.Unknown},
		"a file tells more":  {op: "apply", there: "new", changes: is(f, dir), want: record.Done},
		"undone":             {op: "undo", there: "old", changes: is(f), want: record.Done},
		"not undone":         {op: "undo", there: "new", changes: is(f), want: record.NotDone},
		"undone, or another": {op: "undo", there: "other", changes: is(f), want: record.Unknown},
		"synced":             {op: "sync", url: "physical:", there: "new", changes: is(f), want: record.Done},
		"not synced":         {op: "sync", url: "physical:", there: "old", changes: is(f), want: record.NotDone},
		"synced to memory":   {op: "sync", url: "memory:", changes: is(f), want: record.Unknown},
		"reverted":           {op: "revert", there: "old", changes: is(f), want: record.Done},
		"not reverted":       {op: "revert", there: "old", changes: is(waits), want: record.NotDone},
		"reverted in part":   {op: "revert", there: "old", changes: is(waits, f), want: record.Unknown},
		"reverted in memory": {op: "revert", url: "overlay:physical:", there: "old", changes: is(f), want: record.Unknown},
		"committed":          {op: "commit", url: repo, branch: main, commit: commit, want: record.Done},
		"not committed":      {op: "commit", url: repo, branch: main, commit: strings.Repeat("a", 40), want: record.NotDone},
		"no branch":          {op: "commit", url: repo, branch: "refs/heads/next", commit: commit, want: record.NotDone},
		"of an older capd":   {op: "commit", url: repo, want: record.Unknown},
	}
}

// startInterrupted starts a host with the mounts of the cases, whose directories are in base.
func startInterrupted(t *testing.T, base string, cases map[string]interrupted) *server.Server {
	t.Helper()
	s := &server.Server{State: filepath.Join(base, "state"), Logf: t.Logf}
	for name, c := range cases {
		url, dir := c.url, server.PhysicalURL(filepath.Join(base, name))
		if url == "" {
			url = "overlay:keep:physical:"
		}
		if below, ok := strings.CutSuffix(url, "physical:"); ok {
			url = below + dir
		}
		s.Mounts = append(s.Mounts, server.Mount{Path: name, URL: url})
	}
	check.OK(t, s.Start(t.Context()))
	return s
}

// interrupt leaves what a host leaves that is killed in each of the cases.
func interrupt(t *testing.T, base string, cases map[string]interrupted) {
	t.Helper()
	db, err := database.Open(state.Dir(filepath.Join(base, "state")), database.Options{})
	check.OK(t, err)
	log, err := record.Open(db, record.Options{})
	check.OK(t, err)
	for name, c := range cases {
		e := record.Entry{Op: c.op, Path: record.Path(name), Changes: c.changes, Paths: len(c.changes), Branch: c.branch, Commit: c.commit}
		check.OK(t, log.Intend(e).Wait())
		switch dir := filepath.Join(base, name); c.there {
		case "":
		case "d/":
			check.OK(t, os.Mkdir(filepath.Join(dir, "d"), 0o700))
		default:
			check.OK(t, os.WriteFile(filepath.Join(dir, "f"), []byte(c.there), 0o600))
		}
	}
	check.OK(t, log.Close())
	check.OK(t, db.Close())
}

// settledActs returns how acts were settled, by the paths of their mounts.
func settledActs(t *testing.T, base string) map[string]record.Result {
	t.Helper()
	view, err := database.OpenView(t.Context(), state.Dir(filepath.Join(base, "state")))
	check.OK(t, err)
	defer view.Close()
	began, all := map[int64]string{}, map[string]record.Result{}
	for e, err := range record.Entries(t.Context(), view, record.Query{Kinds: []record.Kind{record.Intended, record.Settled}}) {
		check.OK(t, err)
		if e.Kind == record.Settled {
			all[began[e.Of]] = e.Result
		} else {
			began[e.Number] = string(e.Path)
		}
	}
	return all
}
