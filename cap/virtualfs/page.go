package virtualfs

// maxPageBytes bounds a page, in bytes. A longer page is cut.
const maxPageBytes = 1 << 20

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
