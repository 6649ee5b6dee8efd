@0xd12a1c51fedd6c88;
# Annotations that name the Go code generated from a schema. This file is here so that the schemas beside it compile
# without anything else. Generators for other languages ignore it.
#
# These are the annotations of capnpc-go, with its ids. Source: std/go.capnp of capnproto.org/go/capnp/v3. The compiler
# accepts an id from one file only. If your own schemas import "/go.capnp", pass it this directory before any other,
# `capnp compile -Ischema …`, so that both imports are this file.

annotation package @0xbea97f1023792be0 (file) :Text;      # name of the package
annotation import @0xe130b601260e44b5 (file) :Text;       # its import path
annotation name @0xc2b96012172f8df1 (struct, field, union, group, enum, enumerant, interface, method, param, const, annotation) :Text;  # in place of the schema's name
annotation doc @0xc58ad6bd519f935e (struct, field, enum) :Text;     # a comment
annotation tag @0xa574b41924caefc7 (enumerant) :Text;     # what String() returns
annotation notag @0xc8768679ec52e012 (enumerant) :Void;   # String() returns nothing
annotation customtype @0xfa10659ae02f2093 (field) :Text;  # has no effect any more
