//go:build race

package tests

func init() {
	raceBuilt = true
	patience *= 3
}
