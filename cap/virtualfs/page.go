package virtualfs

import (
	"capd/cap/wire"
	"capd/vfs"
	"capd/vfs/batch"
	"capd/virtualfs"
)

// Bounds on one message, beside package wire's.
const (
	maxPageBytes  = 1 << 20   // of a page; one over it is shorter
	maxMountBytes = 256 << 10 // of a mount's URL and patterns
)

// page counts what goes into one page.
type page struct {
	limit, n, bytes int
	more            bool // something did not go in
}

// add reports whether there is room for one more of a size. The first always has
// room.
func (p *page) add(size int) bool {
	if p.n > 0 && (p.n == p.limit || p.bytes+size > maxPageBytes) {
		p.more = true
		return false
	}
	p.n++
	p.bytes += size
	return true
}

// What a struct takes of a message beside its texts, in bytes and generously.
const (
	mountBytes    = 192
	changeBytes   = 320
	conflictBytes = 384
	skippedBytes  = 64
	textBytes     = 16
)

func mountSize(m virtualfs.Mount) int {
	return mountBytes + len(m.Path) + len(m.Kind) + len(m.Detail) + givenSize(m.URL, m.Attenuation)
}

// givenSize is of what whoever mounts chooses the size.
func givenSize(url string, a virtualfs.Attenuation) int {
	n := textBytes + len(url)
	for _, patterns := range [][]string{a.Deny, a.Ask} {
		for _, p := range patterns {
			n += textBytes + len(p)
		}
	}
	return n
}

// CheckMount answers tooLarge for a mount that VirtualFs does not take.
func CheckMount(url string, a virtualfs.Attenuation) error {
	if givenSize(url, a) > maxMountBytes {
		return vfs.Errorf(vfs.TooLarge, "the URL and the patterns are more than the %d KiB of one mount; use fewer and wider patterns", maxMountBytes>>10)
	}
	return nil
}

// CheckPaths answers tooLarge for a list of paths that VirtualFs does not take.
func CheckPaths(paths []string) error {
	n := 0
	for _, p := range paths {
		n += textBytes + len(p)
	}
	return checkTexts(n, wire.MaxWhole)
}

func checkTexts(n, most int) error {
	if n > most {
		return vfs.Errorf(vfs.TooLarge, "a list is more than the %d KiB of one call; name fewer and wider, such as a directory above", most>>10)
	}
	return nil
}

func changeSize(c virtualfs.Change) int {
	return changeBytes + 2*len(c.Path) + 2*len(c.From) + len(c.Text) + len(c.Lacks) + len(c.Was.Target) + len(c.Is.Target)
}

func conflictSize(c batch.Conflict) int {
	return conflictBytes + 2*len(c.Path) + len(c.Why) + len(c.Was.Target) + len(c.Becomes.Target) + len(c.Is.Target)
}

func skippedSize(s virtualfs.Skipped) int { return skippedBytes + 2*len(s.Path) + len(s.Why) }
