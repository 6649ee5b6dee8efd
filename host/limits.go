package host

import "capd/meter"

// Limits returns what this process may give to all guests together, by what the system
// allows it. For threads see [Threads]. Of the descriptors, three eighths are for
// connections, and a quarter for open contents and whole-file writes. Another quarter is
// for what stays open to save time, and is closed when descriptors are short. The rest is
// for what is open during one call. Connections are never more than [meter.HostLimits]
// has.
func Limits() meter.Limits {
	all := int64(allowedDescriptors())
	return meter.Limits{
		meter.Threads:     int64(Threads()),
		meter.Connections: min(max(all*3/8, 8), meter.HostLimits()[meter.Connections]),
		meter.Streams:     min(max(all/4, 8), maxStreams),
	}
}

// maxStreams is the most that a served directory holds open.
const maxStreams = 4096
