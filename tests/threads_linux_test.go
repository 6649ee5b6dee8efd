package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"capd/client"
	"capd/operator"
	"capd/tests/slowfs"
	"capd/vfs"
	"capd/vfs/membrane"
)

// A flood is reads on many connections, all at once, that nobody answers.
type flood struct {
	reads int
	told  sync.Map // how many ended so, by code; *atomic.Int64
	ended sync.WaitGroup
	end   context.CancelFunc
}

// count is how many ended with a code; "ok" is no error.
func (f *flood) count(code string) int64 {
	n, _ := f.told.LoadOrStore(code, new(atomic.Int64))
	return n.(*atomic.Int64).Load()
}

// all is how many ended.
func (f *flood) all() (n int) {
	f.told.Range(func(_, count any) bool { n += int(count.(*atomic.Int64).Load()); return true })
	return n
}

// flooding opens a file on each of conns connections, using locs and paths in turn. Then it
// calls hang, and makes reads concurrent reads on each connection.
func flooding(t testing.TB, conns, reads int, locs, paths []string, hang func()) *flood {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &flood{reads: conns * reads, end: cancel}
	files := make([]vfs.File, conns)
	for i := range files {
		files[i] = remoteFile(t, locs[i%len(locs)], paths[i/len(locs)%len(paths)])
	}
	hang()
	for _, file := range files {
		for n := range reads {
			f.ended.Go(func() {
				_, err := file.ReadAt(ctx, make([]byte, 4096), int64(n)<<12)
				code := string(vfs.CodeOf(err))
				switch {
				case err == nil:
					code = "ok"
				case ctx.Err() != nil:
					code = "given up"
				}
				f.count(code)
				n, _ := f.told.Load(code)
				n.(*atomic.Int64).Add(1)
			})
		}
	}
	t.Cleanup(func() {
		cancel()
		f.ended.Wait()
	})
	return f
}

// hang has a file system hang until the test ends. The host that waits for it ends
// after that.
func hang(t testing.TB, fs *slowfs.FS) {
	fs.Hang()
	t.Cleanup(fs.Release)
}

func remoteFile(t testing.TB, loc, path string) vfs.File {
	t.Helper()
	n, err := vfs.Walk(t.Context(), dial(t, loc).Dir(t.Context()), path)
	ok(t, err)
	return n.(vfs.File)
}

// mount mounts a directory of the host's.
func (h *hostProcess) mount(path, dir string) {
	h.Helper()
	fs, err := h.console().VirtualFs(context.Background())
	ok(h, err)
	err = fs.Mount(context.Background(), path, "physical:"+dir, operator.Attenuation{})
	ok(h, err)
}

