package vat

import "capnproto.org/go/capnp/v3"

// A Method describes one method of an interface. The code generator writes one for each method. P and R are
// the generated types of its parameters and results.
type Method[P, R ~capnp.StructKind] struct {
	Interface uint64 // the interface's type id
	ID        uint16 // the method's ordinal
	Name      string // "Interface.method", for people

	Params, Results capnp.ObjectSize // their sizes, for allocation

	Stream bool // declared `-> stream`: the caller need not wait for each answer
}

// A Field is the index of a pointer field in a struct. It is one step of a pipelined path.
type Field uint16

// Empty is the result of a method that has none: a `-> stream` method.
type Empty capnp.Struct

// InterfaceInfo names an interface of a schema.
type InterfaceInfo struct {
	Name    string   // nested names are joined by dots
	ID      uint64   // the interface's type id
	Methods []string // its own methods, in ordinal order
	Extends []uint64 // the type ids of the interfaces that it extends
}
