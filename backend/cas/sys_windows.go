package cas

import (
	"os"
	"time"
)

// touch sets path's time to the present.
func touch(path string) error {
	now := time.Now()
	return os.Chtimes(path, now, now)
}

// touchAlone says that a touch may undo a concurrent later one.
const touchAlone = true

// identity is empty here: every blob is verified each time it is opened.
type identity struct{}

func identify(*os.File) (identity, bool) { return identity{}, false }