func (h *hostProcess) threads() int {
	h.Helper()
	b, err := os.ReadFile("/proc/" + h.pid() + "/status")
	ok(h, err)
	_, rest, _ := strings.Cut(string(b), "Threads:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	ok(h, err)
	return n
}

// works has a guest read and write, again and again for as long as cond says so, and
// returns how long it waited at most.
func works(t testing.TB, d *client.Dir, cond func() bool) (longest time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := d.Put(ctx, "honest", strings.NewReader(strings.Repeat("x", 4096)), vfs.If{})
	ok(t, err)
	n, err := vfs.Walk(ctx, d, "honest")
	ok(t, err)
	defer n.Close()
	for cond() {
		begun := time.Now()
		if got, err := n.(vfs.File).ReadAt(ctx, make([]byte, 4096), 0); got != 4096 {
			t.Fatalf("the honest guest read %d bytes, %v", got, err)
		}
		_, err := d.Put(ctx, "honest", strings.NewReader(strings.Repeat("x", 4096)), vfs.If{})
		ok(t, err)
		longest = max(longest, time.Since(begun))
	}
	return longest
}

// besideMount is a host that serves fs beside another directory. The attacker has fs, and so has an
// honest guest, who opened file there; here is an honest guest's of the other directory.
func besideMount(t *testing.T, fs *slowfs.FS) (h *hostProcess, attacker string, here *client.Dir, file vfs.File) {
	t.Helper()
	h = serve(t)
	h.mount("slow", fs.Path)
	attacker, _, _ = h.grant("attacker", "slow")
	honest, _, _ := h.grant("honest", "project")
	there, _, _ := h.grant("there", "slow")
	return h, attacker, dial(t, honest).Dir(t.Context()), remoteFile(t, there, "file")
}

// TestHungMountTakesItsShare: 2,000 reads on 256 connections wait for a mount that hangs.
// They use a bounded number of threads, and other mounts work. Every guest that waits there
// gets busy. When the mount answers again, everything works again.
func TestHungMountTakesItsShare(t *testing.T) {
	fs := slowfs.Mount(t)
	fs.File(t, "file", 1<<20)
	h, attacker, here, file := besideMount(t, fs)
	before := h.threads()

	const conns, each = 256, 8
	f := flooding(t, conns, each, []string{attacker}, []string{"file"}, func() { hang(t, fs) })
	most := 0
	longest := works(t, here, func() bool {
		most = max(most, h.threads())
		return f.all() < f.reads-membrane.MaxInside
	})
	if busy := f.count("busy"); int(busy) < f.reads-membrane.MaxInside {
		t.Errorf("of %d reads %d were told busy, %d ended well", f.reads, busy, f.count("ok"))
	}
	// Another guest of the mount has slots too, and gets busy when these are used up.
	is(t, "another guest of the mount", busyInTheEnd(t, file), "busy")
	if n := fs.Waiting(); n > membrane.MaxInside {
		t.Errorf("%d calls are inside the mount", n)
	}
	if most > before+membrane.MaxInside+32 {
		t.Errorf("the host had %d threads, and %d before", most, before)
	}
	fs.Release()
	f.ended.Wait()
	if _, err := file.ReadAt(t.Context(), make([]byte, 10), 0); err != nil {
		t.Errorf("when the mount answers again: %v", err)
	}
	t.Logf("%d reads: %d busy, %d ok; threads %d, before %d; the honest guest waited %v at most", f.reads, f.count("busy"), f.count("ok"), most, before, longest)
}

// busyInTheEnd is what the first of many reads comes to.
func busyInTheEnd(t testing.TB, f vfs.File) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	var rest sync.WaitGroup
	defer rest.Wait()
	defer cancel()
	told := make(chan error, membrane.MaxInside)
	for range membrane.MaxInside {
		rest.Go(func() {
			_, err := f.ReadAt(ctx, make([]byte, 10), 0)
			told <- err
		})
	}
	return <-told
}

// TestHungMountIsLetGo: a revoke, an unmount and the end of the host all answer, even if a
// mount hangs.
func TestHungMountIsLetGo(t *testing.T) {
	t.Parallel()
	fs := slowfs.Mount(t)
	fs.File(t, "file", 1<<20)
	h := serve(t)
	h.mount("hung", fs.Path)
	attacker, _, ctl := h.grant("attacker", "hung")
	f := flooding(t, 16, 8, []string{attacker}, []string{"file"}, func() { hang(t, fs) })
	if !waitFor(patience, func() bool { return fs.Waiting() > 0 }) {
		t.Fatal("nothing waits")
	}
	// The kernel sends SIGTERM to the first thread, so this one may not wait for the disk.
	first := fmt.Sprint("/proc/", h.cmd.Process.Pid, "/syscall")
	if call, err := os.ReadFile(first); err != nil || !strings.HasPrefix(string(call), fmt.Sprint(syscall.SYS_FUTEX, " ")) {
		t.Errorf("the host's first thread is in the system call %s%v", call, err)
	}
	within := func(what string, do func(context.Context) error) {
		ctx, cancel := context.WithTimeout(t.Context(), membrane.Grace+patience)
		defer cancel()
		is(t, what, do(ctx), "ok busy")
	}
	within("a revoke", ctl.Revoke)
	mounts, err := h.console().VirtualFs(t.Context())
	ok(t, err)
	within("an unmount", func(ctx context.Context) error { return mounts.Unmount(ctx, "hung") })
	f.end()
	ok(t, h.cmd.Process.Signal(syscall.SIGTERM))
	h.told = true
	if !waitFor(3*patience, func() bool { _, err := os.Stat(filepath.Join(h.state, "guest.sock")); return err != nil }) {
		t.Error("the host goes on")
	}
	fs.Release()
}

