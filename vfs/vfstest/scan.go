package vfstest

import (
	"context"
	"slices"

	"capd/vfs"
)

// testScan compares what Scan answers with what the directories list.
func testScan(w *world) {
	w.make(sample)
	s, ok := w.root.(vfs.Scanner)
	if !ok {
		return // it is optional
	}
	var names []string
	for e, err := range w.root.List(w.ctx) {
		w.ok("List", err)
		names = append(names, e.Name)
	}
	names = append(names, "missing", "..", "")
	for _, most := range []int{0, 1, 1000} {
		var asked []string
		err := s.Scan(w.ctx, names, most, func(name string, got []vfs.Entry, known bool) {
			asked = append(asked, name)
			n, err := w.root.Lookup(w.ctx, name)
			d, isDir := n.(vfs.Dir)
			switch {
			case err != nil || !isDir:
				if known {
					w.Errorf("Scan says what %q lists, which is no directory: %v", name, got)
				}
				return
			case !known:
				if all, err := list(w.ctx, d); err == nil && len(all) <= most {
					w.Errorf("Scan does not say what %s lists, with %d entries of %d", name, len(all), most)
				}
				return
			}
			all, err := list(w.ctx, d)
			w.ok("List "+name, err)
			if len(got) > most || !slices.Equal(got, all) {
				w.Errorf("Scan of %s, at most %d: %v; List: %v", name, most, got, all)
			}
		})
		if vfs.CodeOf(err) == vfs.Unsupported {
			return
		}
		w.ok("Scan", err)
		rest := names // it answers in the order of names, and may skip withheld names
		for _, name := range asked {
			i := slices.Index(rest, name)
			if i < 0 {
				w.Errorf("Scan told of %q, asked for %q", asked, names)
				break
			}
			rest = rest[i+1:]
		}
	}
}

// testAny compares what Any finds with what List yields.
func testAny(w *world) {
	w.make(sample)
	all, err := list(w.ctx, w.root)
	w.ok("List", err)
	asked := map[vfs.Entry]bool{}
	found, err := vfs.Any(w.ctx, w.root, func(e vfs.Entry) bool {
		if asked[e] || !slices.Contains(all, e) {
			w.Errorf("Any asks about %v, of %v", e, all)
		}
		asked[e] = true
		return false
	})
	if w.ok("Any", err); found || len(asked) != len(all) {
		w.Errorf("Any asks about %d entries of %d, and finds one that is not: %v", len(asked), len(all), found)
	}
	for _, want := range all {
		times := 0
		found, err := vfs.Any(w.ctx, w.root, func(e vfs.Entry) bool {
			if times > 0 {
				w.Errorf("Any asks on after %v", want)
			}
			if e == want {
				times++
			}
			return e == want
		})
		if w.ok("Any", err); !found {
			w.Errorf("Any does not find %v", want)
		}
	}
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	if _, err := vfs.Any(ctx, w.root, func(vfs.Entry) bool { return false }); err == nil {
		w.Errorf("Any does not end with its context")
	}
}

// testWalkList compares what WalkList answers with what the directory lists and its entries say.
func testWalkList(w *world) {
	w.make(sample)
	d, ok := w.root.(vfs.ListWalker)
	if !ok {
		return // it is for remote directories
	}
	for _, path := range []string{"", "d", "d/e", "hollow"} {
		dir := w.root
		if path != "" {
			dir = w.dir(path)
		}
		want, err := list(w.ctx, dir)
		w.ok("List", err)
		for _, withInfo := range []bool{false, true} {
			n := 0
			for e, err := range d.WalkList(w.ctx, path, withInfo) {
				w.ok("WalkList", err)
				if n >= len(want) || want[n] != (vfs.Entry{Name: e.Name, Kind: e.Kind}) || e.Known != withInfo {
					w.Fatalf("WalkList of %q, with Info %v: entry %d is %+v of %v", path, withInfo, n, e, want)
				}
				n++
				if !withInfo {
					continue
				}
				if info, err := w.at(vfs.Join(path, e.Name)).Stat(w.ctx); err != nil || info != e.Info {
					w.Errorf("WalkList of %q says of %s %+v, and Stat %+v (%v)", path, e.Name, e.Info, info, err)
				}
			}
			if n != len(want) {
				w.Errorf("WalkList of %q has %d entries of %v", path, n, want)
			}
		}
	}
	for path, code := range map[string]vfs.Code{"f": vfs.NotDir, "missing": vfs.NotFound, "../d": vfs.Invalid} {
		n := 0
		for _, err := range d.WalkList(w.ctx, path, true) {
			n++
			if vfs.CodeOf(err) != code {
				w.Errorf("WalkList of %q: %v, want %v", path, err, code)
			}
		}
		if n != 1 {
			w.Errorf("WalkList of %q yields %d times", path, n)
		}
	}
}
