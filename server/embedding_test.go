package server_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"capd/vfs/vfstest/check"
)

// docs/embedding.md shows the whole example that runs.
func TestEmbedding(t *testing.T) {
	text, err := os.ReadFile("../docs/embedding.md")
	check.OK(t, err)
	shown := strings.Split(string(text), "\n```go\n")[1:]
	for i := range shown {
		shown[i], _, _ = strings.Cut(shown[i], "\n```\n")
	}
	source, err := os.ReadFile("example_test.go")
	check.OK(t, err)
	_, runs, _ := strings.Cut(string(source), "\n\n")
	runs, _, _ = strings.Cut(runs, "\n\nfunc Example")
	if got, want := strings.Join(shown, "\n\n"), runs; !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}
