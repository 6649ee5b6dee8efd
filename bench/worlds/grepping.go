package worlds

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"capd/backend/physical"
	"capd/client"
	"capd/vfs/deny"
	"capd/vfs/grep"
	"capd/vfs/membrane"
)

// grepped are the kinds of expression that are searched for. Each has a line of its own in every 50th file.
var grepped = []struct {
	name, pattern, line string
	target              float64
}{
	{"a literal", `ErrLeaseExpired`, "\treturn nil, ErrLeaseExpired", 1.0},
	{"one literal in an expression", `func \w+Handler`, "func renewHandler(w io.Writer) {", 1.0},
	{"alternatives", `TODO|FIXME|XXX`, "\t// FIXME: the lease may end here", 1.2},
	{"no literal", `[a-z]{3}\d{4}`, "\tkey := table[abc1234]", 1.5},
	{"ignoring case", `(?i)copyright notice`, "// The Copyright Notice of this file", 1.7},
}

// hitEvery is how many files there are for each that a pattern matches in.
const hitEvery = 50

// grepping measures searching the contents of files. The figure is the time of the CPUs, since rg searches with
// all of them; over the wire it is the time that passes.
func grepping(o Options, s *sizes, dir string) world {
	rg := findRg()
	var locator string
	var served func() error
	want := make([][]string, len(grepped))
	var rows []row
	byRg := func(i int) *contender {
		return &contender{name: "rg -uu -n", missing: rg.missing, run: func(ctx context.Context) (func() error, error) {
			out, err := rg.run(ctx, dir, "-uu", "-n", grepped[i].pattern)
			return func() error { return same(placesOf(out), want[i]) }, err
		}}
	}
	for i, kind := range grepped {
		floor, capd := byRg(i), &contender{name: "grep.Search", run: func(ctx context.Context) (func() error, error) {
			places, err := grepDir(ctx, dir, kind.pattern)
			return func() error { return same(places, want[i]) }, err
		}}
		floor.cpu, capd.cpu = cpuOfChildren, cpuOfSelf
		rows = append(rows, row{name: fmt.Sprintf("grep %s over %s files, in Go, CPU", kind.name, count(s.grepped())), floor: floor, capd: capd, target: kind.target})
	}
	overWire := &contender{name: "client.Dir.Grep", run: func(ctx context.Context) (func() error, error) {
		conn, err := client.Dial(ctx, locator)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		var places []string
		for f, err := range conn.Dir(ctx).SubDir(o.Served).Grep(ctx, client.Grep{Pattern: grepped[0].pattern}) {
			if err != nil {
				return nil, err
			}
			for _, l := range f.Lines {
				places = append(places, fmt.Sprint(f.Path, ":", l.Number))
			}
		}
		return func() error { return same(places, want[0]) }, nil
	}}
	rows = append(rows, row{name: fmt.Sprintf("grep a literal over %s files, %s hits, over the wire", count(s.grepped()), count((s.grepped()+hitEvery-1)/hitEvery)), floor: byRg(0), capd: overWire, target: 1.3})
	return world{
		rows: rows,
		long: true,
		setup: func(ctx context.Context) (err error) {
			if want, err = plantText(dir, s.grepped()); err != nil {
				return err
			}
			locator, served, err = o.Serve(ctx, dir)
			return err
		},
		close: func() error {
			if served == nil {
				return nil
			}
			return served()
		},
	}
}

// cpuOfSelf and cpuOfChildren are what a contender's cpu is.
const (
	cpuOfSelf     = 1 + iota // the time of the CPUs in this process
	cpuOfChildren            // and in programs that it ran
)

// cpuTime returns how long the CPUs have worked, in nanoseconds.
func cpuTime(of int) (int64, error) {
	who := syscall.RUSAGE_SELF
	if of == cpuOfChildren {
		who = syscall.RUSAGE_CHILDREN
	}
	var u syscall.Rusage
	err := syscall.Getrusage(who, &u)
	return u.Utime.Nano() + u.Stime.Nano(), err
}

// placesOf returns the sorted paths and line numbers of what rg prints.
func placesOf(out []byte) (places []string) {
	for line := range bytes.Lines(out) {
		parts := strings.SplitN(string(line), ":", 3)
		if len(parts) < 3 {
			places = append(places, string(line))
			continue
		}
		places = append(places, strings.TrimPrefix(parts[0], "./")+":"+parts[1])
	}
	return places
}

// grepDir opens dir and searches it, as a host does: without what it withholds by default.
func grepDir(ctx context.Context, dir, pattern string) (places []string, err error) {
	store, err := physical.OpenAmbient(dir, physical.Options{})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	root := membrane.Guarded(store.ReadOnlyRoot(), nil, deny.Must(deny.Secrets...).Guard())
	defer root.Close()
	p, err := grep.Compile(pattern, grep.Syntax{})
	if err != nil {
		return nil, err
	}
	_, _, err = grep.Search{Pattern: p, Show: grep.Show{LineBytes: grep.LineBytes}, Found: func(f grep.File) {
		for _, l := range f.Lines {
			places = append(places, fmt.Sprint(f.Path, ":", l.Number))
		}
	}}.In(ctx, root)
	return places, err
}

// plantText makes n files that look like a program's text, of 4 KiB on average, 40 per directory. It returns
// where each of grepped matches.
func plantText(dir string, n int) (want [][]string, err error) {
	const each = 40
	r := rand.New(rand.NewPCG(1, 2))
	lines := textLines(r)
	want = make([][]string, len(grepped))
	var b bytes.Buffer
	for i := range n {
		d := i / each
		sub := fmt.Sprintf("module%02d/package%02d/part%d", d/100, d/10%10, d%10)
		if i%each == 0 {
			if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
				return nil, err
			}
		}
		name := path.Join(sub, fmt.Sprintf("file%06d.go", i))
		b.Reset()
		number := 0
		for size := 1<<10 + r.IntN(6<<10); b.Len() < size; number++ {
			b.WriteString(lines[r.IntN(len(lines))])
		}
		if i%hitEvery == 0 {
			for k, g := range grepped {
				number++
				fmt.Fprintln(&b, g.line)
				want[k] = append(want[k], fmt.Sprint(name, ":", number))
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil {
			return nil, err
		}
	}
	for _, places := range want {
		slices.Sort(places)
	}
	return want, nil
}

// textLines returns lines of which texts are made. None of grepped matches in them.
func textLines(r *rand.Rand) (lines []string) {
	words := strings.Fields(`if err != nil return func for range type struct string error context the of a file is that it lease
		expired writer handler reader notice copyright of := = ( ) { } // ctx open close path names 12 340 7 0x1f todo list node
		Expired Handler Renew Until Err table key value offset length buffer append make len switch case default`)
	for range 4096 {
		var line strings.Builder
		line.WriteString(strings.Repeat("\t", r.IntN(4)))
		for range 1 + r.IntN(10) {
			line.WriteString(words[r.IntN(len(words))] + " ")
		}
		text := strings.ReplaceAll(line.String(), "copyright notice", "copyright")
		lines = append(lines, strings.TrimRight(text, " ")+"\n")
	}
	return lines
}
