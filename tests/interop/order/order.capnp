@0x82de92caa87a57fd;

# Interfaces with which the order of calls is tried across implementations. Nothing else uses them.

using Go = import "/go.capnp";
$Go.package("order");
$Go.import("capd/tests/interop/order");

interface Log {
  add @0 (n :UInt32) -> ();
  # Notes n.

  noted @1 () -> (all :List(UInt32));
  # What was noted, in order.
}

interface Order {
  # Each method yields a Log in another way; settle decides all of them.

  later @0 () -> (log :Log);
  # Answers at once, with a promise of a Log of the callee's.

  yours @1 (log :Log) -> (log :Log);
  # Answers at once, with a promise of the Log that it was given.

  relay @2 (log :Log) -> (log :Log);
  # Answers with the Log that it was given, and not before settle.

  broken @3 () -> (log :Log);
  # Answers at once, with a promise that fails.

  settle @4 () -> ();

  forward @5 (to :Order) -> (log :Log);
  # Answers what to.forward does, by a tail call where the callee makes any; without to as later.
}
