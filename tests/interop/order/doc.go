// Package order holds the interfaces with which tests try the order of calls
// against peers of another implementation.
package order

//go:generate go run capd/capnp/gen .
