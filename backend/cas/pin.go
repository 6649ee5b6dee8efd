package cas

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"capd/hostfile"
	"capd/vfs"
)

// Pin is a root that a store keeps, and its name.
type Pin struct {
	Name string    `json:"name"`
	Root Digest    `json:"root"`
	Made time.Time `json:"made"` // when it was pinned
	About
}

// About describes a pin, for people. The zero About is empty.
type About struct {
	Of    string `json:"of,omitempty"` // what the tree was made of
	Files int64  `json:"files,omitempty"`
	Bytes int64  `json:"bytes,omitempty"` // of all files
}

// maxAbout is the largest size, in bytes, of a pin's file.
const maxAbout = 64 << 10

// Pin implements [Pinner]. It is [Store.PinAbout] without a description.
func (s *Store) Pin(ctx context.Context, name string, root Digest) error {
	return s.PinAbout(ctx, name, root, About{})
}

// PinAbout keeps the tree below root under name, with a description. When it returns,
// the pin would survive a power cut. The name must be valid for a new file and must not
// begin with ".". It answers invalid, notFound when root is not stored, and corrupt
// when something below it is missing or damaged; then nothing has changed.
func (s *Store) PinAbout(ctx context.Context, name string, root Digest, about About) error {
	if err := checkPin(name); err != nil {
		return err
	}
	text, err := about.text(root)
	if err != nil {
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
	u, err := s.begin(ctx) // its directory is removed later if this process dies
	if err != nil {
		return err
	}
	defer u.Close()
	staged := u.file()
	if err := writeSynced(staged, text); err != nil {
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
		err = hostfile.SyncDir(s.path(pinsDir))
	}
	step("pinned")
	return explain(err)
}

// text returns the content of a pin's file: the root in one line, and the description
// in another.
func (a About) text(root Digest) ([]byte, error) {
	text, err := root.MarshalText()
	if err != nil {
		return nil, explain(err)
	}
	text = append(text, '\n')
	if a == (About{}) {
		return text, nil
	}
	note, err := json.Marshal(a)
	if err != nil {
		return nil, explain(err)
	}
	if text = append(append(text, note...), '\n'); len(text) > maxAbout {
		return nil, vfs.Errorf(vfs.TooLarge, "the description of a pin is longer than %d KiB", maxAbout>>10)
	}
	return text, nil
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

// Unpin removes the pin called name. The next [Store.Collect] removes what nothing else
// keeps. It answers notFound.
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
		err = hostfile.SyncDir(s.path(pinsDir))
	}
	return explain(err)
}

// Pins returns all pins, in byte order of names. It answers corrupt when one cannot be
// read.
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
		pin, err := readPin(s.path(pinsDir, e.Name()))
		switch {
		case errors.Is(err, fs.ErrNotExist): // unpinned meanwhile
		case err != nil:
			return nil, vfs.At(e.Name(), explain(err))
		default:
			pins = append(pins, pin)
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

// readPin reads a pin or a lease. It ignores a description that cannot be read.
func readPin(path string) (p Pin, err error) {
	f, err := os.Open(path)
	if err != nil {
		return p, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return p, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxAbout))
	if err != nil {
		return p, err
	}
	p.Name, p.Made = info.Name(), info.ModTime()
	line, note, _ := strings.Cut(string(text), "\n")
	if err := p.Root.UnmarshalText([]byte(line)); err != nil || p.Root.Size < 0 {
		return p, vfs.Errorf(vfs.Corrupt, "a pin does not name a root; pin again, or unpin it")
	}
	_ = json.Unmarshal([]byte(note), &p.About)
	return p, nil
}
