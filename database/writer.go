package database

import (
	"cmp"
	"slices"
	"time"

	"capd/vfs"
)

// maxBatch is how many waiting writes one commit takes.
const maxBatch = 256

// job is something to write.
type job struct {
	do    func(*Tx) error
	err   error
	done  chan struct{} // closed when err is known
	later bool          // nobody waits

	urgent bool // it takes authority away
}

func (j *job) end(err error) {
	j.err = err
	close(j.done)
}

// Write runs do, and returns when what it wrote is on disk. When do returns an error, what it wrote is undone.
//
// do runs in the goroutine that writes, which is the only one, and other writes wait for it. So it runs statements and
// nothing else. It takes no lock that is held around a call of this package, and waits for nobody. It may run more
// than once: what an earlier run wrote was undone.
//
// Write answers busy when the disk is full. It answers internal from the first failed write of the disk until a
// restart, see [DB.Failed] and [DB.KeepAside].
func (d *DB) Write(do func(*Tx) error) error { return d.Begin(do)() }

// Begin begins a Write, and returns a function that waits for its end. Writes run in the order in which they began.
func (d *DB) Begin(do func(*Tx) error) (wait func() error) {
	return d.begin(&job{do: do, done: make(chan struct{})})
}

func (d *DB) begin(j *job) (wait func() error) {
	if err := d.send(j); err != nil {
		return func() error { return err }
	}
	return func() error {
		<-j.done
		return j.err
	}
}

var errClosed = vfs.Errorf(vfs.Stale, "this host has ended")

func (d *DB) send(j *job) error {
	d.gate.RLock()
	defer d.gate.RUnlock()
	if d.closed {
		return errClosed
	}
	if !j.urgent && d.later.full() {
		return errFull
	}
	if err := d.Failed(); err != nil {
		return err
	}
	d.jobs <- j
	return nil
}

// Failed returns why nothing can be written any more, or nil. After a failed write it is not known what is on the
// disk, so nothing is written until a restart.
func (d *DB) Failed() error {
	if err := d.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// write is the goroutine that writes.
func (d *DB) write() {
	defer close(d.done)
	for {
		batch, more := d.gather()
		d.commitAll(batch)
		if !more {
			d.commitRest()
			return
		}
		if len(batch) > 0 && d.Failed() == nil {
			d.log.tend(d.writer, len(d.jobs) == 0)
		}
	}
}

// commitRest commits what nobody waits for when the host ends.
func (d *DB) commitRest() {
	for {
		jobs := d.later.take()
		if len(jobs) == 0 {
			return
		}
		d.commitAll(jobs)
		if jobs[0].err == errFull {
			d.options.Logf("capd: the disk of the host's state is full; what was done last is not all recorded")
			return
		}
	}
}

// gather waits for jobs and returns those that are there.
func (d *DB) gather() (batch []*job, more bool) {
	var first *job
	select {
	case first, more = <-d.jobs:
		if !more {
			return nil, false
		}
	case <-d.later.due:
	}
	batch = d.later.take() // they began before
	if first != nil {
		batch = append(batch, first)
	}
	for n := 1; n < maxBatch; n++ {
		select {
		case j, more := <-d.jobs:
			if !more {
				return batch, false
			}
			batch = append(batch, j)
		default:
			return batch, true
		}
	}
	return batch, true
}

// commitAll commits jobs and answers them. While the disk is full it commits only those that are urgent.
func (d *DB) commitAll(jobs []*job) {
	if len(jobs) == 0 {
		return
	}
	if d.reserve.spent && !d.reserve.fill() {
		d.commitUrgent(jobs)
		return
	}
	left, err := d.commitMost(jobs)
	if full(err) {
		d.commitUrgent(left)
		return
	}
	d.answer(left, err)
}

// commitMost commits jobs. A job that failed after it had changed something is undone with all others and answered, and
// the others run again. It returns those that are not answered yet, with what went wrong with their transaction.
func (d *DB) commitMost(jobs []*job) (left []*job, err error) {
	for len(jobs) > 0 {
		bad, err := d.commit(jobs)
		if err != errRerun {
			return jobs, err
		}
		d.answer([]*job{jobs[bad]}, jobs[bad].err)
		jobs = slices.Delete(jobs, bad, bad+1)
	}
	return nil, nil
}

// commit runs jobs in one transaction. If it returns errRerun, bad is the index of the job that failed.
func (d *DB) commit(jobs []*job) (bad int, err error) {
	if err := d.Failed(); err != nil {
		return 0, err
	}
	tx, err := begin(d.writer)
	if err != nil {
		return 0, err
	}
	for i, j := range jobs {
		if err := tx.run(j); err != nil {
			tx.rollback()
			return i, err
		}
	}
	d.options.Step("before")
	begun := time.Now()
	if _, err := d.writer.exec("COMMIT"); err != nil {
		tx.rollback()
		return 0, err
	}
	d.commits.took(time.Since(begun))
	d.options.Step("after")
	for _, f := range tx.commits {
		f()
	}
	return 0, nil
}

// answer ends jobs. err is what went wrong with the transaction. While the disk is full, those that nobody waits for
// are kept.
func (d *DB) answer(jobs []*job, err error) {
	err = d.judge(err)
	var kept []*job
	for _, j := range jobs {
		if j.later && err == errFull {
			j.err = err
			kept = append(kept, j)
			continue
		}
		if err == nil && j.later && j.err != nil {
			d.options.Logf("capd: the state: %v", j.err)
		}
		j.end(cmp.Or(err, hidden(j.err)))
	}
	d.later.back(kept)
}

// judge returns the error of a transaction as callers see it. It remembers one after which nothing more is written.
func (d *DB) judge(err error) error {
	switch {
	case err == nil, err == d.Failed():
		return err
	case full(err):
		return errFull
	case lasting(err):
		d.options.Logf("capd: the state cannot be written any more: %v", err)
		failed := error(&vfs.Error{Code: vfs.Internal, Cause: err,
			Msg: "the disk of the host's state fails: nothing changes until the host is started again; reads go on"})
		d.failed.CompareAndSwap(nil, &failed)
		return d.Failed()
	}
	return hidden(err)
}
