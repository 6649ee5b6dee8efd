package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"capd/client"
	"capd/tests/slowfs"
	"capd/vfs"
)

// A failing state is a disk of a host's state that can begin to fail, and be mended.
type failingState struct {
	mount func(p *place)
	fail  func(p *place)
	mend  func(p *place)
	code  string // of what is refused meanwhile
}

var failingStates = map[string]func() failingState{
	"a full disk": func() failingState {
		return failingState{code: "busy",
			mount: func(p *place) {
				ok(p, os.MkdirAll(p.state, 0o700))
				if err := unix.Mount("none", p.state, "tmpfs", 0, "size=16m,mode=0700"); err != nil {
					p.Skip("this user can mount no tmpfs:", err)
				}
				p.Cleanup(func() { unix.Unmount(p.state, unix.MNT_DETACH) })
			},
			fail: func(p *place) {
				f, err := os.Create(filepath.Join(p.state, "filling"))
				ok(p, err)
				defer f.Close()
				for size := 1 << 20; size > 0; size /= 2 {
					for block := make([]byte, size); err == nil; {
						_, err = f.Write(block)
					}
					err = nil
				}
			},
			mend: func(p *place) { ok(p, os.Remove(filepath.Join(p.state, "filling"))) },
		}
	},
	"syncs that fail": func() failingState {
		var disk *slowfs.FS
		return failingState{code: "internal",
			mount: func(p *place) {
				disk = slowfs.MountAt(p, p.state, slowfs.KeepContents)
				ok(p, os.Chmod(p.state, 0o700))
			},
			fail: func(p *place) { disk.FailSyncs("state.db-wal") },
			mend: func(p *place) { disk.FailSyncs("") },
		}
	},
}

// TestFailingState: while the disk of a host's state is full or fails, changes and grants are refused, reads and revokes go on, and
// what was revoked is revoked after the host was killed.
func TestFailingState(t *testing.T) {
	for name, of := range failingStates {
		if name == "a full disk" && !thorough {
			continue // it takes some seconds; package authority does it without a program in a plain run
		}
		t.Run(name, func(t *testing.T) {
			p, disk := newPlaceInMemory(t), of()
			disk.mount(p)
			ok(t, os.WriteFile(filepath.Join(p.served, "f"), []byte("text"), 0o644))
			host, said := startHost(p)
			loc := locatorText.FindString(said)
			other := locatorText.FindString(p.says("grant", "other", "--state", p.state))
			idle := locatorText.FindString(p.says("grant", "idle", "--state", p.state))
			p.says("ls", "--cap", other)

			disk.fail(p)
			c, err := client.Dial(t.Context(), loc)
			ok(t, err)
			defer c.Close()
			for err == nil { // a full disk may have room for some more
				_, err = c.Dir(t.Context()).Put(t.Context(), "project/more", strings.NewReader("more"), vfs.If{})
			}
			refused := func(what string, want string, args ...string) {
				t.Helper()
				if code := p.tries(args...); code != want {
					t.Errorf("%s: %q, want %q", what, code, want)
				}
			}
			refused("a change", disk.code, "put", "project/new", "--cap", loc)
			refused("a grant", disk.code, "grant", "more", "--state", p.state)
			refused("a read", "", "cat", "project/f", "--cap", loc)
			refused("a revoke", "", "revoke", "other", "--state", p.state)
			refused("a revoke of what nobody has used", "", "revoke", "idle", "--state", p.state)
			refused("what was revoked", "revoked", "ls", "--cap", other)
			ok(t, host.Process.Kill())
			_ = host.Wait()

			if disk.code == "internal" {
				disk.mend(p)
			}
			host, _ = startHost(p) // also on a full disk
			for _, loc := range []string{other, idle} {
				refused("what was revoked before the host was killed", "revoked", "ls", "--cap", loc)
			}
			refused("a read afterwards", "", "cat", "project/f", "--cap", loc)
			if disk.code == "busy" {
				disk.mend(p)
			}
			refused("a change afterwards", "", "put", "project/late", "--cap", loc)
			refused("the record", "", "audit", "verify", "--state", p.state)
			ok(t, host.Process.Kill())
			_ = host.Wait()
		})
	}
}

// says runs capd, which succeeds, and returns what it prints.
func (p *place) says(args ...string) string {
	p.Helper()
	cmd := execCapd(p, args...)
	cmd.Stdin = nothing()
	out, err := cmd.Output()
	ok(p, err)
	return string(out)
}

// tries runs capd and returns the code of its error, or "".
func (p *place) tries(args ...string) string {
	p.Helper()
	cmd := execCapd(p, args...)
	cmd.Stdin = strings.NewReader("new text")
	out, err := cmd.CombinedOutput()
	if _, failed := err.(*exec.ExitError); !failed {
		ok(p, err)
		return ""
	}
	_, rest, _ := strings.Cut(string(out), "capd: ")
	code, _, _ := strings.Cut(rest, ":")
	return code
}
