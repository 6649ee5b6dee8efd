package tests

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// begin notes what the host holds, and resets the system's record of its peak memory.
func (tr *trial) begin() {
	var err error
	tr.before, err = tr.footprint()
	ok(tr, err)
	tr.held, tr.thread = tr.host.held(), statusOf(tr.host.pid(), "Threads")
	_ = os.WriteFile("/proc/"+tr.host.pid()+"/clear_refs", []byte("5"), 0)
}

// footprint collects the host's garbage and returns what the host holds.
func (tr *trial) footprint() (f footprint, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), mostWait)
	defer cancel()
	f.Status, err = tr.op.Status(ctx, true)
	if err != nil {
		return f, err
	}
	f.files = openFiles(tr.host.pid())
	return f, nil
}

// crashOf returns what a log says about the end of the process.
func crashOf(log string) string {
	for _, sign := range []string{"fatal error", "panic", "runtime:", "DATA RACE"} {
		if _, rest, found := strings.Cut(log, sign); found {
			return sign + rest
		}
	}
	return log
}

// watch observes the host until stop is called. It looks at the threads very often, and
// at the rest as an operator does.
func (tr *trial) watch() (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for every := time.NewTicker(2 * time.Millisecond); ; {
			tr.threads = max(tr.threads, statusOf(tr.host.pid(), "Threads"))
			select {
			case <-every.C:
			case <-done:
				every.Stop()
				return
			}
		}
	})
	wg.Go(func() {
		for every := time.NewTicker(100 * time.Millisecond); ; {
			tr.ask()
			select {
			case <-every.C:
			case <-done:
				every.Stop()
				return
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// ask asks the host for its status, as an operator does, and measures the time.
func (tr *trial) ask() {
	ctx, cancel := context.WithTimeout(context.Background(), mostWait)
	defer cancel()
	begun := time.Now()
	st, err := tr.op.Status(ctx, false)
	tr.operator = max(tr.operator, time.Since(begun))
	if err != nil && tr.operatorErr == nil {
		tr.operatorErr = err
	}
	tr.goroutines = max(tr.goroutines, int(st.Goroutines))
}

// wait waits until everything is as before, and notes how long that took. The host keeps
// directories open for a while after their use. It is an aim that they are closed.
func (tr *trial) wait() {
	begun := time.Now()
	for {
		left, cached, err := tr.left()
		tr.back = time.Since(begun)
		if err != nil {
			tr.breaks("the host says nothing after the attack: %v", err)
			return
		}
		if left == "" && tr.stays == 0 {
			tr.stays = tr.back
		}
		if tr.remains = left; left == "" {
			tr.remains = cached
		}
		if tr.remains == "" || tr.back > tr.patience() || left == "" && (tr.back > aimBack+time.Second || hurried()) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// hurried reports whether this is a plain run, or one whose times mean nothing.
func hurried() bool { return (!thorough || raceBuilt) && *fairFor == 0 }

// patience returns how long to wait for the host. If there is little time, it is short
// for a row that is known to fail.
func (tr *trial) patience() time.Duration {
	if tr.row.yet != "" && hurried() {
		return time.Second
	}
	return mostBack
}

// left returns what is left of the attack in the host, and which part of it is
// directories of the tree that are kept open. The honest guest continues meanwhile, so
// its connections come and go.
func (tr *trial) left() (left, cached string, err error) {
	now, err := tr.footprint()
	if err != nil {
		return "", "", err
	}
	var what []string
	note := func(name string, have, had, slack int) {
		if have > had+slack {
			what = append(what, fmt.Sprintf("%d %s of %d", have, name, had))
		}
	}
	note("KiB of heap", int(now.HeapBytes>>10), int(tr.before.HeapBytes>>10), slackHeap>>10)
	note("goroutines", int(now.Goroutines), int(tr.before.Goroutines), 8)
	note("descriptors", tr.host.held(), tr.held, 8)
	note("connections", int(now.Connections), int(tr.before.Connections), 2)
	note("open nodes", int(now.OpenNodes), int(tr.before.OpenNodes), 100) // the last shares live longer than the guest that made them
	note("threads", statusOf(tr.host.pid(), "Threads"), tr.thread, 16)
	left, what = strings.Join(what, ", "), nil
	note("descriptors, directories that are kept among them,", now.files, tr.before.files, 8)
	return left, strings.Join(what, ", "), nil
}

// shows logs who uses what, as an operator sees it.
func (tr *trial) shows() {
	out, err := execCapd(tr, "status", "--guests", "--json", "--state", tr.host.state).CombinedOutput()
	if err != nil {
		tr.breaks("capd status --guests: %v: %s", err, out)
	}
	tr.seen = string(out)
}
