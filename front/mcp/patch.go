package mcp

import (
	"context"
	"fmt"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"capd/client"
	"capd/front/roots"
	"capd/vfs"
)

func applyPatch(ctx context.Context, s *service, a struct {
	Patch           string
	Reverse, DryRun bool
}) (answer, error) {
	text, top, err := s.roots.inPatch(a.Patch)
	if err != nil {
		return answer{}, err
	}
	d := s.dir
	if top != "" {
		d = d.SubDir(top)
		defer d.Close()
	}
	done, err := d.Patch(ctx, []byte(text), client.PatchOptions{Reverse: a.Reverse, DryRun: a.DryRun})
	if err != nil {
		return answer{}, vfs.At(top, err)
	}
	type file struct {
		Path    string `json:"path"`
		From    string `json:"from,omitempty"`
		Version string `json:"version,omitempty"`
	}
	files, out := []file{}, strings.Builder{}
	for _, r := range done {
		f := file{Path: s.roots.Out(strings.TrimPrefix(top+"/"+r.Path, "/"))}
		what := "changed"
		switch {
		case r.Version.IsZero():
			what = "removed"
		case r.From != "":
			f.From = s.roots.Out(strings.TrimPrefix(top+"/"+r.From, "/"))
			what = "made of " + f.From + ":"
		case r.Was.IsZero():
			what = "made"
		}
		if !r.Version.IsZero() && !a.DryRun {
			f.Version = r.Version.String()
		}
		files = append(files, f)
		fmt.Fprintf(&out, "%s %s\n", what, f.Path)
		if a.DryRun && r.Diff != "" {
			out.WriteString(fenced(r.Diff))
		}
	}
	js, err := jsonv2.Marshal(files)
	return answer{text: out.String(), fields: []field{{"files", js}}}, err
}

// patchHeaders begin lines of a patch that name a file.
var patchHeaders = []string{"*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: ", "--- ", "+++ "}

// inPatch returns a patch in which absolute paths are relative to the root that they are below, and where this root is. A patch is of one root: of
// the first, or of that of its absolute paths.
func (rs shown) inPatch(text string) (patch, top string, err error) {
	all, of := strings.SplitAfter(text, "\n"), -1
	for i, line := range all {
		for _, h := range patchHeaders {
			rest, ok := strings.CutPrefix(line, h+"/")
			name, end := "/"+rest, ""
			if at := strings.IndexAny(name, "\t\r\n"); at >= 0 {
				name, end = name[:at], name[at:]
			}
			if !ok || name == "/dev/null" {
				continue
			}
			root, below := rs.holding(name)
			switch {
			case below == "" && strings.HasPrefix(h, "***"):
				return "", "", roots.Outside{Sent: name, Roots: rs.Shown(", ")}
			case below == "": // a line that is removed or added, most likely
				continue
			case of >= 0 && root != of:
				return "", "", vfs.Errorf(vfs.Invalid, "a patch is of files below one directory; make one for each of %s", rs.Shown(" and "))
			}
			of, all[i] = root, h+below+end
		}
	}
	return strings.Join(all, ""), rs.Roots[max(of, 0)].At, nil
}

// holding returns the root that an absolute path is below, and the rest of the path; "" if it is below none.
func (rs shown) holding(name string) (root int, below string) {
	for i, r := range rs.Roots {
		if rest, ok := roots.Within(name, r.Shown); ok && rest != "" && (below == "" || len(rest) < len(below)) {
			root, below = i, rest
		}
	}
	return root, below
}
