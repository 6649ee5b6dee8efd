package config

import (
	"regexp"
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"capd/operator"
	"capd/vfs"
	"capd/vfs/deny"
)

// Syntax of texts. The schema has the same.
var (
	tlsAddress = regexp.MustCompile(`^tls:(?:[A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?\]):([0-9]{1,5})$`)
	advertised = regexp.MustCompile(`^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([1-9][0-9]{0,4}))?$`)
	socketMode = regexp.MustCompile(`^0?6[0246][0246]$`)
	schemeAt   = regexp.MustCompile(`^[a-z][a-z0-9]+:`) // one letter is a drive
)

func (r *reader) config(n ast.Node) *Config {
	c := &Config{}
	mounts, guests, invited, files := map[string]place{}, map[string]place{}, map[string]place{}, map[string]place{}
	all := &roots{ids: map[string]place{}, mounts: map[string]place{}, kinds: map[string]string{}, drafted: map[string]bool{}}
	r.mapping(n, "the file",
		key{"state", "", r.text("state", &c.State, r.some("state", "a directory, or leave it out for the usual one"))},
		key{"listen", "", r.texts("listen", &c.Listen, r.checkListen)},
		key{"advertise", "", r.text("advertise", &c.Advertise, r.checkAdvertise)},
		key{"socketMode", "", r.text("socketMode", &c.SocketMode, func(at place, s string) {
			if !socketMode.MatchString(s) {
				r.mistake(at, "socketMode is %s; write an octal number in quotes, \"0660\" for a group, \"0666\" for every user of the machine", quote(s))
			}
		})},
		key{"socketGroup", "", r.text("socketGroup", &c.SocketGroup, r.some("socketGroup", "a group's name, or leave it out"))},
		key{"socketDir", "", r.text("socketDir", &c.SocketDir, r.some("socketDir", "a directory, or leave it out for the usual one"))},
		key{"limits", "", r.limits("limits", &c.Limits)},
		key{"guestLimits", "", r.limits("guestLimits", &c.GuestLimits)},
		key{"record", "", r.record(&c.Record)},
		key{"history", "", r.history(&c.History)},
		key{"mounts", "mounts: and at least one mount, with path and url", func(n ast.Node) {
			r.list(n, "mounts", func(n ast.Node) { c.Mounts = append(c.Mounts, r.mount(n, mounts)) })
			if s, ok := n.(*ast.SequenceNode); ok && len(s.Values) == 0 {
				r.mistake(placeOf(n), "mounts is empty; write at least one mount, with path and url")
			}
		}},
		key{"roots", "", func(n ast.Node) {
			r.list(n, "roots", func(n ast.Node) { c.Roots = append(c.Roots, r.root(n, all)) })
		}},
		key{"policy", "", r.policy(&c.Policy)},
		key{"rules", "", func(n ast.Node) {
			r.list(n, "rules", func(n ast.Node) { c.Rules = append(c.Rules, r.rule(n)) })
		}},
		key{"approvals", "", r.word("approvals", &c.Approvals, ApprovalsListen, ApprovalsWait)},
		key{"hooks", "", func(n ast.Node) {
			hooks := map[string]place{}
			r.list(n, "hooks", func(n ast.Node) { c.Hooks = append(c.Hooks, r.hook(n, hooks)) })
		}},
		key{"guests", "", func(n ast.Node) {
			r.list(n, "guests", func(n ast.Node) { c.Guests = append(c.Guests, r.guest(n, guests, files, all)) })
		}},
		key{"invites", "", func(n ast.Node) {
			r.list(n, "invites", func(n ast.Node) { c.Invites = append(c.Invites, r.invite(n, invited, files)) })
		}},
	)
	r.rooted(c, all)
	return c
}

func (r *reader) mount(n ast.Node, others map[string]place) Mount {
	m := Mount{Links: LinksFollow, Where: r.where(placeOf(n))}
	r.mapping(n, "a mount",
		key{"path", "where guests see it, such as path: project", r.text("path", &m.Path, func(at place, s string) {
			if !r.checkPath(at, s, vfs.CheckNewName) {
				return
			}
			if operator.InScopes(s) {
				r.mistake(at, "the host mounts what is for one guest alone below %s; write another path", operator.ScopesDir)
				return
			}
			if other, taken := others[s]; taken {
				r.mistake(at, "the mount in line %d is at %s too; write another path", other.line, quote(s))
				return
			}
			others[s] = at
		})},
		key{"url", "what is mounted, such as url: physical:DIR", r.text("url", &m.URL, func(at place, s string) {
			if !schemeAt.MatchString(s) {
				r.mistake(at, "%s does not say what kind of store it is; write a URL such as physical:DIR, git:REPO#REV or memory:?max=64MiB", quote(s))
			}
		})},
		key{"readOnly", "", r.flag("readOnly", &m.ReadOnly)},
		key{"links", "", r.text("links", &m.Links, func(at place, s string) {
			if s != LinksFollow && s != LinksRefuse {
				r.mistake(at, "links is %s; write follow or refuse", quote(s))
			}
		})},
		key{"deny", "", r.texts("deny", &m.Deny, r.checkPattern)},
		key{"ask", "", r.texts("ask", &m.Ask, r.checkPattern)},
		key{"quota", "", r.quota(&m.Quota)},
	)
	return m
}

