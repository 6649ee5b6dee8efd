package git

import "os"

// temp is a file in the host's directory for temporary files, which nobody else can open
// where the system lets an open file be without a name.
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

// Close closes the file, which is gone then.
func (t *temp) Close() error {
	err := t.File.Close()
	if t.named {
		os.Remove(t.Name())
	}
	return err
}
