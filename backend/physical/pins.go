package physical

import "capd/vfs"

// worthPinning is the size, in bytes, from which a file is not freed inside a commit.
// Removing the last name and the last descriptor of a file frees its content, which
// takes longer the larger it is.
const worthPinning = 1 << 20

// pins keep nodes that lose their names in a commit until the commit is over.
type pins []func()

// pin keeps the node called name in dir, which was seen as a.
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
