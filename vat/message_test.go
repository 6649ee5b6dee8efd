package vat

import (
	"testing"
)

// A message that is built here has no limits of reading, even if its memory came from a message that had.
func TestBuiltMessagesHaveNoLimits(t *testing.T) {
	m := newMessage()
	m.msg.DepthLimit = 2
	m.unref()
	for range 10 {
		m, err := newEnvelope(aReturn, returnEnvelope[:], 0)
		OK(t, err)
		_, err = m.payload()
		OK(t, err)
		if m.msg.DepthLimit == 2 {
			t.Fatal("a message that was built has the DepthLimit of one that was read before")
		}
		m.unref()
	}
}
