package virtualfs

import (
	"capd/cap/wire"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/diff"
)

// Bounds on one message, beside those of package wire, in bytes.
const (
	maxPageBytes  = 1 << 20   // of a page; a longer page is cut
	maxMountBytes = 256 << 10 // of a mount's URL and patterns
)

// page counts what goes into one page.
type page struct {
	limit, n, bytes int
	more            bool // something did not fit
}

// add reports whether the page has room for one more item of that size, and counts it.
// The first item always has room.
func (p *page) add(size int) bool {
	if p.n > 0 && (p.n == p.limit || p.bytes+size > maxPageBytes) {
		p.more = true
		return false
	}
	p.n++
	p.bytes += size
	return true
}

// Generous estimates of what a struct takes of a message beside its texts, in bytes.
const (
	mountBytes    = 192
	changeBytes   = 320
	conflictBytes = 384
	skippedBytes  = 64
	textBytes     = 16
)

func mountSize(m operator.Mount) int {
	return mountBytes + len(m.Path) + len(m.Kind) + len(m.Detail) + givenSize(m.URL, m.Attenuation)
}

// givenSize estimates the bytes of what the caller of mount chooses.
func givenSize(url string, a operator.Attenuation) int {
	n := textBytes + len(url)
	for _, patterns := range [][]string{a.Deny, a.Ask} {
		for _, p := range patterns {
			n += textBytes + len(p)
		}
	}
	return n
}

// CheckMount answers tooLarge for a URL and patterns that are too large for one mount.
func CheckMount(url string, a operator.Attenuation) error {
	if givenSize(url, a) > maxMountBytes {
		return vfs.Errorf(vfs.TooLarge, "the URL and the patterns are more than the %d KiB of one mount; use fewer and wider patterns", maxMountBytes>>10)
	}
	return nil
}

// CheckPaths answers tooLarge for a list of paths that is too large for one call.
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

func changeSize(c diff.Change) int {
	return changeBytes + 2*len(c.Path) + 2*len(c.From) + len(c.Text) + len(c.Lacks) + len(c.Was.Target) + len(c.Is.Target)
}

func conflictSize(c diff.Conflict) int {
	return conflictBytes + 2*len(c.Path) + len(c.Why) + len(c.Was.Target) + len(c.Becomes.Target) + len(c.Is.Target)
}

func skippedSize(s operator.Skipped) int { return skippedBytes + 2*len(s.Path) + len(s.Why) }
