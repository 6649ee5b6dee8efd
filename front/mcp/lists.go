package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"capd/client"
	"capd/vfs"
	"capd/vfs/search"
)

const excludes = `"excludePatterns":{"default":[],"type":"array","items":{"type":"string"}}`

var listTools = []tool{
	{
		name: "list_directory", title: "List Directory", about: "List a directory, with [FILE] or [DIR] before each name.", needs: client.List,
		hints: reads, in: onePath, required: "path", run: handler(listDirectory),
	},
	{
		name: "list_directory_with_sizes", title: "List Directory with Sizes", about: "List a directory with the sizes of files, and their sum.",
		needs: client.List | client.Metadata, hints: reads,
		in:       onePath + `,"sortBy":{"default":"name","description":"Sort entries by name or size","type":"string","enum":["name","size"]}`,
		required: "path", run: handler(listSizes),
	},
	{
		name: "directory_tree", title: "Directory Tree", needs: client.List,
		about: "Everything below a directory as JSON: name, type (file or directory), and children of a directory. excludePatterns leave out paths, relative to it.",
		hints: reads, in: onePath + "," + excludes, required: "path", run: handler(directoryTree),
	},
}

// maxListed is how many entries one answer has.
const maxListed = 100_000

func listed(ctx context.Context, s *service, sent string, withStat bool) (string, []client.Entry, error) {
	at, err := s.roots.In(sent)
	if err != nil {
		return "", nil, err
	}
	var all []client.Entry
	for e, err := range s.dir.WalkList(ctx, at, withStat) {
		if err != nil {
			return at, nil, vfs.At(at, err)
		}
		if len(all) == maxListed {
			return at, nil, vfs.At(at, vfs.Errorf(vfs.TooLarge, "the directory has more than %d entries; use search_files", maxListed))
		}
		all = append(all, e)
	}
	return at, all, nil
}

func listDirectory(ctx context.Context, s *service, a pathArgs) (answer, error) {
	_, all, err := listed(ctx, s, a.Path, false)
	if err != nil {
		return answer{}, err
	}
	var text strings.Builder
	for i, e := range all {
		if i > 0 {
			text.WriteByte('\n')
		}
		text.WriteString(prefix(e.Kind) + " " + vfs.Printable(e.Name))
	}
	return said(text.String()), nil
}

func listSizes(ctx context.Context, s *service, a struct{ Path, SortBy string }) (answer, error) {
	if a.SortBy != "" && a.SortBy != "name" && a.SortBy != "size" {
		return answer{}, vfs.Errorf(vfs.Invalid, "sortBy is name or size")
	}
	at, all, err := listed(ctx, s, a.Path, true)
	if err != nil {
		return answer{}, err
	}
	for i, e := range all { // the size is that of what a link leads to
		if e.Kind == vfs.LinkKind {
			all[i].Info, _ = s.dir.WalkStat(ctx, vfs.Join(at, e.Name), true)
		}
	}
	if a.SortBy == "size" {
		slices.SortStableFunc(all, func(a, b client.Entry) int { return cmp.Compare(b.Size, a.Size) })
	}
	var text strings.Builder
	var files, dirs int
	var size int64
	for _, e := range all {
		if e.Kind == vfs.DirKind {
			dirs++
			fmt.Fprintf(&text, "[DIR] %-30s \n", vfs.Printable(e.Name))
			continue
		}
		files++
		size += e.Size
		fmt.Fprintf(&text, "[FILE] %-30s %10s\n", vfs.Printable(e.Name), shownSize(e.Size))
	}
	fmt.Fprintf(&text, "\nTotal: %d files, %d directories\nCombined size: %s", files, dirs, shownSize(size))
	return said(text.String()), nil
}

// shownSize returns a size as the reference shows it.
func shownSize(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f := float64(n) / 1024
	for _, unit := range []string{"KB", "MB", "GB"} {
		if f < 1024 {
			return fmt.Sprintf("%.2f %s", f, unit)
		}
		f /= 1024
	}
	return fmt.Sprintf("%.2f TB", f)
}

// maxExcludes is how many patterns leave something out of a search.
const maxExcludes = 100

// maxTree is how many entries a directory_tree has, and how many a search finds.
const maxTree = 200_000

