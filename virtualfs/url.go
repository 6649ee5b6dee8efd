package virtualfs

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"capd/vfs"
)

// URL names a store: SCHEME:PATH?QUERY#FRAGMENT, as in git:/src/x?writable#main. In the
// path and the fragment a character may be written as % and two hexadecimal digits. %,
// ? and # in a path must be.
//
// An overlay contains the URL of the store below it: overlay:URL, or with options
// overlay:KEY=VALUE,KEY=VALUE:URL. The option keep has no value: overlay:keep:URL.
type URL struct {
	Scheme   string
	Path     string // decoded
	Query    url.Values
	Fragment string // decoded

	Below *URL // of an overlay; Query then has its options

	// Place is the path at which the store is being mounted. It is not part of the text.
	Place string
	// Base is what the store has to show in place of what it shows now: an earlier
	// Store.Base, on which changes that were kept are based. It is not part of the text.
	Base string
}

// keepOption says that the changes in a mount are there after a restart.
const keepOption = "keep"

// overlayScheme is the only scheme that this package knows.
const overlayScheme = "overlay"

var (
	schemeIs  = regexp.MustCompile(`^[a-z][a-z0-9]*$`)
	optionIs  = regexp.MustCompile(`^[a-z]+$`)
	optionsAt = regexp.MustCompile(`^([a-z]+=[^:]*|keep(,[^:]*)?):`)
)

// ParseURL parses a URL. It answers invalid.
func ParseURL(s string) (*URL, error) {
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok || !schemeIs.MatchString(scheme) {
		return nil, vfs.Errorf(vfs.Invalid, "a store is named by a URL, such as physical:DIR, git:REPO#REV or memory:?max=64MiB")
	}
	if scheme == overlayScheme {
		return parseOverlay(rest)
	}
	u := &URL{Scheme: scheme}
	rest, fragment, _ := strings.Cut(rest, "#")
	path, query, _ := strings.Cut(rest, "?")
	var err error
	if u.Path, err = decode(path); err != nil {
		return nil, err
	}
	if u.Fragment, err = decode(fragment); err != nil {
		return nil, err
	}
	u.Query, err = parseQuery(query, "&")
	return u, err
}

func parseOverlay(rest string) (*URL, error) {
	u := &URL{Scheme: overlayScheme, Query: url.Values{}}
	var err error
	if options := optionsAt.FindString(rest); options != "" {
		rest = rest[len(options):]
		if u.Query, err = parseQuery(strings.TrimSuffix(options, ":"), ","); err != nil {
			return nil, err
		}
	}
	if u.Below, err = ParseURL(rest); err != nil {
		return nil, vfs.Errorf(vfs.Invalid, "overlay: needs the URL of the tree below it, as in overlay:physical:DIR")
	}
	if u.Below.Scheme == overlayScheme {
		return nil, vfs.Errorf(vfs.Invalid, "an overlay cannot lie on an overlay; mount one of them")
	}
	return u, nil
}

func decode(s string) (string, error) {
	d, err := url.PathUnescape(s)
	if err != nil || strings.ContainsRune(d, 0) {
		return "", vfs.Errorf(vfs.Invalid, "in a URL, %% is followed by two hexadecimal digits; write %%25 for a %% itself")
	}
	return d, nil
}

func parseQuery(s, separator string) (url.Values, error) {
	q := url.Values{}
	for pair := range strings.SplitSeq(s, separator) {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		value, err := decode(value)
		if err != nil {
			return nil, err
		}
		if !optionIs.MatchString(key) {
			return nil, vfs.Errorf(vfs.Invalid, "%q is no option of a URL", pair)
		}
		if q.Has(key) {
			return nil, vfs.Errorf(vfs.Invalid, "the URL says %s twice", key)
		}
		q.Set(key, value)
	}
	return q, nil
}

// Only answers invalid for any other option.
func (u *URL) Only(options ...string) error {
	for key := range u.Query {
		if !slices.Contains(options, key) {
			return vfs.Errorf(vfs.Invalid, "%s: has no option %q; it has: %s", u.Scheme, key, strings.Join(options, ", "))
		}
	}
	return nil
}

// Flag reports whether an option is set, and neither 0 nor false.
func (u *URL) Flag(option string) bool {
	v := u.Query.Get(option)
	return u.Query.Has(option) && v != "0" && v != "false"
}

// String returns the URL in a form that ParseURL parses.
func (u *URL) String() string {
	var b strings.Builder
	b.WriteString(u.Scheme + ":")
	if u.Below != nil {
		b.WriteString(options(u.Query, ","))
		if len(u.Query) > 0 {
			b.WriteByte(':')
		}
		b.WriteString(u.Below.String())
		return b.String()
	}
	b.WriteString(encode(u.Path, "%?#"))
	if len(u.Query) > 0 {
		b.WriteString("?" + options(u.Query, "&"))
	}
	if u.Fragment != "" {
		b.WriteString("#" + encode(u.Fragment, "%"))
	}
	return b.String()
}

// options encodes q. In an overlay's options only keep goes without a value.
func options(q url.Values, separator string) string {
	var all []string
	for key := range q {
		pair := key
		if v := q.Get(key); v != "" || separator == "," && key != keepOption {
			pair += "=" + encode(v, "%&,:#")
		}
		all = append(all, pair)
	}
	slices.Sort(all)
	return strings.Join(all, separator)
}

// encode encodes bytes of s that are in special or do not print as %XX.
func encode(s, special string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == 0x7f || strings.IndexByte(special, c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
