//go:build !alone

package peers

import "slices"

// All is every contender.
var All = slices.Concat(Own, []*Contender{CXX, GoCapnp, GoCapnpOnVat, GRPC, SFTP, SFTPSync, MCP})