func (r *reader) guest(n ast.Node, others, files map[string]place, all *roots) Guest {
	g := Guest{Where: r.where(placeOf(n))}
	r.mapping(n, "a guest",
		key{"name", "a name, such as name: agent", r.text("name", &g.Name, func(at place, s string) {
			subject, err := operator.ParseSubject(s)
			other, taken := others[subject.Name()]
			switch {
			case err != nil:
				r.mistake(at, "%s: %s", quote(s), vfs.Message(err))
			case taken:
				r.mistake(at, "the guest in line %d is called %s too; write another name", other.line, quote(subject.Name()))
			default:
				others[subject.Name()] = at
			}
		})},
		key{"root", "", r.text("root", &g.Root, func(at place, s string) { all.named = append(all.named, named{s, at}) })},
		key{"path", "", r.text("path", &g.Path, func(at place, s string) { r.checkPath(at, s, vfs.CheckName) })},
		key{"readOnly", "", r.flag("readOnly", &g.ReadOnly)},
		key{"rights", "", r.rights(&g.Rights)},
		key{"links", "", r.flag("links", &g.Links)},
		key{"permissions", "", r.permissions(&g.Permissions)},
		key{"beyondDefault", "", r.flag("beyondDefault", &g.BeyondDefault)},
		key{"scratch", "", r.scratch(&g.Scratch)},
		key{"limits", "", r.limits("limits", &g.Limits)},
		key{"expires", "", r.text("expires", new(string), r.span("expires", &g.Expires))},
		key{"unused", "", r.text("unused", new(string), r.span("unused", &g.Unused))},
		key{"uses", "", func(n ast.Node) { g.Uses = r.number(n, "uses", "a whole number from 1, in digits", "any number") }},
		key{"locatorFile", "", r.text("locatorFile", &g.LocatorFile, r.locatorFile(files))},
	)
	if g.Scratch.Bytes > 0 && g.Root == "" {
		r.mistake(placeOf(n), "scratch is beside a workspace; write the id of a root of that kind as root, or leave scratch out")
	}
	if len(g.Permissions) > 0 && g.Root == "" && g.Path == "" {
		r.mistake(placeOf(n), "without root and path this guest gets all of the tree, and permissions give nothing besides; write root or path, or write it under invites")
	}
	return g
}

func (r *reader) scratch(s *Scratch) func(ast.Node) {
	return func(n ast.Node) {
		r.mapping(n, "scratch", key{"bytes", "how much the guest may keep, such as bytes: 1GiB", func(n ast.Node) {
			s.Bytes = r.bytes(n, "bytes", "a whole number of bytes from 1, such as 1024 or 64MiB", "no scratch")
		}})
	}
}

func (r *reader) quota(q *Quota) func(ast.Node) {
	return func(n ast.Node) {
		r.mapping(n, "quota",
			key{"bytes", "", func(n ast.Node) {
				q.Bytes = r.bytes(n, "bytes", "a whole number of bytes from 1, such as 1024 or 64MiB", "no bound")
			}},
			key{"nodes", "", func(n ast.Node) { q.Nodes = r.number(n, "nodes", "a whole number from 1, in digits", "no bound") }},
		)
	}
}

// checkPath reports whether s is a path in the tree with valid names, or "" for its
// root.
func (r *reader) checkPath(at place, s string, name func(string) error) bool {
	if s == "" {
		return true
	}
	names, err := vfs.SplitPath(s)
	for _, n := range names {
		if err == nil {
			err = name(n)
		}
	}
	if err != nil {
		r.mistake(at, "path is %s: %s; write names with / between them, such as src/lib", quote(s), vfs.Message(err))
	}
	return err == nil
}

// some returns a check that a text is not empty. write is what to write instead.
func (r *reader) some(key, write string) func(at place, s string) {
	return func(at place, s string) {
		if s == "" {
			r.mistake(at, "%s is empty; write %s", key, write)
		}
	}
}

func (r *reader) checkPattern(at place, s string) {
	if _, err := deny.Compile(s); err != nil {
		r.mistake(at, "the pattern is %s: %s; write one such as **/.env or build/**", quote(s), vfs.Message(err))
	}
}

func (r *reader) checkListen(at place, s string) {
	if m := tlsAddress.FindStringSubmatch(s); m == nil || !port(m[1]) {
		r.mistake(at, "%s is not an address to listen at; write tls:HOST:PORT, such as tls:localhost:7000, tls:[::1]:7000 or tls::0 (every address, any port)", quote(s))
	}
}

func (r *reader) checkAdvertise(at place, s string) {
	if m := advertised.FindStringSubmatch(s); m == nil || m[1] != "" && !port(m[1]) {
		r.mistake(at, "%s is not where guests find this host; write HOST or HOST:PORT, an IPv6 address in brackets", quote(s))
	}
}

func port(digits string) bool {
	_, err := strconv.ParseUint(digits, 10, 16)
	return err == nil
}
