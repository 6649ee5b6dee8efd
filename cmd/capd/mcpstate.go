package main

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"capd/front/roots"
	"capd/state"
	"capd/vfs"
)

// private begins the names of directories for the state of a host that ends with its process.
const private = "capd-mcp-"

// privateState makes a directory for the state of a host that ends with this process: in the directory for temporary files, or beside the usual
// one if the agent gets that. What such hosts left when they were killed is removed.
func privateState(shown roots.Roots) (string, error) {
	in := os.TempDir()
	real, err := filepath.EvalSymlinks(in)
	if err != nil {
		return "", err
	}
	for _, r := range shown {
		if rest, err := filepath.Rel(filepath.FromSlash(r.Real), real); err == nil && rest != ".." && !strings.HasPrefix(rest, ".."+string(filepath.Separator)) {
			usual, _, err := state.Usual()
			if err != nil {
				return "", err
			}
			if in = filepath.Dir(usual); os.MkdirAll(in, 0o700) != nil {
				return "", vfs.Errorf(vfs.Denied, "the host has no place for its state; set XDG_STATE_HOME")
			}
			break
		}
	}
	go sweep(in)
	dir, err := os.MkdirTemp(in, private)
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, marker), nil, 0o600)
}

// marker is the file that says that a directory is such a one, whatever its name is.
const marker = "ends-with-its-process"

// young is how old such a directory may be without being taken by a host: it has just been made.
const young = time.Minute

// plain reports whether the file called name in dir is a regular file.
func plain(dir, name string) bool {
	fi, err := os.Lstat(filepath.Join(dir, name))
	return err == nil && fi.Mode().IsRegular()
}

// sweep removes the directories of hosts in the directory in that were killed. A directory stays if something is in it that could not be synced back
// to where it came from.
func sweep(in string) {
	all, _ := filepath.Glob(filepath.Join(in, private+"*"))
	for _, dir := range all {
		fi, err := os.Lstat(dir)
		if err != nil || !fi.IsDir() || !state.Secret(fi) || time.Since(fi.ModTime()) < young || !plain(dir, marker) || !plain(dir, "lock") {
			continue
		}
		lock, err := state.Take(filepath.Join(dir, "lock"))
		if err != nil { // a host has it
			continue
		}
		if kept, _ := os.ReadDir(state.Dir(dir).AllUnsynced()); len(kept) == 0 {
			_ = os.RemoveAll(dir)
		}
		lock.Close()
	}
}
