package host

import "capd/meter"

// Limits returns what this process may give to all guests together, by what the system
// allows it: threads, see [Threads], and of the descriptors that it may have three eighths for
// connections and a quarter for contents and whole-file writes under way. What stays
// open to save time is another quarter, and goes when descriptors are short. The rest is
// for what is open for the time of one call. None is more than [meter.HostLimits] has.
func Limits() meter.Limits {
	all := int64(allowedDescriptors())
	return meter.Limits{
		meter.Threads:     int64(Threads()),
		meter.Connections: min(max(all*3/8, 8), meter.HostLimits()[meter.Connections]),
		meter.Streams:     min(max(all/4, 8), maxStreams),
	}
}

// maxStreams is as many as a served directory holds open at most.
const maxStreams = 4096
