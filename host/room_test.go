package host_test

import (
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/host"
	"capd/locator"
	"capd/meter"
	"capd/tests/scene"
	"capd/vfs"
)

// The last free connection of a host can be used to restore something. One more connection is told that
// there is no room, whatever it was about to send, and gets in when there is room again.
func TestNoRoom(t *testing.T) {
	bySocket, _, _, socket := start(t, memory.New(memory.Limits{}).Root(), host.Options{})
	overTLS, _, tls := startTLS(t, host.Options{})
	for name, at := range map[string]struct {
		*host.Server
		loc locator.Locator
	}{"socket": {bySocket, socket}, "TLS": {overTLS, tls}} {
		t.Run(name, func(t *testing.T) {
			at.Authority().Meters().All().Set(meter.Limits{meter.Connections: 1})
			first := scene.Dial(t, at.loc)
			_, err := first.Node(t.Context())
			ok(t, err)
			for range 100 {
				noRoom(t, at.loc)
			}
			ok(t, first.Close())
			eventually(t, "there is room again", func() bool {
				_, err := scene.Dial(t, at.loc).Node(t.Context())
				return err == nil
			})
		})
	}
}

// noRoom checks that a new connection is told that there is no room.
func noRoom(t *testing.T, loc locator.Locator) {
	t.Helper()
	c := scene.Dial(t, loc)
	_, call := c.Node(t.Context())
	_, next := c.Help(t.Context(), "")
	for what, err := range map[string]error{"a call": call, "the next": next, "the connection": c.Err()} {
		if vfs.CodeOf(err) != vfs.Busy || !strings.Contains(err.Error(), "(limit connections); try again later") {
			t.Fatalf("%s beside the only connection: %v", what, err)
		}
	}
}
