package proto

import _ "embed"

// Schema is what this package was made of.
//
//go:embed bench.capnp
var Schema string
