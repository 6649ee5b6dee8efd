package server_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/embedding.md shows the whole example that runs.
func TestEmbedding(t *testing.T) {
	text, err := os.ReadFile("../docs/embedding.md")
	require.NoError(t, err)
	shown := strings.Split(string(text), "\n```go\n")[1:]
	for i := range shown {
		shown[i], _, _ = strings.Cut(shown[i], "\n```\n")
	}
	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, runs, _ := strings.Cut(string(source), "\n\n")
	runs, _, _ = strings.Cut(runs, "\n\nfunc Example")
	require.Equal(t, runs, strings.Join(shown, "\n\n"))
}
