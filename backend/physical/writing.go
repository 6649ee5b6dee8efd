package physical

import "sync"

// writing are the files that guests of this process are changing in place now. The
// kernel sets a file's times before it copies the bytes, and may wait for the disk in
// between. So until the change returns, times that are long past do not show that the
// content is the last one.
type writing struct {
	mu    sync.Mutex
	files map[fileKey]int
}

// fileKey identifies a file while it exists.
type fileKey struct{ dev, ino uint64 }

func (a attr) fileKey() fileKey { return fileKey{a.dev, a.ino} }

// begin notes that a file is being changed, until end is called.
func (w *writing) begin(f fileKey) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.files == nil {
		w.files = map[fileKey]int{}
	}
	w.files[f]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.files[f]--; w.files[f] == 0 {
			delete(w.files, f)
		}
	}
}

// to reports whether f is being changed. A change that begins later shows in the times
// of f, if these were looked at before and are settled.
func (w *writing) to(f fileKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.files[f] > 0
}
