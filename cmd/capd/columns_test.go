package main

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"capd/vfs/vfstest/check"
)

// Columns are aligned with and without colours.
func TestColumns(t *testing.T) {
	show := func(p painter, right bool) string {
		var out strings.Builder
		c := newColumns(&out)
		c.right = right
		fmt.Fprintln(c, "PATH\tURL\tMODE\t")
		fmt.Fprintf(c, "%s\tmemory:\tread-write\t%s\n", p.dir("a-long-path/"), p.faint("x"))
		fmt.Fprintf(c, "%s\tphysical:/a/b\t%s\n", p.link("日本"), p.good("ro"))
		fmt.Fprintln(c, "e\u0301\tx\ty")
		check.OK(t, c.Flush())
		return out.String()
	}
	plain := show(painter{}, false)
	if got, want := plain, `PATH          URL            MODE
a-long-path/  memory:        read-write  x
日本          physical:/a/b  ro
`+"e\u0301             x              y\n"; !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	if got, want := show(painter{}, true), `        PATH            URL        MODE
a-long-path/        memory:  read-write  x
        日本  physical:/a/b  ro
`+"           e\u0301              x  y\n"; !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	colours := regexp.MustCompile("\x1b\\[[0-9;]*m")
	painted := show(painter{on: true}, false)
	if got, want := colours.ReplaceAllString(painted, ""), plain; !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	if got := painted; reflect.DeepEqual(got, plain) {
		t.Fatalf("there are no colours: %v", got)
	}
}
