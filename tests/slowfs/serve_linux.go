package slowfs

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// The environment of a process that serves a file system.
const (
	pathVar    = "CAPD_SLOWFS_PATH"
	backingVar = "CAPD_SLOWFS_BACKING"
	optionVar  = "CAPD_SLOWFS_" // and the name of an option
)

// mounted is the first line that the process prints.
const mounted = "mounted"

func init() {
	at := os.Getenv(pathVar)
	if at == "" {
		return
	}
	if err := serve(at, os.Getenv(backingVar)); err != nil {
		fmt.Println(strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(1)
	}
	os.Exit(0)
}

// serve mounts a file system at at. It answers each line of its standard input with a
// line, until the input ends.
func serve(at, backing string) error {
	root, err := fs.NewLoopbackRoot(backing)
	if err != nil {
		return err
	}
	var o fs.Options
	if os.Getenv(optionVar+string(KeepNames)) != "" {
		o.EntryTimeout = new(time.Hour)
	}
	signal.Ignore(os.Interrupt, unix.SIGTERM, unix.SIGHUP) // sent to the whole group: the end of the input follows
	d := &disk{gate: make(chan struct{})}
	close(d.gate)
	raw := &slow{RawFileSystem: fs.NewNodeFS(root, &o), disk: d, flags: fuse.FOPEN_DIRECT_IO}
	if os.Getenv(optionVar+string(KeepContents)) != "" {
		raw.flags = 0
	}
	server, err := fuse.NewServer(raw, at, &fuse.MountOptions{
		FsName:      "slowfs",
		Name:        "slowfs",
		DirectMount: os.Geteuid() == 0,
		AllowOther:  os.Geteuid() == 0,
	})
	if err != nil {
		return err
	}
	defer detach(at)
	go server.Serve()
	if err := server.WaitMount(); err != nil {
		return err
	}
	fmt.Println(mounted)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(d.do(in.Text()))
	}
	return nil
}

// detach unmounts what is mounted at at, even if it is in use.
func detach(at string) {
	if unix.Unmount(at, unix.MNT_DETACH) != nil {
		_ = exec.Command("fusermount3", "-u", "-z", "-q", at).Run() // for who is not root
	}
}

// disk says how long calls wait.
type disk struct {
	waiting atomic.Int64
	asked   atomic.Int64

	mu    sync.Mutex
	gate  chan struct{} // closed unless the file system hangs
	pause time.Duration // for each read, write and sync; 0: none
	free  time.Time     // when the disk will have done what was asked so far
	bad   string        // a pattern of names; a sync of such a file fails
}

// fails reports whether a sync of the file called name fails.
func (d *disk) fails(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	bad, _ := path.Match(d.bad, name)
	return bad
}

// do does what a line asks for. It returns a number, for what asks for one.
func (d *disk) do(line string) int64 {
	what, arg, _ := strings.Cut(line, " ")
	switch what {
	case "waiting":
		return d.waiting.Load()
	case "asked":
		return d.asked.Load()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	hangs := false
	select {
	case <-d.gate:
	default:
		hangs = true
	}
	switch {
	case what == "hang" && !hangs:
		d.gate = make(chan struct{})
	case what == "release" && hangs:
		close(d.gate)
	case what == "failSyncs":
		d.bad = arg
	case what == "delay":
		d.pause, d.free = 0, time.Time{}
		if iops, _ := strconv.Atoi(arg); iops > 0 {
			d.pause = time.Second / time.Duration(iops)
		}
	}
	return 0
}

// wait waits for as long as one call takes. A heavy call uses the disk.
func (d *disk) wait(heavy bool) {
	d.asked.Add(1)
	d.waiting.Add(1)
	defer d.waiting.Add(-1)
	d.mu.Lock()
	gate, until := d.gate, time.Time{}
	if heavy && d.pause > 0 {
		if now := time.Now(); d.free.Before(now) {
			d.free = now
		}
		d.free = d.free.Add(d.pause)
		until = d.free
	}
	d.mu.Unlock()
	if !until.IsZero() {
		time.Sleep(time.Until(until))
	}
	<-gate
}
