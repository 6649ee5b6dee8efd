//go:build !linux

package physical_test

func restrict() {}
