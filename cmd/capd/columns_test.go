package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
		require.NoError(t, c.Flush())
		return out.String()
	}
	plain := show(painter{}, false)
	require.Equal(t, `PATH          URL            MODE
a-long-path/  memory:        read-write  x
日本          physical:/a/b  ro
`+"e\u0301             x              y\n", plain)
	require.Equal(t, `        PATH            URL        MODE
a-long-path/        memory:  read-write  x
        日本  physical:/a/b  ro
`+"           e\u0301              x  y\n", show(painter{}, true))
	colours := regexp.MustCompile("\x1b\\[[0-9;]*m")
	painted := show(painter{on: true}, false)
	require.Equal(t, plain, colours.ReplaceAllString(painted, ""))
	require.NotEqual(t, plain, painted)
}
