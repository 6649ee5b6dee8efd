// Package order holds interfaces with which tests check the order of calls
// against peers of other implementations.
package order

//go:generate go run capd/capnp/gen .