// below yields what is in the directory at path that matches pattern, as Dir.glob does, without what is in excludes or below it.
func below(ctx context.Context, s *service, at, pattern string, excludes []string, each func(path string, k vfs.Kind) error) error {
	out, err := excluding(excludes)
	if err != nil {
		return err
	}
	d := s.dir
	if at != "" {
		d = d.SubDir(at)
		defer d.Close()
	}
	n := 0
	for e, err := range d.Glob(ctx, pattern) {
		if _, some := errors.AsType[*client.Unlisted](err); some {
			return nil // the rest was found
		}
		if err != nil {
			return vfs.At(at, err)
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if out.path(e.Name) {
			continue
		}
		if n++; n > maxTree {
			return vfs.At(at, vfs.Errorf(vfs.TooLarge, "more than %d entries match; name a directory below, or exclude some", maxTree))
		}
		if err := each(e.Name, e.Kind); err != nil {
			return err
		}
	}
	return nil
}

// exclusion decides what is left out. In tree order a directory comes before what it holds, so it remembers the last directory.
type exclusion struct {
	patterns []*search.Pattern
	last     string // the directory that was left out, with "/" at its end
}

// excluding compiles patterns. One without * is for a name at any depth, too, as the reference has it.
func excluding(patterns []string) (*exclusion, error) {
	if len(patterns) > maxExcludes {
		return nil, vfs.Errorf(vfs.Limit, "excludePatterns has %d patterns; send at most %d", len(patterns), maxExcludes)
	}
	x := &exclusion{}
	for _, text := range patterns {
		all := []string{text}
		if !strings.Contains(text, "*") {
			all = append(all, "**/"+text)
		}
		for _, text := range all {
			p, err := search.Compile(text)
			if err != nil {
				return nil, vfs.Errorf(vfs.CodeOf(err), "excludePatterns: %s", vfs.Message(err))
			}
			x.patterns = append(x.patterns, p)
		}
	}
	return x, nil
}

func (x *exclusion) path(p string) bool {
	if len(x.patterns) == 0 {
		return false
	}
	if x.last != "" && strings.HasPrefix(p, x.last) {
		return true
	}
	for end := 0; end < len(p); { // a directory above may be left out although it did not match what is searched
		next := strings.IndexByte(p[end:], '/')
		if next < 0 {
			end = len(p)
		} else {
			end += next
		}
		if slices.ContainsFunc(x.patterns, func(q *search.Pattern) bool { return q.Match(p[:end]) }) {
			x.last = p[:end] + "/"
			return true
		}
		end++
	}
	return false
}

func directoryTree(ctx context.Context, s *service, a struct {
	Path            string
	ExcludePatterns []string
}) (answer, error) {
	at, err := s.roots.In(a.Path)
	if err != nil {
		return answer{}, err
	}
	t := treeText{}
	if err := below(ctx, s, at, "**", a.ExcludePatterns, t.add); err != nil {
		return answer{}, err
	}
	return said(t.end()), nil
}

// treeText writes entries that come in tree order as nested JSON, indented by two spaces as the reference does it.
type treeText struct {
	text []byte
	open []string // the directories on the way to the last entry, with "/" at their ends
	some []bool   // of the list at each depth: it has an entry
}

func (t *treeText) add(path string, k vfs.Kind) error {
	if len(t.some) == 0 {
		t.text, t.some = append(t.text, '['), []bool{false}
	}
	if cap(t.text)-len(t.text) < 4<<10 { // append would copy a long text many times
		t.text = slices.Grow(t.text, len(t.text)+64<<10)
	}
	for len(t.open) > 0 && !strings.HasPrefix(path, t.open[len(t.open)-1]) {
		t.close()
	}
	depth := len(t.open)
	if t.some[depth] {
		t.text = append(t.text, ',')
	}
	t.some[depth] = true
	t.line(2*depth + 1)
	t.text = append(t.text, '{')
	t.line(2*depth + 2)
	t.text = appendQuoted(append(t.text, `"name": `...), vfs.Printable(path[strings.LastIndexByte(path, '/')+1:]))
	t.text = append(t.text, ',')
	t.line(2*depth + 2)
	if k != vfs.DirKind {
		t.text = append(t.text, `"type": "file"`...)
		t.line(2*depth + 1)
		t.text = append(t.text, '}')
		return nil
	}
	t.text = append(t.text, `"type": "directory",`...)
	t.line(2*depth + 2)
	t.text = append(t.text, `"children": [`...)
	t.open, t.some = append(t.open, path+"/"), append(t.some, false)
	return nil
}

// close ends the innermost directory.
func (t *treeText) close() {
	depth := len(t.open)
	if t.some[depth] {
		t.line(2 * depth)
	}
	t.text = append(t.text, ']')
	t.line(2*depth - 1)
	t.text = append(t.text, '}')
	t.open, t.some = t.open[:depth-1], t.some[:depth]
}

func (t *treeText) end() string {
	if len(t.some) == 0 {
		return "[]"
	}
	for len(t.open) > 0 {
		t.close()
	}
	return string(append(t.text, "\n]"...))
}

const spaces = "                                "

func (t *treeText) line(indent int) {
	t.text = append(t.text, '\n')
	for ; indent > len(spaces)/2; indent -= len(spaces) / 2 {
		t.text = append(t.text, spaces...)
	}
	t.text = append(t.text, spaces[:2*indent]...)
}

var findTools = []tool{
	{
		name: "search_files", title: "Search Files", needs: client.List,
		about: "Find files and directories by a glob pattern for their paths, relative to path: *.ext there, **/*.ext at any depth. For contents use grep.",
		hints: reads, in: onePath + `,"pattern":{"type":"string"},` + excludes, required: "path pattern", run: handler(searchFiles),
	},
	{
		name: "get_file_info", title: "Get File Info", about: "Size, time of modification, type, whether a file can be executed, and its version.",
		needs: client.Metadata, hints: reads, in: onePath, required: "path", out: versioned, run: handler(fileInfo),
	},
	{
		name: "list_allowed_directories", title: "List Allowed Directories", about: "The directories that can be used, with everything below them.",
		hints: reads, run: handler(allowed),
	},
}

func searchFiles(ctx context.Context, s *service, a struct {
	Path, Pattern   string
	ExcludePatterns []string
}) (answer, error) {
	at, err := s.roots.In(a.Path)
	if err != nil {
		return answer{}, err
	}
	var text strings.Builder
	err = below(ctx, s, at, a.Pattern, a.ExcludePatterns, func(path string, _ vfs.Kind) error {
		if text.Len() > 0 {
			text.WriteByte('\n')
		}
		text.WriteString(s.roots.Out(vfs.Join(at, path)))
		return nil
	})
	if err != nil {
		return answer{}, err
	}
	if text.Len() == 0 {
		return said("No matches found"), nil
	}
	return said(text.String()), nil
}

func fileInfo(ctx context.Context, s *service, a pathArgs) (answer, error) {
	at, err := s.roots.In(a.Path)
	if err != nil {
		return answer{}, err
	}
	info, err := s.stat(ctx, at)
	if err != nil {
		return answer{}, vfs.At(at, err)
	}
	isDir, permissions := info.Kind == vfs.DirKind, "644"
	if isDir || info.Exec {
		permissions = "755"
	}
	text := fmt.Sprintf("size: %d\nmodified: %s\nisDirectory: %v\nisFile: %v\npermissions: %s", info.Size,
		time.UnixMilli(info.ModifiedMs).UTC().Format("Mon Jan 02 2006 15:04:05 GMT+0000 (Coordinated Universal Time)"), isDir, info.Kind == vfs.FileKind, permissions)
	if info.Kind != vfs.FileKind {
		return said(text), nil
	}
	v, err := s.version(ctx, at)
	if err != nil { // without the right to read there is none
		return said(text), nil
	}
	return said(text + "\nversion: " + v.String()).with(v), nil
}

func (s *service) stat(ctx context.Context, at string) (vfs.Info, error) {
	if at == "" {
		return s.dir.Stat(ctx)
	}
	return s.dir.WalkStat(ctx, at, true)
}

func (s *service) version(ctx context.Context, at string) (vfs.Version, error) {
	f := s.dir.OpenFile(at)
	defer f.Close()
	return vfs.VersionOf(ctx, f)
}

func allowed(_ context.Context, s *service, _ struct{}) (answer, error) {
	return said("Allowed directories:\n" + s.roots.Shown("\n")), nil
}

func prefix(k vfs.Kind) string {
	if k == vfs.DirKind {
		return "[DIR]"
	}
	return "[FILE]"
}
