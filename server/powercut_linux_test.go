package server

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"capd/state"
	"capd/tests/powercut"
	"capd/vfs"
)

// journalVar names the state directory in which this process begins a journal, for
// TestPowerCutOfAJournal.
const journalVar = "CAPD_TEST_JOURNAL"

func init() {
	dir := os.Getenv(journalVar)
	if dir == "" {
		return
	}
	if err := beginOne(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func beginOne(ctx context.Context, dir string) error {
	st := state.Dir(dir)
	if err := st.Make(); err != nil {
		return err
	}
	j, err := newJournal(ctx, st, nil, nil, func(string, ...any) {})
	if err != nil {
		return err
	}
	if _, err := j.Replace(ctx, "intent", strings.NewReader("what will be done"), vfs.If{}); err != nil {
		return err
	}
	fmt.Println(j.path)
	return nil
}

// A batch relies on what it wrote to its journal. So the journal survives a power cut,
// with all directories that were made for it.
func TestPowerCutOfAJournal(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), journalVar+"="+filepath.Join(dir, "new", "state"))
	powercut.Run(t, dir, cmd).Each(t, func(left string, said []string) error {
		for _, path := range said {
			rel, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			b, err := os.ReadFile(filepath.Join(left, rel, "intent"))
			if err == nil && string(b) != "what will be done" {
				err = fmt.Errorf("the intent is %q", b)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
