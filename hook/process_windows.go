package hook

import "os/exec"

// together does nothing here: what a program starts is not killed with it.
func together(*exec.Cmd) {}

func kill(*exec.Cmd) {}
