//go:build unix

package state

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many links a path may lead through, as in path_resolution(7).
const maxLinks = 40

// Replaceable returns a directory or link on the way to path that another user than root can change, or "".
// That user could then replace what path leads to. path is absolute and exists. For whether another user can change
// what path leads to, see [Private].
func Replaceable(path string) string {
	const root = string(filepath.Separator)
	at, rest := root, strings.Split(filepath.Clean(path), root)
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at) // at is no link
			continue
		}
		if fi, err := os.Lstat(at); err != nil || othersChange(fi) {
			return at
		}
		next := filepath.Join(at, name)
		fi, err := os.Lstat(next)
		switch {
		case err != nil:
			return next
		case fi.Mode()&os.ModeSymlink == 0:
			at = next
			continue
		}
		target, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks || othersChange(fi) {
			return next
		}
		if filepath.IsAbs(target) {
			at = root
		}
		rest = append(strings.Split(target, root), rest...)
	}
	return ""
}

// othersChange reports whether another user than root owns a file, or may change what is in it if it is a
// directory. The group's members are trusted.
func othersChange(fi os.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || st.Uid != 0 && int(st.Uid) != os.Geteuid() && !outside(st.Uid) {
		return true
	}
	return fi.IsDir() && fi.Mode().Perm()&0o002 != 0 && fi.Mode()&os.ModeSticky == 0
}
