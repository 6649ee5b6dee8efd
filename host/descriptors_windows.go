package host

// allowedDescriptors returns how many handles this process should have open. The system
// sets no limit.
func allowedDescriptors() int { return 16384 }
