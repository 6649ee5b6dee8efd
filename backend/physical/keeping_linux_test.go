package physical_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"capd/backend/physical"
	"capd/vfs"
)

func init() { other["fewDescriptors"] = func(args []string) { fmt.Print(fewDescriptors(args[0])) } }

// TestOutOfDescriptors: files that are kept open are closed before anybody is told that
// there is no descriptor.
func TestOutOfDescriptors(t *testing.T) {
	w := serve(t, physical.Options{})
	for i := range 40 {
		w.write(fmt.Sprint("f", i), "inside")
	}
	time.Sleep(25 * time.Millisecond) // so that files are old enough to be kept open
	cmd := program("fewDescriptors", w.dir)
	out, err := cmd.Output()
	if said := string(out); err != nil || !strings.HasSuffix(said, "all well") {
		t.Errorf("%s, %v", said, err)
	} else {
		t.Log(said)
	}
}

// fewDescriptors reports the result, in a process of its own.
func fewDescriptors(dir string) string {
	ctx := context.Background()
	s, err := physical.OpenAmbient(dir, physical.Options{MaxDescriptors: 40})
	if err != nil {
		return err.Error()
	}
	root := s.Root()
	read := func(name string) error {
		n, err := root.Lookup(ctx, name)
		if err != nil {
			return err
		}
		for range 2 {
			if _, err := n.(vfs.File).ReadAt(ctx, make([]byte, 6), 0); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range 30 {
		if err := read(fmt.Sprint("f", i)); err != nil {
			return err.Error()
		}
	}
	kept := s.Stats().Descriptors
	limit := unix.Rlimit{Cur: 128, Max: 128}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err.Error()
	}
	for err == nil {
		_, err = unix.Dup(0)
	}
	for i := 30; i < 40; i++ {
		if err := read(fmt.Sprint("f", i)); err != nil {
			return fmt.Sprintf("%d were kept; a read without a descriptor left: %v", kept, err)
		}
	}
	if _, err := root.Replace(ctx, "new", strings.NewReader("inside"), vfs.If{}); err != nil {
		return fmt.Sprintf("a put without a descriptor left: %v", err)
	}
	if _, err := os.Open(dir); kept < 30 || err != nil {
		return fmt.Sprintf("vacuous: %d were kept; %v", kept, err)
	}
	return fmt.Sprintf("%d were kept, and %d are; all well", kept, s.Stats().Descriptors)
}
