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

	"capd/vfs"
)

// Pin is a root that a store keeps, and the name it is kept under.
type Pin struct {
	Name string    `json:"name"`
	Root Digest    `json:"root"`
	Made time.Time `json:"made"` // when it was pinned
	About
}

// About is what a store notes of a pin, for people. The zero About says nothing.
type About struct {
	Of    string `json:"of,omitempty"` // what the tree was made of
	Files int64  `json:"files,omitempty"`
	Bytes int64  `json:"bytes,omitempty"` // of all files
}

// maxAbout is how long a pin's file may be, in bytes.
const maxAbout = 64 << 10

// Pin implements [Pinner]. It is [Store.PinAbout] with nothing noted.
func (s *Store) Pin(ctx context.Context, name string, root Digest) error {
	return s.PinAbout(ctx, name, root, About{})
}

// PinAbout keeps the tree below root under a name, and notes what it is. The pin would survive a power cut when Pin returns. The name
// is as a new file's is, and begins with no ".". It answers invalid, notFound when root
// is not stored, and corrupt when something below it is missing or damaged; then
// nothing has changed.
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
	u, err := s.begin(ctx) // whose directory is swept when this process is killed
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
		err = flushDirectory(s.path(pinsDir))
	}
	step("pinned")
	return explain(err)
}

// text is what a pin's file holds: the root in one line, and what is noted in another.
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
		return nil, vfs.Errorf(vfs.TooLarge, "what is noted of a pin is more than %d KiB", maxAbout>>10)
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

// readRoot reads the root that a pin or a lease names.
func readRoot(path string) (root Digest, err error) {
	p, err := readPin(path)
	return p.Root, err
}

// readPin reads a pin or a lease. A note that cannot be read says nothing.
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
