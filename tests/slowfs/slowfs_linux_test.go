package slowfs

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFilesAreThoseOfTheBackingDirectory(t *testing.T) {
	f := Mount(t)
	f.File(t, "d/zeros", 1<<20)
	got, err := os.ReadFile(filepath.Join(f.Path, "d", "zeros"))
	if err != nil || !bytes.Equal(got, make([]byte, 1<<20)) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	if err := os.WriteFile(filepath.Join(f.Path, "new"), []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(f.Backing, "new")); string(got) != "text" {
		t.Errorf("what was written reads %q, %v", got, err)
	}
}

func TestHangAndRelease(t *testing.T) {
	f := Mount(t)
	f.File(t, "file", 4096)
	open, err := os.Open(filepath.Join(f.Path, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	f.Hang()
	done := make(chan error)
	go func() {
		_, err := open.ReadAt(make([]byte, 10), 0)
		done <- err
	}()
	go func() {
		_, err := os.Stat(filepath.Join(f.Path, "other"))
		done <- err
	}()
	for f.Waiting() < 2 {
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-done:
		t.Fatalf("a call ended while the file system hung: %v", err)
	default:
	}
	f.Release()
	var missing int
	for range 2 {
		if os.IsNotExist(<-done) {
			missing++
		}
	}
	if missing != 1 || f.Waiting() != 0 {
		t.Errorf("%d calls failed, %d wait", missing, f.Waiting())
	}
}

func TestDelay(t *testing.T) {
	f := Mount(t)
	f.File(t, "file", 1<<20)
	open, err := os.Open(filepath.Join(f.Path, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	const reads, iops = 20, 200
	f.Delay(iops)
	start := time.Now()
	for i := range int64(reads) {
		if _, err := open.ReadAt(make([]byte, 4096), i<<12); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(start); took < reads*time.Second/iops {
		t.Errorf("%d reads at %d a second took %v", reads, iops, took)
	}
}

// TestEndWhileHanging ends while a call waits. That must not delay the end of the
// test, and nothing stays mounted.
func TestEndWhileHanging(t *testing.T) {
	done, path := make(chan error, 1), ""
	t.Run("hung", func(t *testing.T) {
		f := Mount(t)
		path = f.Path
		f.File(t, "file", 1)
		f.Hang()
		go func() {
			_, err := os.ReadFile(filepath.Join(f.Path, "file"))
			done <- err
		}()
		for f.Waiting() == 0 {
			time.Sleep(time.Millisecond)
		}
	})
	if err := <-done; err == nil {
		t.Error("the call that was let go at the end succeeded")
	}
	if isMounted(t, path) {
		t.Error("it stays mounted")
	}
}

// TestKilledWhileHanging kills a process whose mount hangs. The mount goes with it, and so
// does a call of another process that waits there.
func TestKilledWhileHanging(t *testing.T) {
	if path := os.Getenv(hungVar); path != "" {
		f := MountAt(t, path)
		f.Hang()
		os.Stdout.WriteString("hangs\n")
		select {}
	}
	Mount(t) // skips the test where it must
	path := filepath.Join(t.TempDir(), "mount")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command(program, "-test.run=^TestKilledWhileHanging$")
	other.Env = append(os.Environ(), hungVar+"="+path, "TMPDIR="+t.TempDir())
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	defer other.Process.Kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "hangs\n" {
		t.Fatalf("it printed %q, %v", line, err)
	}
	done := make(chan error)
	go func() {
		_, err := os.Stat(filepath.Join(path, "file"))
		done <- err
	}()
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("the call that was let go succeeded")
	}
	for isMounted(t, path) {
		time.Sleep(time.Millisecond)
	}
}

const hungVar = "CAPD_TEST_HUNG"

// isMounted reports whether a file system is mounted at path.
func isMounted(t *testing.T, path string) bool {
	t.Helper()
	all, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(all), " "+path+" ")
}
