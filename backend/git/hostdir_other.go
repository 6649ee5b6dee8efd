//go:build !unix

package git

// withoutWaiting is nothing where directories hold no FIFOs.
const withoutWaiting = 0
