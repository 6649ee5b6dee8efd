@0xe0efcd70b901d85d;

# What the contenders that speak Cap'n Proto serve: the same calls as every other contender.

using Go = import "/go.capnp";
$Go.package("proto");
$Go.import("capd/bench/proto");

interface Bench {
  echo @0 (data :Data) -> (data :Data);
  # Answers its parameter.

  read @1 (offset :UInt32, length :UInt32) -> (data :Data);
  # Answers length bytes of the table of payloads, from offset.

  write @2 (data :Data) -> (sum :UInt32);
  # Answers the CRC-32C of data.

  next @3 () -> (next :Bench);
  # Answers another object like this one.

  sink @4 () -> (sink :Sink);

  pread @5 (offset :UInt32, length :UInt32) -> (data :Data);
  # As read, from the open file that holds the same bytes.
}

interface Sink {
  write @0 (data :Data) -> stream;
  done @1 () -> (sum :UInt32);
  # Answers the CRC-32C of everything written.
}
