package physical

import "capd/vfs"

// worthPinning is how large a file is, in bytes, that is not freed in a commit: with
// its last name and its last descriptor goes what it holds, which takes as long as
// there is much of it.
const worthPinning = 1 << 20

// pins hold what loses its name in a commit until the commit is over.
type pins []func()

// pin holds what is called name in dir, which was seen as a.
func (p *pins) pin(dir directory, name string, a attr) {
	if a.kind == vfs.FileKind && a.size >= worthPinning {
		*p = append(*p, dir.pin(name))
	}
}

func (p *pins) unpin() {
	for _, unpin := range *p {
		unpin()
	}
	*p = nil
}
