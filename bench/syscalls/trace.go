package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
)

// traced are the system calls that are counted: those about files. read(2) and write(2) are left out, since the
// server uses them for its sockets too.
var traced = []string{
	"openat2", "openat", "statx", "newfstatat", "fstat", "name_to_handle_at", "readlinkat", "getdents64",
	"pread64", "preadv2", "pwrite64", "close", "fcntl", "fchmod", "fchown", "flistxattr", "fgetxattr", "fsetxattr", "ioctl",
	"renameat", "renameat2", "linkat", "unlinkat", "mkdirat", "fsync", "fdatasync", "sync_file_range",
}

// measure counts the system calls of the process pid while c is made many times. strace writes its report to
// file.
func measure(pid int, file string, times int, c call) (map[string]int, error) {
	if err := repeat(c.do, times); err != nil { // so that what is cached is there
		return nil, err
	}
	cmd := exec.Command("strace", "-f", "-c", "-o", file, "-e", "trace="+strings.Join(traced, ","), "-p", fmt.Sprint(pid))
	said, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(said)
	line, err := lines.ReadString('\n')
	if err != nil || !strings.Contains(line, "attached") {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, fmt.Errorf("strace did not attach: %s", cmp.Or(strings.TrimSpace(line), "it said nothing"))
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	failed := repeat(c.do, times)
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait() // it ends by the signal
	if failed != nil {
		return nil, failed
	}
	report, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parse(report), nil
}

func repeat(do func() error, times int) error {
	for range times {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// parse reads the report of strace -c: columns, of which the fourth is the number of calls and the last the
// name.
func parse(report []byte) map[string]int {
	counts := map[string]int{}
	for line := range bytes.Lines(report) {
		fields := strings.Fields(string(line))
		if len(fields) < 5 || !slices.Contains(traced, fields[len(fields)-1]) {
			continue
		}
		var n int
		if _, err := fmt.Sscan(fields[3], &n); err == nil {
			counts[fields[len(fields)-1]] = n
		}
	}
	return counts
}

// table is what was counted: a column for each call of a guest.
type table struct {
	names   []string
	columns []map[string]float64
}

func (t *table) add(name string, times int, counts map[string]int) {
	column := map[string]float64{}
	for call, n := range counts {
		column[call] = float64(n) / float64(times)
	}
	t.names = append(t.names, name)
	t.columns = append(t.columns, column)
}

// print prints a row for each system call that was made, the most frequent first.
func (t *table) print(w io.Writer, depth int) {
	total := map[string]float64{}
	for _, c := range t.columns {
		for call, n := range c {
			total[call] += n
		}
	}
	calls := slices.SortedFunc(maps.Keys(total), func(a, b string) int {
		if total[a] != total[b] {
			return int(100 * (total[b] - total[a]))
		}
		return strings.Compare(a, b)
	})
	out := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	defer out.Flush()
	fmt.Fprintf(out, "| depth %d\t| %s\t|\n|---\t|%s\n", depth, strings.Join(t.names, "\t| "), strings.Repeat("--:\t|", len(t.names)))
	for _, call := range append(calls, "all") {
		fmt.Fprintf(out, "| %s", call)
		for _, c := range t.columns {
			fmt.Fprintf(out, "\t| %s", number(c, call))
		}
		fmt.Fprintln(out, "\t|")
	}
}

// number returns how often a column has a call, or all calls together.
func number(column map[string]float64, call string) string {
	n := column[call]
	if call == "all" {
		for _, m := range column {
			n += m
		}
	}
	if n < 0.05 {
		return "–"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0")
}
