package database

import (
	"errors"

	"modernc.org/sqlite"

	"capd/vfs"
)

// Result codes of SQLite (https://www.sqlite.org/rescode.html). The low 8 bits are the primary code.
const (
	codeBusy       = 5
	codeReadOnly   = 8
	codeIOErr      = 10
	codeCorrupt    = 11
	codeNotFound   = 12
	codeFull       = 13
	codeCantOpen   = 14
	codeConstraint = 19
	codeMismatch   = 20
	codeNotADB     = 26
)

// code returns the primary code of an error of SQLite, or 0.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// refused reports whether only one statement failed, because of what it said.
func refused(err error) bool {
	switch code(err) {
	case codeConstraint, codeMismatch, 1: // 1: a mistake in the statement
		return true
	}
	return false
}

func full(err error) bool { return code(err) == codeFull }

// lasting reports whether nothing can be written after err.
func lasting(err error) bool {
	switch code(err) {
	case codeIOErr, codeCorrupt, codeCantOpen, codeNotADB, codeReadOnly:
		return true
	}
	return false
}

var errFull = vfs.Errorf(vfs.Busy, "the disk of the host's state is full: nothing changes until there is room; reads and revokes go on")

// hidden returns err without what it says of the host, unless it is an error of capd's own.
func hidden(err error) error {
	if err == nil || code(err) == 0 {
		return err
	}
	return vfs.Hide(err)
}

// said returns an error about the database at path for the person who starts the host.
func said(path string, err error) error {
	switch code(err) {
	case 0:
		return err
	case codeCorrupt, codeNotADB:
		return &vfs.Error{Code: vfs.Corrupt, Cause: err,
			Msg: "the host's state " + path + " is damaged; put a copy of it back, or move it away: then every locator ends"}
	case codeBusy:
		return &vfs.Error{Code: vfs.Busy, Cause: err, Msg: "another program has locked the host's state " + path}
	case codeFull:
		return &vfs.Error{Code: vfs.Busy, Cause: err, Msg: "there is no room for the host's state " + path + "; free space on its disk"}
	}
	return &vfs.Error{Code: vfs.Denied, Cause: err, Msg: "the host's state " + path + " cannot be opened: " + err.Error()}
}
