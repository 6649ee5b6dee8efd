package patch

import (
	"strings"

	"capd/vfs"
)

// Result is what a patch has made of one path, for whoever sent it.
type Result struct {
	Path    string      `json:"path"`
	From    string      `json:"from,omitempty"` // where the content was, of a renamed or copied file
	Version vfs.Version `json:"-"`              // zero for a file that was removed
	Was     vfs.Version `json:"-"`              // zero for none
	Diff    string      `json:"diff,omitempty"` // "" for contents that are not text, or too long
	Changed []Range     `json:"changed"`        // the lines that were changed, as far as Diff shows them
}

// Range is consecutive lines, counted from 1. A Count of 0 is the place before First, where lines were removed.
type Range struct {
	First int `json:"first"`
	Count int `json:"count"`
}

// Changed returns the lines that a unified diff of one file says were changed, as they are afterwards.
func Changed(diff string) (all []Range) {
	p, err := Parse([]byte(diff))
	if err != nil {
		return nil
	}
	for _, f := range p.Files {
		for _, h := range f.Hunks {
			all = append(all, h.changed()...)
		}
	}
	return all
}

func (h *Hunk) changed() (all []Range) {
	at := max(h.new, 1)
	for i := 0; i < len(h.lines); {
		if h.lines[i].op == ' ' {
			at++
			i++
			continue
		}
		r := Range{First: at}
		for ; i < len(h.lines) && h.lines[i].op != ' '; i++ {
			if h.lines[i].op == '+' {
				r.Count++
			}
		}
		at += r.Count
		all = append(all, r)
	}
	return all
}

// Stat returns how many lines a unified diff adds and removes.
func Stat(diff string) (added, removed int) {
	p, err := Parse([]byte(diff))
	if err != nil {
		return 0, 0
	}
	for _, f := range p.Files {
		for _, h := range f.Hunks {
			for _, l := range h.lines {
				added += strings.Count(string(l.op), "+")
				removed += strings.Count(string(l.op), "-")
			}
		}
	}
	return added, removed
}
