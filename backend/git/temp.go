package git

import "os"

// temp is a temporary file of the host. Where the system allows files without a name,
// nobody else can open it.
type temp struct {
	*os.File
	named bool
}

func newTemp() (*temp, error) {
	f, err := os.CreateTemp("", "git-*")
	if err != nil {
		return nil, hidden(err)
	}
	return &temp{f, os.Remove(f.Name()) != nil}, nil
}

// Close closes the file, which then no longer exists.
func (t *temp) Close() error {
	err := t.File.Close()
	if t.named {
		os.Remove(t.Name())
	}
	return err
}
