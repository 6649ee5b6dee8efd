package server

import (
	"capd/host"
	"capd/operator"
)

// Approvals are the changes that wait for somebody's yes, and decisions about them.
type Approvals = operator.Approvals

// Approvals returns the changes of guests that wait for an approval. They wait while somebody listens: capd watch, or a
// program that has called Listen; with ApprovalsWait they wait always. Before the start it is nil.
func (s *Server) Approvals() Approvals {
	if s.phase() < serving {
		return nil
	}
	return s.asks
}

// hosting is what the connections of the operator need.
func (s *Server) hosting() host.Options {
	o := host.Options{VirtualFs: console{s.fs, s.db, s.record}, Approvals: s.asks, Rules: &s.rules, Hooks: s.hooks, Logf: s.logf}
	if s.record != nil {
		o.Events = s.record
	}
	return o
}
