package mcp

import (
	"context"
	"testing"

	"capd/backend/physical"
	"capd/client"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

var noCondition = vfs.If{}

func dialText(t *testing.T, text string) (*client.Conn, error) {
	c, err := client.Dial(t.Context(), text)
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

func readOf(t *testing.T, c *client.Conn, path string) (string, error) {
	f := c.Dir(context.Background()).OpenFile(path)
	defer f.Close()
	text, _, err := f.ReadText(t.Context())
	return text, err
}

func onDisk(t *testing.T, dir string) vfs.Dir {
	s, err := physical.OpenAmbient(dir, physical.Options{})
	check.OK(t, err)
	t.Cleanup(func() { s.Close() })
	return s.Root()
}
