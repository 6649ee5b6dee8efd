// Package help has the text that the help methods return: one page for each interface
// of the schemas, written for a reader who has never seen it.
//
// A page is Markdown: what the interface is, and then one section for each method,
// headed "## name". Pages for guests (Session, Dir, File, Writer, Sink, Revoker) do not
// mention what only a host can see.
package help

import (
	"embed"
	"slices"
	"strings"

	"capd/vfs"
)

//go:embed *.md
var files embed.FS

// page is the text of one interface.
type page struct {
	title    string // the interface's name
	text     string
	methods  []string          // in the order of the page
	sections map[string]string // by method
}

// pages has every page by its interface's name in lower case. It never changes.
var pages = load()

// Text returns the section on method in the page of iface, or the whole page if method
// is "". The case of iface does not matter ("Dir", "dir"). For an unknown interface or
// method it answers notFound and lists the known ones.
func Text(iface, method string) (string, error) {
	p, ok := pages[strings.ToLower(iface)]
	switch {
	case !ok:
		return "", vfs.Errorf(vfs.NotFound, "there is no help on such an interface; there is on %s", strings.Join(titles(), ", "))
	case method == "":
		return p.text, nil
	}
	text, ok := p.sections[method]
	if !ok {
		return "", vfs.Errorf(vfs.NotFound, "%s has no such method; it has %s", p.title, strings.Join(p.methods, ", "))
	}
	return text, nil
}

// Methods returns the methods in the page of iface, in its order, or none if there is
// no such page.
func Methods(iface string) []string { return slices.Clone(pages[strings.ToLower(iface)].methods) }

func titles() []string {
	var all []string
	for _, p := range pages {
		all = append(all, p.title)
	}
	slices.Sort(all)
	return all
}

func load() map[string]page {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // cannot happen: the files are part of the program
	}
	all := make(map[string]page)
	for _, e := range entries {
		text, err := files.ReadFile(e.Name())
		if err != nil {
			panic(err)
		}
		all[strings.TrimSuffix(e.Name(), ".md")] = parse(string(text))
	}
	return all
}

// parse splits a page at its headings. Each section gets the interface's name and says
// where the rest is, since it may be shown alone.
func parse(text string) page {
	intro, rest, _ := strings.Cut(text, "\n## ")
	title, _, _ := strings.Cut(strings.TrimPrefix(intro, "# "), "\n")
	p := page{title: title, text: text, sections: map[string]string{}}
	for part := range strings.SplitSeq(rest, "\n## ") {
		name, body, _ := strings.Cut(part, "\n")
		p.methods = append(p.methods, name)
		p.sections[name] = "# " + title + "." + name + "\n" + strings.TrimRight(body, "\n") +
			"\n\nThe whole page, with what all methods have in common: help(\"\").\n"
	}
	return p
}