// TestSlowDiskIsShared: of a disk that does 200 reads a second, each grant has its turns,
// however many reads another has waiting.
func TestSlowDiskIsShared(t *testing.T) {
	fs := slowfs.Mount(t)
	fs.File(t, "file", 64<<20)
	h, attacker, here, file := besideMount(t, fs)
	before := h.threads()
	f := flooding(t, 256, 8, []string{attacker}, []string{"file"}, func() { fs.Delay(200) })
	reads, most := 0, 0
	var slowest time.Duration
	overtaken := 0 // the most reads of the attacker that ended during one of the other's
	longest := works(t, here, func() bool {
		begun, ahead := time.Now(), f.all()
		if _, err := file.ReadAt(t.Context(), make([]byte, 4096), int64(reads)<<12); err != nil {
			t.Fatal(err)
		}
		slowest, overtaken = max(slowest, time.Since(begun)), max(overtaken, f.all()-ahead)
		most = max(most, h.threads())
		reads++
		return reads < times(10, 40)
	})
	if f.all() == f.reads {
		t.Error("nothing waits any more: the disk is too fast")
	}
	if most > before+membrane.MaxInside+32 {
		t.Errorf("the host had %d threads, and %d before", most, before)
	}
	if overtaken > 4*membrane.MaxInside {
		t.Errorf("while another guest waited for the disk, %d of %d reads were let in first", overtaken, f.reads)
	}
	fs.Delay(0)
	f.ended.Wait()
	if n := f.count("ok"); int(n) != f.reads {
		t.Errorf("of %d reads %d ended well, %d were told busy", f.reads, n, f.count("busy"))
	}
	t.Logf("threads %d, before %d; another guest of the disk waited %v and for %d reads at most, of another disk %v", most, before, slowest, overtaken, longest)
}

func init() {
	// Where pids.max or RLIMIT_NPROC has been set for it, this becomes another program.
	others["limited"] = func(args []string) {
		dir, program := args[0], args[1]
		if dir != "" {
			if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
				panic(err)
			}
		}
		os.Unsetenv(otherVar)
		panic(syscall.Exec(program, append([]string{program}, os.Args[1:]...), os.Environ()))
	}
}

// group makes a control group for at most most threads, until the end of the test.
func group(t testing.TB, most int) (dir string) {
	t.Helper()
	name := fmt.Sprintf("capd-tests-%d", os.Getpid())
	var failed []error
	for _, at := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup"} {
		dir = filepath.Join(at, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			failed = append(failed, err)
			continue
		}
		if at == "/sys/fs/cgroup" {
			_ = os.WriteFile(filepath.Join(at, "cgroup.subtree_control"), []byte("+pids"), 0)
		}
		if err := os.WriteFile(filepath.Join(dir, "pids.max"), []byte(strconv.Itoa(most)), 0); err != nil {
			failed = append(failed, err, os.Remove(dir))
			continue
		}
		t.Cleanup(func() { waitFor(patience, func() bool { return os.Remove(dir) == nil }) })
		return dir
	}
	t.Skipf("this machine lets this user make no control group: %v", errors.Join(failed...))
	return ""
}

// TestFewThreads: a host that may have few threads lives, with more mounts that hang, and
// more reads of them, than it has threads for.
func TestFewThreads(t *testing.T) {
	for _, most := range []int{300, 500}[:times(1, 2)] {
		t.Run(strconv.Itoa(most), func(t *testing.T) {
			const mounts = 12
			dir := group(t, most)
			hung := make([]*slowfs.FS, mounts)
			for i := range hung {
				hung[i] = slowfs.Mount(t)
				hung[i].File(t, "file", 1<<20)
			}
			h := serveAt(newPlace(t), program("limited", dir, capd(t)))
			var paths []string
			for i, fs := range hung {
				path := fmt.Sprintf("hung%d", i)
				h.mount(path, fs.Path)
				paths = append(paths, path+"/file")
			}
			var locs []string
			for i := range 4 {
				loc, _, _ := h.grant(fmt.Sprintf("attacker%d", i), "")
				locs = append(locs, loc)
			}
			honest, _, _ := h.grant("honest", "project")
			here := dial(t, honest).Dir(t.Context())
			f := flooding(t, 256, 8, locs, paths, func() {
				for _, fs := range hung {
					hang(t, fs)
				}
			})
			peak, waiting := 0, 0
			longest := works(t, here, func() bool {
				peak = max(peak, h.threads())
				inside := 0
				for _, fs := range hung {
					inside += fs.Waiting()
				}
				waiting = max(waiting, inside)
				return f.all() < f.reads-mounts*membrane.MaxInside
			})
			if peak >= most {
				t.Errorf("the host had %d threads, of %d", peak, most)
			}
			for _, fs := range hung {
				fs.Release()
			}
			f.ended.Wait()
			works(t, here, func() bool { return false })
			t.Logf("%d threads at most, %d calls waited in the kernel; the honest guest waited %v at most", peak, waiting, longest)
		})
	}
}
