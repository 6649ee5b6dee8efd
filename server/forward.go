package server

import (
	"context"
	"time"

	"capd/record"
	"capd/vfs"
)

// Forwarder sends entries of the record to somewhere else. See [record.Forwarder].
type Forwarder = record.Forwarder

// forwarding is a Forwarder at work.
type forwarding struct {
	cancel context.CancelFunc // nil if there is none
	done   chan struct{}      // closed when it has ended
}

// checkForward answers what is wrong with Telemetry.
func (s *Server) checkForward() error {
	switch {
	case s.Telemetry == "":
		return nil
	case s.Forward == nil:
		return vfs.Errorf(vfs.Unsupported, "this program sends nothing to OpenTelemetry; leave out otlp")
	case s.Unrecorded:
		return vfs.Errorf(vfs.Invalid, "there is no record that could be sent to OpenTelemetry")
	}
	return nil
}

// forward begins to send the record to Telemetry.
func (s *Server) forward() error {
	if s.Telemetry == "" {
		return nil
	}
	to, err := s.Forward(s.Telemetry)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.forwarding = forwarding{cancel, make(chan struct{})}
	go func() {
		defer close(s.forwarding.done)
		if err := s.record.Forward(ctx, "otlp", to); err != nil {
			s.logf("capd: the record is not sent to OpenTelemetry any more: %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = to.Close(ctx) // everything that was sent has arrived
	}()
	return nil
}

// end waits until nothing is sent any more.
func (f *forwarding) end() {
	if f.cancel != nil {
		f.cancel()
		<-f.done
	}
}
