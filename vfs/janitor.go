package vfs

import "sync"

// Janitor runs functions that may block and whose end nobody waits for, such as closing
// a file. It runs them one after another, on a goroutine that exists only while there
// is work. The zero Janitor is ready for use. Safe for concurrent use.
type Janitor struct {
	mu      sync.Mutex
	todo    []func()
	running bool
	idle    chan struct{} // closed when no function is left; nil while nobody waits
}

// Do runs f after all functions given before. It does not wait.
func (j *Janitor) Do(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.todo = append(j.todo, f)
	if !j.running {
		j.running = true
		go j.run()
	}
}

// Len returns how many functions are left, the running one included.
func (j *Janitor) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.todo)
}

// Idle returns a channel that is closed when no function is left.
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
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.todo) > 0 {
		f := j.todo[0]
		j.mu.Unlock()
		f()
		j.mu.Lock()
		j.todo[0] = nil
		j.todo = j.todo[1:]
	}
	j.todo, j.running = nil, false
	j.rest()
}

// rest needs j.mu.
func (j *Janitor) rest() {
	if j.idle != nil {
		close(j.idle)
		j.idle = nil
	}
}
