package vat

// A signal tells those who wait for it that something has changed. Nothing is allocated while nobody waits. The
// lock of what has changed guards it. The zero value is ready for use.
type signal chan struct{}

// next returns a channel that the next broadcast closes.
func (s *signal) next() <-chan struct{} {
	if *s == nil {
		*s = make(signal)
	}
	return *s
}

// broadcast wakes all who wait.
func (s *signal) broadcast() {
	if *s != nil {
		close(*s)
		*s = nil
	}
}
