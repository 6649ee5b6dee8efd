// Package capnp has the interfaces of capd's wire protocol in Go. It is generated from
// schema/*.capnp, where the comments say what each method promises; "make gen" generates it
// again.
//
// For each method there is a [capd/vat.Method], such as Dir_list, to call or to serve it.
// Structs are go-capnp's. Packages client and cap/dir use them; most programs use package
// client instead of this one.
package capnp
