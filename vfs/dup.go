package vfs

// Duper is a node that can return another reference to itself, with the same rights.
type Duper interface {
	Dup() (Node, error)
}

// Dup returns another reference to n with the same rights. Each reference is closed
// separately. Dup answers unsupported when n is not a [Duper]. Every directory and every
// file behind a membrane is one, and every one of package client.
func Dup[N Node](n N) (again N, err error) {
	if d, ok := Node(n).(Duper); ok {
		n, err := d.Dup()
		if err != nil {
			return again, err
		}
		return n.(N), nil
	}
	return again, Errorf(Unsupported, "only a directory or a file behind a membrane can be duplicated")
}
