package cas

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"capd/vfs"
)

// Pin is a root that a store keeps, and the name it is kept under.
type Pin struct {
	Name string `json:"name"`
	Root Digest `json:"root"`
}

// Pin implements [Pinner]. The pin would survive a power cut when Pin returns. The name
// is as a new file's is, and begins with no ".". It answers invalid, notFound when root
// is not stored, and corrupt when something below it is missing or damaged; then
// nothing has changed.
func (s *Store) Pin(ctx context.Context, name string, root Digest) error {
	if err := checkPin(name); err != nil {
		return err
	}
	release, err := s.lease(ctx, root)
	if err != nil {
		return err
	}
	defer release()
	if err := s.complete(ctx, root); err != nil {
		return err
	}
	u, err := s.begin(ctx) // whose directory is swept when this process is killed
	if err != nil {
		return err
	}
	defer u.Close()
	staged := u.file()
	text, err := root.MarshalText()
	if err == nil {
		err = writeSynced(staged, append(text, '\n'))
	}
	if err != nil {
		return explain(err)
	}
	step("pinning")
	leave, err := s.enter(ctx, false)
	if err != nil {
		return err
	}
	err = vfs.Commit(ctx, vfs.Effect{}, func() (vfs.Effect, error) {
		return vfs.Effect{}, os.Rename(staged, s.path(pinsDir, name))
	})
	leave()
	if err == nil {
		err = flushDirectory(s.path(pinsDir))
	}
	step("pinned")
	return explain(err)
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// Unpin gives up the pin called name. What nothing else keeps goes with the next
// [Store.Collect]. It answers notFound.
func (s *Store) Unpin(ctx context.Context, name string) error {
	if err := checkPin(name); err != nil {
		return err
	}
	err := vfs.Commit(ctx, vfs.Effect{}, func() (vfs.Effect, error) {
		return vfs.Effect{}, os.Remove(s.path(pinsDir, name))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return vfs.Errorf(vfs.NotFound, "there is no pin of this name")
	}
	if err == nil {
		err = flushDirectory(s.path(pinsDir))
	}
	return explain(err)
}

// Pins returns every pin, in byte order of names. It answers corrupt when one of them
// cannot be read.
func (s *Store) Pins(ctx context.Context) ([]Pin, error) {
	entries, err := os.ReadDir(s.path(pinsDir))
	if err != nil {
		return nil, explain(err)
	}
	var pins []Pin
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		root, err := readRoot(s.path(pinsDir, e.Name()))
		switch {
		case errors.Is(err, fs.ErrNotExist): // unpinned meanwhile
		case err != nil:
			return nil, vfs.At(e.Name(), explain(err))
		default:
			pins = append(pins, Pin{e.Name(), root})
		}
	}
	return pins, nil
}

func checkPin(name string) error {
	if err := vfs.CheckNewName(name); err != nil {
		return err
	}
	if strings.HasPrefix(name, ".") {
		return vfs.Errorf(vfs.Invalid, "a pin's name begins with no \".\"")
	}
	return nil
}

// readRoot reads the root that a pin or a lease names.
func readRoot(path string) (root Digest, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Digest{}, err
	}
	err = root.UnmarshalText([]byte(strings.TrimSuffix(string(text), "\n")))
	if err != nil || root.Size < 0 {
		return Digest{}, vfs.Errorf(vfs.Corrupt, "a pin does not name a root; pin again, or unpin it")
	}
	return root, nil
}
