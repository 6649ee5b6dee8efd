package database

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"capd/state"
	"capd/vfs/vfstest/check"
)

// writesEnv makes TestFsyncsOfAWrite write that often and end.
const writesEnv = "CAPD_TEST_WRITES"

// A write costs one fsync, and nothing waits for another. strace counts them in a process of its own.
func TestFsyncsOfAWrite(t *testing.T) {
	if n, err := strconv.Atoi(os.Getenv(writesEnv)); err == nil {
		writeMany(t, n)
		return
	}
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed")
	}
	const few, many = 10, 110
	if each := float64(fsyncs(t, many)-fsyncs(t, few)) / (many - few); each < 0.9 || each > 1.1 {
		t.Errorf("a write costs %.2f fsyncs, not 1", each)
	}
}

func writeMany(t *testing.T, n int) {
	db, err := Open(state.Dir(t.TempDir()), Options{})
	check.OK(t, err)
	defer db.Close()
	for i := range n {
		check.OK(t, db.Write(func(tx *Tx) error {
			_, err := tx.Exec("INSERT INTO meta(key, value) VALUES('test', ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value", i)
			return err
		}))
	}
}

// fsyncs returns how many fsync and fdatasync a process makes that writes n times.
func fsyncs(t *testing.T, n int) int {
	t.Helper()
	cmd := exec.Command("strace", "-f", "-e", "trace=fsync,fdatasync", os.Args[0], "-test.run=^TestFsyncsOfAWrite$", "-test.count=1")
	cmd.Env = append(os.Environ(), writesEnv+"="+strconv.Itoa(n))
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return bytes.Count(text, []byte("sync("))
}
