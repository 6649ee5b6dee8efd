package vfs

import "sync"

// Janitor runs functions that may block and that nobody waits for, such as closing a file. It
// runs one after another, on a goroutine that exists only while there is work.
// The zero Janitor is ready for use. Safe for concurrent use.
type Janitor struct {
	mu      sync.Mutex
	todo    []func()
	running bool
	idle    chan struct{} // closed when there is nothing to do; nil while nobody waits
}

// Do has f run after all that was to be done before. It does not wait.
func (j *Janitor) Do(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.todo = append(j.todo, f)
	if !j.running {
		j.running = true
		go j.run()
	}
}

// Len is how much is to be done, with what is being done.
func (j *Janitor) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.todo)
}

// Idle returns a channel that is closed when there is nothing to do.
func (j *Janitor) Idle() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.idle == nil {
		j.idle = make(chan struct{})
	}
	idle := j.idle
	if !j.running {
		j.rest()
	}
	return idle
}

func (j *Janitor) run() {
	for f := j.first(); f != nil; f = j.next() {
		f()
	}
}

func (j *Janitor) first() func() {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.todo[0]
}

// next takes what was done from the list, and returns what comes after it.
func (j *Janitor) next() func() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.todo[0] = nil
	if j.todo = j.todo[1:]; len(j.todo) > 0 {
		return j.todo[0]
	}
	j.todo, j.running = nil, false
	j.rest()
	return nil
}

// rest is called with j.mu held.
func (j *Janitor) rest() {
	if j.idle != nil {
		close(j.idle)
		j.idle = nil
	}
}
