@0xdc07f6f8e1b4a1d3;

# Interfaces that exercise package vat. Nothing else uses them.

using Go = import "/go.capnp";
$Go.package("testproto");
$Go.import("capd/vat/internal/testproto");

interface Echo {
  echo @0 (text :Text) -> (text :Text);
  # Answers its parameter.

  data @1 (size :UInt32) -> (data :Data);
  # Answers size zero bytes.

  sleep @2 (ms :UInt32) -> ();
  # Answers after ms milliseconds, or when it is cancelled.

  fail @3 (kind :UInt16, reason :Text) -> ();
  # Throws.

  crash @4 () -> ();
  # Panics.

  cap @5 (cap :Capability) -> (cap :Capability);
  # Answers the capability that it was given.
}

interface Counter {
  # Counts calls, to observe their order.

  next @0 (tag :UInt32) -> (n :UInt32);
  # Answers the number of calls before this one.

  slow @1 (tag :UInt32, ms :UInt32) -> (n :UInt32);
  # Takes its number when it starts and answers after ms milliseconds.
}

interface Chain {
  # Capabilities that yield capabilities, to pipeline on.

  next @0 () -> (chain :Chain);
  # Answers a chain that is one deeper.

  depth @1 () -> (depth :UInt32);

  slowNext @2 (ms :UInt32) -> (chain :Chain);
  # Answers a deeper chain after ms milliseconds.

  nested @3 () -> (node :Node);
  # Answers a deeper chain inside a struct.

  none @4 () -> (chain :Chain);
  # Answers the null capability.

  struct Node {
    name @0 :Text;
    union {
      chain @1 :Chain;
      size @2 :UInt64;
      all @3 :List(Chain);
    }
  }
}

interface Callback {
  call @0 (n :UInt32) -> (n :UInt32);
}

interface Server {
  # The bootstrap of the tests' server.

  echo @0 () -> (echo :Echo);
  counter @1 () -> (counter :Counter);
  chain @2 () -> (chain :Chain);
  invoke @3 (callback :Callback, n :UInt32) -> (n :UInt32);
  # Calls back with n, waits, and answers what the callback answered.

  isLocal @4 (cap :Capability) -> (local :Bool);
  # Whether the server hosts cap itself.

  hold @5 (cap :Capability) -> ();
  # Keeps cap until drop.

  drop @6 () -> ();

  held @7 () -> (cap :Capability);
  # Answers what it keeps.

  stream @8 () -> (stream :Stream);

  many @9 (n :UInt32) -> (caps :List(Chain));
  # Answers n new capabilities.
}

interface Stream {
  write @0 (data :Data) -> stream;
  done @1 () -> (bytes :UInt64, writes :UInt32);
}
