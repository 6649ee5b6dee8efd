package vat

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A message that is built here has no limits of reading, even if its memory came from a message that had.
func TestBuiltMessagesHaveNoLimits(t *testing.T) {
	m := newMessage()
	m.msg.DepthLimit = 2
	m.unref()
	for range 10 {
		m, err := newEnvelope(aReturn, returnEnvelope[:], 0)
		require.NoError(t, err)
		_, err = m.payload()
		require.NoError(t, err)
		require.NotEqual(t, uint(2), m.msg.DepthLimit)
		m.unref()
	}
}
