package git

import (
	"errors"
	"net/url"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/vfs"
)

// Git reads some files of a tree for its own use. git fsck refuses those that are
// dangerous to old versions of git.

const (
	maxModules    = 1 << 20   // bytes of the largest .gitmodules that is checked
	maxAttributes = 100 << 20 // bytes of a .gitattributes, as in git
	maxAttribute  = 2048      // bytes of one of its lines, as in git
)

// checkSpecial answers invalid for a file that git would read and refuse.
func (s *Store) checkSpecial(e entry) error {
	switch {
	case isModules(e.name):
		text, err := s.text(e, maxModules)
		if err != nil {
			return err
		}
		return checkModules(text)
	case isAttributes(e.name):
		text, err := s.text(e, maxAttributes)
		if err != nil {
			return err
		}
		for line := range strings.SplitSeq(text, "\n") {
			if len(line) >= maxAttribute {
				return vfs.Errorf(vfs.Invalid, "a line of .gitattributes is longer than git takes: %d bytes", maxAttribute)
			}
		}
	}
	return nil
}

// text returns the content of a file.
func (s *Store) text(e entry, most int64) (string, error) {
	text, err := s.objects.readAs(e.id, plumbing.BlobObject, most)
	if errors.Is(err, errTooLarge) {
		err = vfs.Errorf(vfs.Invalid, "%s is longer than git takes", vfs.Printable(e.name))
	}
	return string(text), err
}

// checkModules checks a .gitmodules as git fsck does. It is stricter with URLs that
// lead up.
func checkModules(text string) error {
	cfg, err := parseConfig(text)
	if err != nil {
		return vfs.Errorf(vfs.Invalid, "this .gitmodules cannot be read: %v", err)
	}
	bad := func(what, value string) error {
		return vfs.Errorf(vfs.Invalid, "git does not take this %s in .gitmodules: %s", what, vfs.Printable(value))
	}
	for _, section := range cfg.Sections {
		if !section.IsName("submodule") {
			continue
		}
		for _, sub := range section.Subsections {
			for part := range strings.FieldsFuncSeq(sub.Name, func(r rune) bool { return r == '/' || r == '\\' }) {
				if part == ".." {
					return bad("name", sub.Name)
				}
			}
			if sub.Name == "" {
				return bad("name", sub.Name)
			}
			for _, o := range sub.Options {
				switch strings.ToLower(o.Key) {
				case "url":
					if !fineURL(o.Value) {
						return bad("url", o.Value)
					}
				case "path":
					if strings.HasPrefix(o.Value, "-") {
						return bad("path", o.Value)
					}
				case "update":
					if strings.HasPrefix(o.Value, "!") {
						return bad("update", o.Value)
					}
				}
			}
		}
	}
	return nil
}

// fineURL reports whether a URL is acceptable for a submodule.
func fineURL(s string) bool {
	if strings.HasPrefix(s, "-") || strings.Contains(s, "\n") || strings.Contains(strings.ToLower(s), "%0a") {
		return false
	}
	if strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../") {
		rest := s
		for strings.HasPrefix(rest, "./") || strings.HasPrefix(rest, "../") {
			_, rest, _ = strings.Cut(rest, "/")
		}
		return !strings.HasPrefix(rest, ":") && !strings.HasPrefix(rest, "/")
	}
	_, transport, helper := strings.Cut(s, "::")
	if helper {
		s = transport
	}
	for _, scheme := range []string{"http", "https", "ftp", "ftps"} {
		if strings.HasPrefix(s, scheme+":") {
			u, err := url.Parse(s)
			return err == nil && u.Hostname() != ""
		}
	}
	return true
}
