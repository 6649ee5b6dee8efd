package sandbox

import (
	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// landlockABI returns the kernel's ABI of Landlock, or 0 if it has none that is
// sufficient.
func landlockABI() int {
	abi, err := ll.LandlockGetABIVersion()
	if err != nil || abi < minLandlock {
		return 0
	}
	return abi
}

const (
	readRights  = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSReadDir
	writeRights = ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile |
		ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSym | ll.AccessFSRefer
	fileRights = ll.AccessFSReadFile | ll.AccessFSWriteFile
)

// restrictFiles lets this process read what it sees, write below the tree and the run's
// private directories and to harmless devices, and make sockets and FIFOs in the
// private directories. Descriptors of files outside cannot be opened again through
// /proc. As far as the kernel's ABI allows, it also forbids signals to processes
// outside and connections to their abstract sockets.
func restrictFiles() error {
	known := landlock.MustConfig(landlock.V7.HandledAccessFS, landlock.V7.Scoped).BestEffort()
	return known.Restrict(
		landlock.PathAccess(readRights, "/"),
		landlock.PathAccess(writeRights, TreePath),
		landlock.PathAccess(writeRights|ll.AccessFSMakeSock|ll.AccessFSMakeFifo, HomePath, CachePath, tmpPath),
		landlock.PathAccess(fileRights|ll.AccessFSTruncate|ll.AccessFSMakeReg|ll.AccessFSRemoveFile, "/dev/shm"),
		landlock.PathAccess(fileRights, "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"),
		landlock.PathAccess(fileRights|ll.AccessFSIoctlDev, "/dev/tty", "/dev/pts"),
	)
}
