package operator

import "capd/meter"

// Usage is what one grant uses, or several together.
type Usage struct {
	Uses  []meter.Use   // one for each kind, in order
	Turns []meter.Turns // one for each lane, in order
}

// UsageOf returns what m counts now.
func UsageOf(m *meter.Meter) Usage { return Usage{m.Uses(), m.Turns()} }

// GrantUsage is what one grant uses, together with all that was shared from it.
type GrantUsage struct {
	Grant
	Usage
}
