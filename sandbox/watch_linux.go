package sandbox

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"capd/vfs"
)

// watch stops a run when its memory, disk or time is used up, by ending ctx with an
// error of code limit. It returns when ctx is done.
func watch(ctx context.Context, stop context.CancelCauseFunc, first int, d *disk, l Limits) {
	if l.Time > 0 {
		end := time.AfterFunc(l.Time, func() {
			stop(vfs.Errorf(vfs.Limit, "the run took longer than %v and was stopped; give it more time", l.Time))
		})
		defer end.Stop()
	}
	var disk sync.WaitGroup
	disk.Go(func() { watchDisk(ctx, stop, d) })
	defer disk.Wait()
	for {
		used := memory(first)
		if used > l.Memory {
			stop(vfs.Errorf(vfs.Limit, "the run used more than its %d bytes of memory and was stopped; give it more", l.Memory))
		}
		if !sleep(ctx, pause(l.Memory-used)) {
			return
		}
	}
}

func watchDisk(ctx context.Context, stop context.CancelCauseFunc, d *disk) {
	for took := time.Duration(0); sleep(ctx, max(minDiskPause, diskShare*took)); {
		start := time.Now()
		if err := d.check(); err != nil {
			stop(err)
		}
		took = time.Since(start)
	}
}

// sleep waits for pause. It reports false if ctx is done.
func sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

const (
	minDiskPause = 250 * time.Millisecond
	diskShare    = 20 // counting the run's files may take at most 1/diskShare of the time
)

// pause returns how long memory need not be checked while room bytes are left. A
// processor fills about four bytes in a nanosecond.
func pause(room int64) time.Duration {
	fill := time.Duration(room / 4 / int64(runtime.NumCPU()))
	return min(max(fill, 5*time.Millisecond), 100*time.Millisecond)
}

// memory returns how many bytes of memory process pid and its descendants use, without
// file pages, swapped out or not. Memory that two processes share counts twice.
func memory(pid int) int64 {
	sum := held(pid)
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		if err != nil {
			continue // ended meanwhile
		}
		for _, child := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(child); err == nil {
				sum += memory(n)
			}
		}
	}
	return sum
}

// held returns one process's part of memory; see proc_pid_status(5).
func held(pid int) int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	var sum int64
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "RssAnon", "RssShmem", "VmSwap":
			kB, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			sum += kB << 10
		}
	}
	return sum
}
