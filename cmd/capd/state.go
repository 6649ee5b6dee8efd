package main

import (
	"capd/state"
)

// stateFlag names the directory in which a host keeps its sockets and its key for TLS.
// The host's commands find it there.
type stateFlag struct {
	State string `env:"CAPD_STATE" placeholder:"DIR" help:"The host's state directory (default: $$CAPD_STATE, $$XDG_STATE_HOME/capd, or ~/.local/state/capd)."`
}

// open returns the state directory, which need not exist.
func (f stateFlag) open() (state.Dir, error) { return state.Open(f.State) }

// found reports whether the host's commands find the directory without the flag, in any
// environment.
func (f stateFlag) found() bool {
	_, home, err := state.Usual()
	return f.State == "" && home && err == nil
}
