package tests

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The users of these tests: root, who runs them, and two who are nobody's.
const (
	guestUser = 65534 // nobody, who has a name everywhere
	otherUser = 54321
)

// users is a directory that every user can reach, with the real program in it.
type users struct {
	*testing.T
	dir, capd string
}

func newUsers(t *testing.T) *users {
	if os.Geteuid() != 0 {
		t.Skip("only root can run programs as other users")
	}
	dir, err := os.MkdirTemp("/tmp", "capd-users-") // not where TMPDIR says: it may be root's alone
	ok(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	u := &users{t, dir, filepath.Join(dir, "capd")}
	ok(t, os.Chmod(dir, 0o755))
	for _, d := range []string{"served/shut", "tmp"} {
		ok(t, os.MkdirAll(u.at(d), 0o755))
	}
	ok(t, os.Chmod(u.at("tmp"), 0o777|os.ModeSticky))
	ok(t, os.WriteFile(u.at("served/f"), []byte("f\n"), 0o644))
	ok(t, os.Chown(u.at("served"), guestUser, guestUser))
	// By another process: a program that this one has open for writing is "text file
	// busy" as long as a child that is just being started has it too.
	out, err := exec.Command("install", "-m", "0755", capd(t), u.capd).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return u
}

func (u *users) at(path string) string { return filepath.Join(u.dir, path) }

func (u *users) command(uid uint32, args ...string) *exec.Cmd {
	cmd := exec.Command(u.capd, args...)
	cmd.Dir = u.at("tmp")
	cmd.Env = []string{"NO_COLOR=1", "HOME=/nonexistent", "TMPDIR=" + u.at("tmp"), endsAtOnce}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return cmd
}

// call runs capd as a user, and returns all that it said, with its exit code.
func (u *users) call(uid uint32, args ...string) (string, int) {
	u.Helper()
	cmd := u.command(uid, args...)
	out, err := cmd.CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		u.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// serve serves as a user, and returns the first locator, and what ends it.
func (u *users) serve(uid uint32, state string, args ...string) (loc string, out *syncBuffer, end func()) {
	u.Helper()
	cmd := u.command(uid, append([]string{"serve", "--state", state}, args...)...)
	out = &syncBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	ok(u, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	u.Cleanup(func() { cmd.Process.Kill() })
	if !waitFor(2*patience, func() bool { return strings.Contains(out.String(), "Ctrl-C") }) {
		u.Fatalf("capd serve printed %s", out.String())
	}
	if loc = locatorText.FindString(out.String()); loc == "" { // an earlier start has printed it
		loc, _ = u.call(uid, "grant", "again", "--state", state)
	}
	return strings.TrimSpace(loc), out, func() {
		u.Helper()
		ok(u, cmd.Process.Signal(syscall.SIGTERM))
		if err := <-ended; err != nil {
			u.Fatalf("capd serve ended with %v: %s", err, out.String())
		}
	}
}

// says runs capd as a user and compares its exit code, and what it says.
func (u *users) says(uid uint32, code int, want string, args ...string) {
	u.Helper()
	if out, got := u.call(uid, args...); got != code || !strings.Contains(out, want) {
		u.Errorf("as %d, capd %s ends with %d and says %q; want %d and %q", uid, strings.Join(args, " "), got, out, code, want)
	}
}

// mode compares the mode and the group of a file.
func (u *users) mode(path string, want os.FileMode, gid uint32) {
	u.Helper()
	fi, err := os.Lstat(path)
	ok(u, err)
	if got := fi.Mode().Perm(); got != want || fi.Sys().(*syscall.Stat_t).Gid != gid {
		u.Errorf("%s has the mode %v and the group %d, want %v and %d", filepath.Base(path), got, fi.Sys().(*syscall.Stat_t).Gid, want, gid)
	}
}

// By default a host lets in only its own user. Another user's error says whose the socket is,
// and what to do.
func TestUsersKeptOut(t *testing.T) {
	t.Parallel()
	u := newUsers(t)
	loc, _, end := u.serve(0, u.at("state"), u.at("served"))
	want := "capd: denied: the host's socket belongs to the user root and does not let the user nobody in: "
	u.says(guestUser, 1, want, "ls", "--cap", loc)
	u.says(guestUser, 1, "capd grant --via tls", "ls", "--cap", loc)
	u.says(guestUser, 1, "--socket-group", "ls", "--cap", loc)
	u.says(otherUser, 1, "does not let the user number 54321 in", "ls", "--cap", loc)
	u.says(0, 0, "project/", "ls", "--cap", loc)
	u.says(guestUser, 1, "capd: denied: the state directory "+u.at("state")+" is another user's", "grants", "--state", u.at("state"))
	end()
	u.says(guestUser, 1, "capd: stale: ", "ls", "--cap", strings.Replace(loc, "/state/", "/tmp/", 1))
}

// A host can let others in at the guests' socket, and nowhere else.
func TestUsersLetIn(t *testing.T) {
	t.Parallel()
	u := newUsers(t)
	state := u.at("state")
	shut := func() {
		u.Helper()
		u.mode(state, 0o700, 0)
		u.mode(filepath.Join(state, "control.sock"), 0o600, 0)
		if _, err := os.Lstat(filepath.Join(state, "guest.sock")); err == nil {
			u.Error("there is a guests' socket in the state directory too")
		}
		u.says(guestUser, 1, "capd: denied: ", "grants", "--state", state)
	}
	dirs := func() (all []string) {
		all, err := filepath.Glob(u.at("tmp/capd-*"))
		ok(t, err)
		return all
	}

	loc, _, end := u.serve(0, state, u.at("served"), "--socket-mode", "0666")
	u.says(guestUser, 0, "f\n", "cat", "project/f", "--cap", loc)
	u.says(otherUser, 0, "f\n", "cat", "project/f", "--cap", loc)
	u.mode(dirs()[0], 0o711, 0)
	shut()
	granted, _ := u.call(0, "grant", "x", "--state", state)
	u.says(guestUser, 0, "project/", "ls", "--cap", strings.TrimSpace(granted))
	end()
	if left := dirs(); len(left) > 0 {
		t.Errorf("it left %q", left)
	}

	// What was left behind by a host that was killed is no hindrance.
	ok(t, os.MkdirAll(u.at("own"), 0o755))
	loc, out, end := u.serve(0, state, u.at("served"), "--socket-group", "65534")
	u.says(guestUser, 0, "f\n", "cat", "project/f", "--cap", loc)
	u.says(otherUser, 1, "does not let the user number 54321 in", "ls", "--cap", loc)
	dir := dirs()[0]
	u.mode(dir, 0o710, guestUser)
	u.mode(filepath.Join(dir, "guest.sock"), 0o660, guestUser)
	shut()
	if strings.Contains(out.String(), "cannot reach") {
		t.Errorf("it says %s", out.String())
	}
	end()
	ok(t, os.Mkdir(dir, 0o700))
	ok(t, os.WriteFile(filepath.Join(dir, "guest.sock"), nil, 0o600))
	loc, _, end = u.serve(0, state, u.at("served"), "--socket-group", "65534")
	u.says(guestUser, 0, "f\n", "cat", "project/f", "--cap", loc)
	end()

	// A directory that was named stays, and as it was.
	loc, _, end = u.serve(0, state, u.at("served"), "--socket-mode", "0666", "--socket-dir", u.at("own"))
	u.says(otherUser, 0, "f\n", "cat", "project/f", "--cap", loc)
	u.says(0, 1, "capd: busy: a host has its guests' socket in "+u.at("own"), "serve", u.at("served"), "--state", u.at("state2"), "--socket-mode", "0666", "--socket-dir", u.at("own"))
	u.says(otherUser, 0, "f\n", "cat", "project/f", "--cap", loc)
	end()
	u.mode(u.at("own"), 0o755, 0)
	ok(t, os.Chmod(u.at("own"), 0o700))
	loc, out, end = u.serve(0, state, u.at("served"), "--socket-mode", "0666", "--socket-dir", u.at("own"))
	u.says(otherUser, 1, "does not let the user number 54321 in", "ls", "--cap", loc)
	if !strings.Contains(out.String(), "others cannot reach the guests' socket: "+u.at("own")) {
		t.Errorf("it says %s", out.String())
	}
	end()

	// By the file that says what is served.
	file := "mounts: [{path: project, url: 'physical:" + u.at("served") + "'}]\nguests: [{name: guest}]\nsocketGroup: '65534'\nstate: unused\n"
	ok(t, os.WriteFile(u.at("conf.yaml"), []byte(file), 0o644))
	loc, _, end = u.serve(0, state, "--config", u.at("conf.yaml"))
	u.says(guestUser, 0, "f\n", "cat", "project/f", "--cap", loc)
	u.says(otherUser, 1, "capd: denied: ", "cat", "project/f", "--cap", loc)
	end()
}

// A host takes no directory for its socket that others could change, and gives the
// socket to no group that its user is not in.
func TestUsersRefused(t *testing.T) {
	t.Parallel()
	u := newUsers(t)
	serve := func(uid uint32, code, want string, args ...string) {
		u.Helper()
		u.says(uid, 1, "capd: "+code+": ", append([]string{"serve", u.at("served"), "--state", u.at("tmp/s")}, args...)...)
		u.says(uid, 1, want, append([]string{"serve", u.at("served"), "--state", u.at("tmp/s")}, args...)...)
	}
	serve(guestUser, "denied", "the host's user must be in the group", "--socket-group", "0")
	serve(guestUser, "notFound", "there is no group no-such-group", "--socket-group", "no-such-group")
	serve(guestUser, "denied", "others may write to", "--socket-mode", "0666", "--socket-dir", u.at("tmp"))
	ok(t, os.MkdirAll(u.at("theirs"), 0o755))
	serve(guestUser, "denied", "it is not yours", "--socket-mode", "0666", "--socket-dir", u.at("theirs"))
	ok(t, os.Symlink(u.at("served"), u.at("link")))
	ok(t, os.Lchown(u.at("link"), guestUser, guestUser))
	theirs := u.at("served/guest.sock") // of another host
	ok(t, os.WriteFile(theirs, nil, 0o600))
	serve(guestUser, "denied", "or it is not a directory", "--socket-mode", "0666", "--socket-dir", u.at("link"))
	ok(t, os.Lchown(u.at("link"), otherUser, otherUser))
	of := sha256.Sum256([]byte(u.at("tmp/s")))
	ok(t, os.Rename(u.at("link"), u.at(fmt.Sprintf("tmp/capd-%d-%x", guestUser, of[:4]))))
	serve(guestUser, "denied", "or it is not a directory", "--socket-mode", "0666")
	if _, err := os.Lstat(theirs); err != nil {
		t.Errorf("a host that takes no directory removed what is in it: %v", err)
	}
	ok(t, os.Remove(u.at(fmt.Sprintf("tmp/capd-%d-%x", guestUser, of[:4]))))
	// Nor one whose place another user could give to a directory of theirs.
	for dir, change := range map[string]func(string) error{
		"another's": func(d string) error { return os.Chown(d, otherUser, otherUser) },
		"anybody's": func(d string) error { return os.Chmod(d, 0o777) },
	} {
		ok(t, os.MkdirAll(u.at(dir+"/in"), 0o755))
		ok(t, os.Chown(u.at(dir+"/in"), guestUser, guestUser))
		ok(t, change(u.at(dir)))
		serve(guestUser, "denied", "other users may change "+u.at(dir), "--socket-mode", "0666", "--socket-dir", u.at(dir+"/in"))
	}
	u.says(0, 2, "is not a socket's mode", "serve", "--socket-mode", "0777")
	if left, _ := filepath.Glob(u.at("tmp/capd-*")); len(left) > 0 {
		t.Errorf("it left %q", left)
	}
}

// A directory that the host itself may not list is said to be missed by a search.
func TestUsersUnlisted(t *testing.T) {
	t.Parallel()
	u := newUsers(t)
	ok(t, os.WriteFile(u.at("served/shut/f"), nil, 0o644))
	ok(t, os.Chmod(u.at("served/shut"), 0))
	loc, _, end := u.serve(guestUser, u.at("tmp/state"), u.at("served"))
	for _, args := range [][]string{{"tree"}, {"glob", "**"}, {"glob", "project/shut/*"}, {"glob", "project/shut/f"}, {"tree", "project", "--json"}} {
		cmd := u.command(guestUser, append(args, "--cap", loc)...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		if cmd.ProcessState.ExitCode() != 1 || !strings.HasPrefix(errs.String(), "capd: denied: project/shut") || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%q: %v, it says %q", args, err, errs.String())
		}
		if args[0] == "tree" && !strings.Contains(out.String(), "shut") {
			t.Errorf("%q prints %s", args, out.String())
		}
	}
	end()
}
