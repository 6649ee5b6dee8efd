//go:build race

package tests

import "os"

func init() {
	os.Setenv("GORACE", endsAtOnce[len("GORACE="):])
	raceBuilt = true
	patience *= 2
}
