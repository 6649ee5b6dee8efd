package physical_test

import (
	"bytes"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"capd/backend/physical"
	"capd/vfs"
)

// A content's version is that of what was read, also when another program writes to the file meanwhile, whether or not
// the version it had before is known.
func TestSumOfWhatWasRead(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "f")
	root := open(t, dir, physical.Options{}).Root()
	read := func(c vfs.Content) []byte {
		b := make([]byte, c.Size())
		n, err := c.ReadAt(b, 0)
		if err != io.EOF {
			require.NoError(t, err)
		}
		return b[:n]
	}
	whole := func() (vfs.Content, []byte) {
		n, err := root.Lookup(t.Context(), "f")
		require.NoError(t, err)
		defer n.Close()
		c, err := vfs.Open(t.Context(), n.(vfs.File))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c, read(c)
	}
	is := func(what string, c vfs.Content, b []byte) {
		t.Helper()
		assert.Equal(t, vfs.Version(sha256.Sum256(b)), vfs.Sum(c, b), what)
	}
	for i, settled := range []bool{true, false, true} {
		content := bytes.Repeat([]byte{byte('a' + 3*i)}, 1000)
		require.NoError(t, os.WriteFile(at, content, 0o600))
		if settled {
			time.Sleep(50 * time.Millisecond)
		}
		for range 2 {
			c, b := whole()
			require.Equal(t, content, b)
			is("unchanged", c, b)
		}
		c, b := whole()
		require.NoError(t, os.WriteFile(at, bytes.Repeat([]byte{byte('b' + 3*i)}, 1000), 0o600))
		is("written after the read", c, b)
		is("written after the open", c, read(c))
		c, b = whole()
		is("written before the open", c, b)
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, os.WriteFile(at, bytes.Repeat([]byte{byte('c' + 3*i)}, 999), 0o600))
		is("shorter", c, read(c))
	}
}
