// Package testproto holds the interfaces that package vat is tested with.
package testproto

//go:generate go run capd/capnp/gen .
