package server

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"capd/meter"
	"capd/operator"
	"capd/state"
	"capd/vfs"
)

// scratch is a directory in the state directory that a guest keeps for itself. It is there until an operator removes it. In
// it are:
//
//	lock          locked while a host has it
//	scratch.json  whose it is, and how much it may hold
//	files/        what the guest keeps
type scratch struct {
	dir   string
	lock  *os.File
	of    scratchFile
	meter *meter.Meter // of all mounts of it
}

// scratchFile is the content of scratch.json.
type scratchFile struct {
	Format int    `json:"format"`
	Guest  string `json:"guest"`
	Bytes  int64  `json:"bytes"` // at most
}

const (
	scratchName   = "scratch.json"
	scratchFormat = 1
	scratchNodes  = 1 << 20
)

// scratchAt returns the scratch that belongs into the scope at path, or nil. If bytes is above 0 it is made if it is missing, for
// subject, and may hold that much from now on. The caller holds scoping.
func (s *Server) scratchAt(subject operator.Subject, at string, bytes int64) (*scratch, error) {
	name := path.Base(at)
	if name == operator.SharedName {
		return nil, nil
	}
	if bytes > 0 {
		if r, err := s.drafts.rootOf(at); err != nil || !r.Drafted() && !s.fs.Reopens(r.Path) {
			return nil, vfs.Errorf(vfs.Unsupported, "scratch is beside a directory or a git revision that is mounted without an overlay; grant without it")
		}
	}
	own := s.scratches[name]
	if own == nil {
		var err error
		if own, err = openScratch(filepath.Join(s.state.Scratch(), name), subject.Name(), bytes); own == nil || err != nil {
			return nil, err
		}
		if s.scratches == nil {
			s.scratches = map[string]*scratch{}
		}
		s.scratches[name] = own
	}
	return own, own.bound(bytes)
}

// openScratch takes the scratch in dir for this process. It makes it if bytes is above 0; otherwise it returns nil for one that is
// not there.
func openScratch(dir, guest string, bytes int64) (_ *scratch, err error) {
	if _, err := os.Lstat(filepath.Join(dir, scratchName)); errors.Is(err, fs.ErrNotExist) && bytes == 0 {
		return nil, nil
	}
	if err := state.MakeDir(filepath.Join(dir, "files")); err != nil {
		return nil, unusableScratch(dir, err)
	}
	own := &scratch{dir: dir}
	if own.lock, err = state.Take(filepath.Join(dir, "lock")); err != nil {
		return nil, unusableScratch(dir, err)
	}
	defer func() {
		if err != nil {
			own.lock.Close()
		}
	}()
	if err = own.read(); errors.Is(err, fs.ErrNotExist) {
		own.of = scratchFile{Guest: guest}
		err = nil
	}
	if err != nil {
		return nil, err
	}
	used, err := usage(own.files())
	if err != nil {
		return nil, unusableScratch(dir, err)
	}
	own.meter = meter.New(own.of.Guest, "what is kept as scratch", meter.Limits{meter.StoredBytes: own.of.Bytes, meter.StoredNodes: scratchNodes})
	own.meter.Settle(meter.Effect{}, used)
	return own, nil
}

func unusableScratch(dir string, err error) error {
	return vfs.Errorf(vfs.Denied, "the scratch in %s cannot be used: %v", vfs.Printable(dir), state.Reason(err))
}

func (s *scratch) files() string { return filepath.Join(s.dir, "files") }
func (s *scratch) file() string  { return filepath.Join(s.dir, scratchName) }

// read reads scratch.json.
func (s *scratch) read() error {
	text, err := os.ReadFile(s.file())
	if err != nil {
		return err
	}
	switch err := json.Unmarshal(text, &s.of); {
	case err != nil || s.of.Format < 1:
		return vfs.Errorf(vfs.Corrupt, "%s cannot be read; restore it, or move its directory away", vfs.Printable(s.file()))
	case s.of.Format > scratchFormat:
		return vfs.Errorf(vfs.Unsupported, "the scratch in %s was made by a newer version of capd; use that one", vfs.Printable(s.dir))
	}
	return nil
}

// bound lets s hold bytes from now on, if that is above 0.
func (s *scratch) bound(bytes int64) error {
	if bytes <= 0 || bytes == s.of.Bytes {
		return nil
	}
	s.of.Format, s.of.Bytes = scratchFormat, bytes
	text, err := json.Marshal(s.of)
	if err == nil {
		err = state.WriteFile(s.file(), append(text, '\n'))
	}
	if err != nil {
		return unusableScratch(s.dir, err)
	}
	s.meter.Set(meter.Limits{meter.StoredBytes: bytes})
	return nil
}

// mount returns the mount of s in the scope at path.
func (s *scratch) mount(at string) Mount {
	return Mount{Path: vfs.Join(at, operator.ScratchName), URL: PhysicalURL(s.files()), Attenuation: Attenuation{
		Deny: []string{}, Ask: []string{}, Guards: []Guard{{Meter: s.meter}},
	}}
}

// letGo lets go of the scratch directories that are mounted nowhere. The caller holds scoping.
func (s *Server) letGo() {
	for name, own := range s.scratches {
		mounted := false
		for at := range s.scoped {
			mounted = mounted || strings.HasSuffix(at, "/"+name+"/"+operator.ScratchName)
		}
		if !mounted {
			own.lock.Close()
			delete(s.scratches, name)
		}
	}
}
