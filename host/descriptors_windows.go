package host

// allowedDescriptors is how many this process may have open; the system sets no limit.
func allowedDescriptors() int { return 16384 }
