package tests

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// usage is what a process uses of the system.
type usage struct {
	files int
	rssKB int
}

func (u usage) String() string {
	return fmt.Sprintf("%5d descriptors, %4d MiB resident", u.files, u.rssKB>>10)
}

// usageOf reads the usage of a process from /proc.
func usageOf(t *testing.T, pid string) usage {
	t.Helper()
	b, err := os.ReadFile("/proc/" + pid + "/status")
	ok(t, err)
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	rss, err := strconv.Atoi(strings.Fields(rest)[0])
	ok(t, err)
	return usage{openFiles(pid), rss}
}
