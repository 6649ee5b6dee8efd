package tests

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// syncBack is a case of sync back: a program that is run on a tree, and what it leaves in the
// served directory.
type syncBack struct {
	n      int
	name   string
	args   []string // of capd run
	guest  bool     // with a locator of a running host, instead of in the directory
	script string
	// meanwhile, if not nil, is called when the script has said "ready" and waits for a line. tree
	// is its working directory on the host.
	meanwhile func(c *backed, tree string)
	code      int    // of capd run
	says      string // on standard error; " | " separates the parts
	served    picture
	after     func(c *backed)
}

// backed is a running case.
type backed struct {
	*estate
	said
	outside string
}

// original is the tree of every case.
var original = picture{
	"a": "file:old", "d": "dir", "d/f": "file:in d", "d/e": "dir", "d/e/g": "file:deep", "run": "exec:#!/bin/sh\n", "x": "file:x",
}

const ready = "echo ready; read line; "

// syncBacks are cases 50 to 58: hostile programs. TestWorldsRuns has the usual ones. OUTSIDE is a
// directory beside the served one.
var syncBacks = []syncBack{
	{
		n: 50, name: "a link out of the tree",
		script: "ln -s OUTSIDE/f n; rm a d/f; ln -s OUTSIDE/f a; ln -s ../../outside/f d/f; printf new > x",
		code:   1, says: "stays behind: a: | stays behind: d/f: | stays behind: n: | synced 1 change back | 3 paths stayed behind",
		served: original.with(picture{"x": "file:new"}),
	},
	{
		n: 50, name: "a link out of the tree, of a guest", guest: true,
		script: "ln -s OUTSIDE/f n; rm a; ln -s OUTSIDE/f a; printf new > x",
		code:   1, says: "stays behind: a: | stays behind: n: | synced 1 change back",
		served: original.with(picture{"x": "file:new"}),
	},
	{
		n: 51, name: "a directory becomes a link",
		script: "rm -r d; ln -s OUTSIDE d; printf x > d/f; printf new > a",
		code:   1, says: "stays behind: d: | synced 1 change back",
		served: original.with(picture{"a": "file:new"}),
	},
	{
		n: 51, name: "the served directory becomes a link meanwhile",
		script: ready + "printf through > d/f; printf through > d/new; printf new > a",
		meanwhile: func(c *backed, _ string) {
			ok(c, os.Rename(c.path("served/d"), c.path("moved")))
			ok(c, os.Symlink(c.outside, c.path("served/d")))
		},
		code: 1, says: "capd: conflict: |  d/f: |  d/new: ",
		served: original.with(picture{"d": "link:OUTSIDE", "d/f": "", "d/e": "", "d/e/g": ""}),
	},
	{
		n: 52, name: "what the program can make",
		script: `mkfifo p; mknod z c 1 5; perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un("s"))'
			ln x h; for f in p z s; do test -e $f && echo "made $f"; done; printf new > a`,
		says:   "synced 2 changes back",
		served: original.with(picture{"a": "file:new", "h": "file:x"}),
		after: func(c *backed) {
			for line := range strings.Lines(c.out) {
				if f, made := strings.CutPrefix(strings.TrimSpace(line), "made "); made && !strings.Contains(c.errs, "stays behind: "+f+":") {
					c.Errorf("%s was made and did not stay behind: %v", f, c.said)
				}
			}
		},
	},
	{
		n: 52, name: "what a program outside makes",
		script: ready + "printf new > a",
		meanwhile: func(c *backed, tree string) {
			ok(c, os.Remove(filepath.Join(tree, "d/f")))
			for _, name := range []string{"p", "d/f"} {
				ok(c, unix.Mkfifo(filepath.Join(tree, name), 0o666))
			}
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: c.path("s")}) // in the tree the path is too long for an address
			ok(c, err)
			l.SetUnlinkOnClose(false)
			l.Close()
			ok(c, os.Rename(c.path("s"), filepath.Join(tree, "s")))
			if err := unix.Mknod(filepath.Join(tree, "z"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil {
				ok(c, unix.Mkfifo(filepath.Join(tree, "z"), 0o666))
			}
		},
		code: 1, says: "stays behind: d/f: | stays behind: p: | stays behind: s: | stays behind: z: | synced 1 change back",
		served: original.with(picture{"a": "file:new"}),
	},
	{
		n: 53, name: "a sparse file that the sandbox refuses",
		script: "printf new > a; truncate -s 15T big && echo made; rm -f big",
		says:   "synced 1 change back",
		served: original.with(picture{"a": "file:new"}),
		after: func(c *backed) {
			if strings.Contains(c.out, "made") {
				c.Errorf("a file of 15 TiB could be made within the usual limit")
			}
		},
	},
	{
		n: 53, name: "a sparse file", args: []string{"--file-size", "17592186044416"},
		script: "printf new > a; truncate -s 15T big || dd if=/dev/null of=big bs=1 seek=17G; test -s big",
		code:   1, says: "capd: limit: ",
		served: original,
	},
	{
		n: 54, name: "setuid",
		script: "chmod 4755 a; printf '#!' > n; chmod 6755 n; chmod 2755 d; chmod 1777 d/e; chmod 4644 x; printf new > x; chmod 4644 x",
		served: original.with(picture{"a": "exec:old", "n": "exec:#!", "x": "file:new"}),
		says:   "synced 3 changes back",
	},
	{
		n: 55, name: "forged times",
		script: "touch -r a /tmp/ref; sleep 0.05; printf mal > a; touch -r /tmp/ref a",
		says:   "synced 1 change back",
		served: original.with(picture{"a": "file:mal"}),
	},
	{
		n: 56, name: "changed meanwhile",
		script:    ready + "printf mine > a; printf mine > n; rm x; printf mine > d/f; printf mine > d/e/g",
		meanwhile: changeMeanwhile,
		code:      1, says: "capd: conflict: |  a: |  d/f: |  n: |  x: ",
		served: changedMeanwhile,
	},
	{
		n: 56, name: "changed meanwhile, of a guest", guest: true,
		script:    ready + "printf mine > a; printf mine > n; rm x; printf mine > d/f; printf mine > d/e/g",
		meanwhile: changeMeanwhile,
		code:      1, says: "capd: conflict: |  a: |  d/f: |  n: |  x: ",
		served: changedMeanwhile,
	},
	{
		n: 57, name: "a new secret",
		script: "mkdir .ssh; printf key > .ssh/authorized_keys; printf new > a",
		code:   1, says: "stays behind: .ssh: denied: | synced 1 change back",
		served: original.with(picture{"a": "file:new"}),
	},
	{
		n: 57, name: "a new secret below", guest: true,
		script: "mkdir d/.SSH; printf key > d/.SSH/id; printf new > a",
		code:   1, says: "stays behind: d/.SSH: denied: | synced 1 change back",
		served: original.with(picture{"a": "file:new"}),
	},
	{
		n: 58, name: "a surviving writer",
		script: `rm x; (setsid sh -c 'i=0; while :; do i=$((i+1)); echo $i >> w; done' TOKEN > /dev/null 2>&1 < /dev/null &)
			until test -s w; do sleep 0.01; done`,
		says: "synced 2 changes back",
		after: func(c *backed) {
			data, err := os.ReadFile(c.path("served/w"))
			ok(c, err)
			for i, line := range bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) {
				if string(line) != fmt.Sprint(i+1) {
					c.Errorf("line %d of what the writer wrote is %q", i+1, line)
					break
				}
			}
			if left := processes(c.token()); len(left) > 0 {
				c.Errorf("processes are left: %q", left)
			}
			is := contents(c, c.path("served"))
			if d := original.with(picture{"x": "", "w": is["w"]}).differs(is); d != "" {
				c.Errorf("what is served: %s", d)
			}
		},
	},
}

func changeMeanwhile(c *backed, _ string) {
	for _, name := range []string{"a", "n", "x"} {
		c.write("served/"+name, "another's")
	}
	ok(c, os.Remove(c.path("served/d/f")))
}

var changedMeanwhile = original.with(picture{"a": "file:another's", "n": "file:another's", "x": "file:another's", "d/f": ""})
