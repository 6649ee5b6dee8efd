package membrane_test

import (
	"os"
	"testing"

	"capd/tests/scratch"
)

func TestMain(m *testing.M) { os.Exit(scratch.Run(m)) }
