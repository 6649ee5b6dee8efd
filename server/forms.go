package server

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"capd/backend/cas"
	"capd/vfs"
	"capd/virtualfs"
)

// forms checks URLs by the kind of store. It finds what is wrong without opening anything: invalid.
var forms = map[string]func(*virtualfs.URL) error{
	"physical": func(u *virtualfs.URL) error {
		return cmp.Or(u.Only("readonly"), onOrOff(u, "readonly"), needsPath(u, "physical:DIR"), noFragment(u))
	},
	"git": func(u *virtualfs.URL) error {
		if err := cmp.Or(checkUpper(u), onOrOff(u, "writable", "follow", "confined"), needsPath(u, "git:REPO#REV")); err != nil {
			return err
		}
		if _, below, _ := strings.Cut(u.Fragment, ":"); below != "" && u.Flag("writable") {
			return vfs.Errorf(vfs.Invalid, "a part of a revision cannot be written to; mount the whole")
		}
		return nil
	},
	"memory": func(u *virtualfs.URL) error {
		if err := u.Only("max", "nodes"); err != nil {
			return err
		}
		if u.Path != "" || u.Fragment != "" {
			return vfs.Errorf(vfs.Invalid, "memory has no path; write memory: or memory:?max=64MiB&nodes=1000")
		}
		_, err := limits(u, memoryBytes, memoryNodes)
		return err
	},
	"cas": func(u *virtualfs.URL) error {
		if err := u.Only(); err != nil {
			return err
		}
		root, err := rootOf(u)
		if err == nil && remoteCAS(u) && root.Size < 0 {
			err = errNoSize
		}
		return err
	},
}

var errNoSize = vfs.Errorf(vfs.Invalid, "a remote CAS needs the size too: #DIGEST/SIZE")

// checkForm answers invalid for a URL that cannot be opened. URLs of own stores are checked only by
// their openers.
func (s *Server) checkForm(u *virtualfs.URL) error {
	if u.Below != nil {
		return cmp.Or(checkUpper(u), s.checkForm(u.Below))
	}
	if check := forms[u.Scheme]; check != nil {
		return check(u)
	}
	if s.Stores[u.Scheme] != nil {
		return nil
	}
	kinds := slices.Concat([]string{"overlay"}, slices.Collect(maps.Keys(forms)), slices.Collect(maps.Keys(s.Stores)))
	slices.Sort(kinds)
	return vfs.Errorf(vfs.Invalid, "there is no kind of store called %q; there are: %s", u.Scheme, strings.Join(kinds, ", "))
}

// checkUpper checks the options of an overlay or of a git mount.
func checkUpper(u *virtualfs.URL) error {
	options := []string{"upper", "keep", "max", "nodes"}
	if u.Scheme == "git" {
		revision := []string{"writable", "follow", "confined"}
		if !u.Flag("writable") {
			return cmp.Or(needsWritable(u, options), u.Only(revision...))
		}
		options = append(revision, options...)
	}
	_, err := upperLimits(u)
	if err == nil && u.Flag("keep") && u.Query.Has("upper") {
		err = vfs.Errorf(vfs.Invalid, "upper= and keep exclude each other: what is written is kept in the directory that upper= names, or in the state directory")
	}
	return cmp.Or(u.Only(options...), onOrOff(u, "keep"), err)
}

// needsWritable answers invalid for those options of a git mount that say where its changes are.
func needsWritable(u *virtualfs.URL, options []string) error {
	for _, o := range options {
		if !u.Query.Has(o) {
			continue
		}
		said := o
		if v := u.Query.Get(o); v != "" {
			said += "=" + vfs.Printable(v)
		}
		return vfs.Errorf(vfs.Invalid, "%s goes with writable; write git:REPO?writable&%s#BRANCH", o, said)
	}
	return nil
}

// checkStores answers invalid for an own store whose scheme is built in, that no URL can name, or that has no opener.
func (s *Server) checkStores() error {
	for scheme, open := range s.Stores {
		switch {
		case scheme == "overlay" || forms[scheme] != nil:
			return vfs.Errorf(vfs.Invalid, "Stores has an opener of %s:, which is a kind of store already; give it another scheme", scheme)
		case !isScheme(scheme):
			return vfs.Errorf(vfs.Invalid, "Stores has the scheme %q; a scheme is a-z and 0-9, begins with a letter, and has no colon", scheme)
		case open == nil:
			return vfs.Errorf(vfs.Invalid, "in Stores the opener of %s: is nil", scheme)
		}
	}
	return nil
}

// isScheme reports whether a URL can name the scheme.
func isScheme(scheme string) bool {
	u, err := virtualfs.ParseURL(scheme + ":")
	return err == nil && u.Scheme == scheme
}

// rootOf returns the digest of the tree that a cas URL names.
func rootOf(u *virtualfs.URL) (root cas.Digest, err error) {
	if err := root.UnmarshalText([]byte(u.Fragment)); err != nil {
		return root, vfs.Errorf(vfs.Invalid, "cas: needs the digest of a root after #: 64 hexadecimal digits, as a snapshot answers them")
	}
	return root, nil
}

func needsPath(u *virtualfs.URL, form string) error {
	if u.Path == "" {
		return vfs.Errorf(vfs.Invalid, "%s: names nothing; write %s", u.Scheme, form)
	}
	return nil
}

// onOrOff answers invalid for an option that is neither set nor unset; see [virtualfs.URL.Flag].
func onOrOff(u *virtualfs.URL, options ...string) error {
	for _, o := range options {
		if v := u.Query.Get(o); !slices.Contains([]string{"", "1", "true", "0", "false"}, v) {
			return vfs.Errorf(vfs.Invalid, "%s=%s is not true or false; write %s, or leave it out", o, vfs.Printable(v), o)
		}
	}
	return nil
}

func noFragment(u *virtualfs.URL) error {
	if u.Fragment != "" {
		return vfs.Errorf(vfs.Invalid, "%s: takes nothing after #; a # in a path is written %%23", u.Scheme)
	}
	return nil
}
