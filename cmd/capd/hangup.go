package main

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// hangup is what SIGHUP does. It ends the program, unless a command has it do something else.
type hangup struct {
	signals chan os.Signal

	mu sync.Mutex
	do func()
}

func newHangup(end func()) *hangup {
	h := &hangup{signals: make(chan os.Signal, 1), do: end}
	signal.Notify(h.signals, syscall.SIGHUP)
	go func() {
		for range h.signals {
			h.mu.Lock()
			do := h.do
			h.mu.Unlock()
			do()
		}
	}()
	return h
}

// stop makes SIGHUP end the program as it ends any.
func (h *hangup) stop() { signal.Stop(h.signals) }

// tells has SIGHUP send to the channel that tells returns, in place of ending the program. The channel holds one.
func (h *hangup) tells() <-chan struct{} {
	told := make(chan struct{}, 1)
	if h == nil {
		return told
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.do = func() {
		select {
		case told <- struct{}{}:
		default:
		}
	}
	return told
}
