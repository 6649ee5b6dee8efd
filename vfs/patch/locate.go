package patch

import (
	"slices"

	"capd/vfs"
)

// spot is where a hunk fits.
type spot struct {
	at    int  // first line, from 0
	loose bool // line endings, the byte order mark or the final newline are not those of the patch
}

// maxWork is how many lines the hunks of one file are compared with. A patch whose line numbers are right needs as many as it has lines.
const maxWork = 1 << 25

// maxFound is how many places a refusal names.
const maxFound = 8

// locator finds where hunks fit.
type locator struct {
	*content
	ids    map[string]int32
	hunks  []Hunk
	olds   [][]line // their lines that the file has
	oldIDs [][]int32
	work   int
	over   bool // the work has exceeded maxWork
}

func newLocator(data []byte, hunks []Hunk) *locator {
	l := &locator{hunks: hunks}
	l.content, l.ids = index(data, hunks)
	for _, h := range hunks {
		old := side(h.lines, '+')
		ids := make([]int32, len(old))
		for i, o := range old {
			ids[i] = l.ids[o.text]
		}
		l.olds, l.oldIDs = append(l.olds, old), append(l.oldIDs, ids)
	}
	return l
}

// side returns the lines of one side: all but those with the op of the other.
func side(lines []line, other byte) []line {
	var all []line
	for _, l := range lines {
		if l.op != other {
			all = append(all, l)
		}
	}
	return all
}

// locate returns the spots of all hunks, in order, or why there are none.
func (l *locator) locate() ([]spot, error) {
	spots := make([]spot, len(l.hunks))
	after, shift := 0, 0
	for i := range l.hunks {
		s, err := l.one(i, after, shift)
		if err != nil {
			return nil, err
		}
		spots[i] = s
		if l.hunks[i].old > 0 {
			shift = s.at + 1 - l.hunks[i].old
		}
		after = s.at + len(l.olds[i])
	}
	return spots, nil
}

// one finds the hunk i, at or below the line after. shift is by how much the last hunk was off.
func (l *locator) one(i, after, shift int) (spot, error) {
	h, old := &l.hunks[i], l.olds[i]
	switch {
	case len(old) == 0:
		return l.insertion(i, after)
	case h.last:
		return l.chosen(i, after, l.fitting(i, []int{l.size() - len(old)}, after))
	case len(h.under) > 0:
		return l.below(i, after)
	}
	if h.old > 0 {
		if found := l.fitting(i, []int{h.old - 1 + shift, h.old - 1}, after); len(found) > 0 {
			return found[0], nil
		}
	}
	found := l.find(i, after, l.size(), maxFound+1)
	if len(found) > 1 && i+1 < len(l.hunks) && len(l.olds[i+1]) > 0 { // the next hunk comes after it
		if next := l.find(i+1, found[0].at+len(old), l.size(), 2); len(next) == 1 {
			found = slices.DeleteFunc(found, func(s spot) bool { return s.at+len(old) > next[0].at })
		}
	}
	return l.chosen(i, after, found)
}

// chosen returns the only one of found.
func (l *locator) chosen(i, after int, found []spot) (spot, error) {
	switch {
	case l.over:
		return spot{}, vfs.Errorf(vfs.Limit, "%s could be at too many places; give line numbers, or send several patches", l.which(i))
	case len(found) == 0:
		return spot{}, l.missing(i, after)
	case len(found) > 1:
		return spot{}, l.ambiguous(i, found)
	}
	return found[0], nil
}

// insertion finds a hunk that only adds lines.
func (l *locator) insertion(i, after int) (spot, error) {
	h := &l.hunks[i]
	switch {
	case l.size() == 0:
		return spot{0, true}, nil
	case len(h.under) > 0:
		s, err := l.below(i, after)
		s.at++
		return s, err
	case h.old == 0:
		return spot{l.size(), true}, nil
	}
	return spot{}, vfs.Errorf(vfs.Conflict, "%s has no line of the file by which to find its place; give lines of context", l.which(i))
}

// below finds a hunk by the lines that come before it: the first place below each that it fits.
func (l *locator) below(i, after int) (spot, error) {
	h := &l.hunks[i]
	var starts []int32
	for k, u := range h.under {
		all := l.under[u]
		if k == 0 {
			from, _ := slices.BinarySearch(all, int32(after)) //nolint:gosec // a line of a content
			if starts = all[from:]; len(starts) == 0 {
				starts = all // several hunks may be below one line
			}
		} else {
			starts = l.next(starts, all)
		}
		if len(starts) == 0 {
			return spot{}, vfs.Errorf(vfs.Conflict, "%s: no line of the file is %s, which it is said to be below", l.which(i), quoted(u))
		}
	}
	var found []spot
	for _, s := range starts {
		at := []spot{{int(s), true}}
		if len(l.olds[i]) > 0 {
			at = l.find(i, max(int(s), after), l.size(), 1)
		}
		if len(at) > 0 && (len(found) == 0 || found[len(found)-1].at != at[0].at) {
			found = append(found, at[0])
		}
		if len(found) > maxFound || l.over {
			break
		}
	}
	return l.chosen(i, after, found)
}

// next returns the first of all after each of starts.
func (l *locator) next(starts, all []int32) []int32 {
	var found []int32
	for _, s := range starts {
		at, _ := slices.BinarySearch(all, s+1)
		if at < len(all) && (len(found) == 0 || found[len(found)-1] != all[at]) {
			found = append(found, all[at])
		}
	}
	return found
}

// fitting returns the first of the lines at, none above after, where the hunk i fits.
func (l *locator) fitting(i int, at []int, after int) []spot {
	for _, loose := range []bool{false, true} {
		for _, at := range at {
			if at >= after && l.fits(i, at, loose) {
				return []spot{{at, loose}}
			}
		}
	}
	return nil
}

// find returns up to most spots from the line lo up to hi where the hunk i fits. If it fits anywhere as it is, only those count.
func (l *locator) find(i, lo, hi, most int) []spot {
	old := l.oldIDs[i]
	rare := 0
	for k, id := range old {
		if len(l.posts[id]) < len(l.posts[old[rare]]) {
			rare = k
		}
	}
	all := l.posts[old[rare]]
	from, _ := slices.BinarySearch(all, int32(lo+rare)) //nolint:gosec // a line of a content
	for _, loose := range []bool{false, true} {
		var found []spot
		for _, p := range all[from:] {
			at := int(p) - rare
			if at+len(old) > hi || len(found) == most || l.over {
				break
			}
			if l.fits(i, at, loose) {
				found = append(found, spot{at, loose})
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// fits reports whether the hunk i fits at a line.
func (l *locator) fits(i, at int, loose bool) bool {
	old := l.oldIDs[i]
	if at < 0 || at+len(old) > l.size() {
		return false
	}
	for k, id := range old {
		if l.work++; l.work > maxWork {
			l.over = true
			return false
		}
		same := l.exact[at+k] == id || loose && l.loose[at+k] == id
		open, cut := l.isOpen(at+k), l.olds[i][k].cut
		if !same || cut && !open || open && !cut && !loose {
			return false
		}
	}
	return true
}
