package membrane

import "capd/vfs"

// Disclosure is the cause of an error that reveals to a guest that a directory holds
// something withheld. That cannot be avoided when the guest tries to remove the directory.
// The host notes it in its log.
type Disclosure struct {
	Path string // of the directory, from the guarded root
}

func (d *Disclosure) Error() string {
	return "a guest was told that " + vfs.Printable(d.Path) + " holds something that is withheld"
}
