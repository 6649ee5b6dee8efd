//go:build !unix

package vat

import "syscall"

const canTryWrite = false

func tryWrite(syscall.RawConn, []byte) (int, error) { return 0, nil }
