package vfs

// Duper is a node that can be referred to once more, with the same rights.
type Duper interface {
	Dup() (Node, error)
}

// Dup returns another reference to n with the same rights, which is closed by itself. It
// answers unsupported when n is not a [Duper]. Every directory and every file behind a
// membrane is one.
func Dup(n Node) (Node, error) {
	if d, ok := n.(Duper); ok {
		return d.Dup()
	}
	return nil, Errorf(Unsupported, "only a directory or a file behind a membrane can be duplicated")
}
