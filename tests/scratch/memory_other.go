//go:build !linux

package scratch

const memory = ""

func alive(int) bool { return true }
