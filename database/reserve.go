package database

import (
	"errors"
	"os"
)

// reserveSize is the room on disk that is kept for what takes authority away.
const reserveSize = 4 << 20

// reserve is a file of zeros that is emptied when the disk is full, so that there is room for urgent writes. The goroutine that
// writes owns it.
type reserve struct {
	path  string // "": none
	spent bool   // it was emptied, and there was no room to fill it again
}

// fill makes the file as long as it should be. It reports whether there is room for it.
func (r *reserve) fill() bool {
	if r.path == "" {
		return true
	}
	fi, err := os.Lstat(r.path)
	if err == nil && fi.Size() >= reserveSize {
		r.spent = false
		return true
	}
	r.spent = r.write() != nil
	if r.spent {
		r.empty()
	}
	return !r.spent
}

// write writes zeros: not every filesystem keeps room for a file that was only made longer.
func (r *reserve) write() error {
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, reserveSize))
	return errors.Join(err, f.Close())
}

// empty gives the room back to the disk.
func (r *reserve) empty() {
	r.spent = true
	_ = os.Truncate(r.path, 0) // if that fails there is no room, which the next write says
}

// Urgent is Write for what takes authority away. When the disk is full there is still room for it. Until the disk has
// room for others again, Write answers busy.
func (d *DB) Urgent(do func(*Tx) error) error {
	return d.begin(&job{do: do, done: make(chan struct{}), urgent: true})()
}

// commitUrgent commits those of jobs that are urgent, in the room that is kept for them, and answers the others that the
// disk is full.
func (d *DB) commitUrgent(jobs []*job) {
	var urgent, others []*job
	for _, j := range jobs {
		if j.urgent {
			urgent = append(urgent, j)
		} else {
			others = append(others, j)
		}
	}
	d.answer(others, errFull)
	if len(urgent) > 0 {
		d.reserve.empty()
		left, err := d.commitMost(urgent)
		d.answer(left, err)
	}
}
