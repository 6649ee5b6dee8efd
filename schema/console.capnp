@0xb2e8ec8b81fff79d;
# What the operator of a host holds, over its control socket.

using Cxx = import "/capnp/c++.capnp";
using Go = import "go.capnp";
using Control = import "control.capnp".Control;
using VirtualFs = import "virtualfs.capnp".VirtualFs;
$Go.package("capnp");
$Go.import("capd/capnp");
$Cxx.namespace("capd");

struct Grant {
  guest @0 :Text;       # the holder's name; shared ones are called HOLDER/1, HOLDER/2, …
  id @1 :Text;          # names this grant, and is not secret
  path @2 :Text;        # what it opens, in the host's namespace; "" for all of it
  mode @3 :Mode;        # what it was granted
  state @4 :State;      # what it is now
  parent @5 :Text;      # id of the grant it was shared from, or ""
  enum Mode { readWrite @0; readOnly @1; }
  enum State { active @0; locked @1; revoked @2; }
}

struct Status {
  # What a host is at one moment. Counts are of the whole process.

  version @0 :Text;          # of capd: a release, or the revision it was built from
  uptimeMs @1 :UInt64;
  grants @2 :UInt32;         # that are not revoked, shared ones among them
  openNodes @3 :UInt64;      # nodes and gates that guests hold
  streams @4 :UInt64;        # files that guests read or write whole
  connections @5 :Int64;     # of guests; -1: not known
  descriptors @6 :Int64;     # open in the process; -1: not known, as on systems that do not tell
  goroutines @7 :UInt32;
  heapBytes @8 :UInt64;      # in use, with what was not collected yet
  memoryBytes @9 :UInt64;    # mapped for the heap, stacks and the runtime, less what was given back to the system
  threads @10 :UInt32;       # of the operating system; 0: not known
}

struct Limit {
  # How much of one kind a grant may hold at once, with all that was shared from it. What each kind is, its default and
  # what happens at the limit: docs/limits.md.

  kind @0 :Kind;
  most @1 :Int64;            # bytes where the kind's name ends in Bytes, otherwise a number; 1 or more, or -1 for no limit
  enum Kind {
    connections @0;          # that hold something of the grant
    nodes @1;                # open nodes and gates; one at a long path counts for several
    streams @2;              # contents held open, and whole-file writes
    writers @3;              # Writers that have not ended
    listings @4;             # listings that wait for their next page
    shares @5;               # live shares
    storedBytes @6;          # by which stored content has grown
    storedNodes @7;          # by which the number of stored files, directories and links has grown
    stagedBytes @8;          # of whole-file writes under way
    messageBytes @9;         # of large messages that came in, until their call is done
    callBytes @10;           # that open calls hold
    replyBytes @11;          # that were answered and not read
    threads @12;             # calls that may be waiting in the kernel
    waits @13;               # calls that wait for a guest, or for another call
  }
}

struct Usage {
  # What one grant holds and has done, with all that was shared from it.

  holdings @0 :List(Holding);  # one of each kind, in the order of Limit.Kind
  lanes @1 :List(Lane);        # one of each lane, in the order of Lane.Kind

  struct Holding {
    kind @0 :Limit.Kind;
    used @1 :Int64;          # now, with what is reserved
    limit @2 :Int64;         # the most that may be held; -1: no limit
    share @3 :Int64;         # the most that may be held now beside what others hold; -1: as much as there is
    refused @4 :UInt64;      # requests that were refused, since the grant began
    peak @5 :Int64;          # the most that was held at once since the grant began, without what is only reserved
  }

  struct Lane {
    # Work waits for a turn in a lane. Turns go to the grant that has had the least time lately.

    kind @0 :Kind;
    given @1 :UInt64;        # turns since the grant began
    spentMs @2 :UInt64;      # milliseconds in turns; of light about
    waiting @3 :UInt32;      # that wait for a turn now
    longestMs @4 :UInt64;    # milliseconds that one of these has waited, the longest
    enum Kind {
      light @0;              # what waits for nothing
      work @1;               # calls that may wait in the kernel
      heavy @2;              # calls that may cost much
    }
  }
}

struct GrantUsage {
  grant @0 :Grant;
  usage @1 :Usage;
}

interface Console {
  # Grants, lists and revokes.

  grant @0 (guest :Text, path :Text, readOnly :Bool, limits :List(Limit)) -> (grant :Grant, locator :Text, control :Control);
  # Gives guest the node at path ("": the whole namespace). The locator is a secret and is not kept. A kind that limits does
  # not name has the host's default. notFound, invalid (the name: 1 to 64 of a-z A-Z 0-9 . _ -, and not g and a number,
  # which is a grant's id; a limit, as setLimits).

  list @1 (after :Text, limit :UInt32) -> (grants :List(Grant), more :Bool);
  # One page, oldest first: those after the grant with that id (empty: from the first), at most limit (0 means 1000,
  # bound 10,000). The host may have forgotten that grant since. notFound: none ever had that id. invalid: no id.

  revoke @2 (guest :Text) -> (count :UInt32);
  # Revokes every grant of guest, or the one grant with that id, with all that was shared from it, and counts those that were not
  # revoked before. notFound: no such guest. busy as DirControl.revoke.

  setWritable @3 (guest :Text, writable :Bool) -> (count :UInt32);
  # As DirControl.setWritable, for every grant of guest.

  control @4 (id :Text) -> (control :Control);
  # The control of one grant.

  help @5 (method :Text) -> (text :Text);
  # As Session.help.

  status @6 (collect :Bool) -> (status :Status);
  # What the host holds now. collect: after a garbage collection, so that heapBytes is what is held and no more; it
  # costs some milliseconds of every processor, more with a large heap.

  virtualFs @7 () -> (fs :VirtualFs);
  # What composes the tree that is granted. unsupported: this host serves a fixed tree.

  setLimits @8 (guest :Text, limits :List(Limit)) -> (count :UInt32);
  # Changes limits of every grant of guest, or of the one grant with that id, at once, and counts these grants. A kind that is
  # not named keeps its limit. What is held beyond a new limit stays until it is given back. notFound: no such guest.
  # invalid: no limits, a kind that is named twice or not known, a number below 1 that is not -1. revoked: all of them
  # were taken back.

  usage @9 (after :Text, limit :UInt32) -> (grants :List(GrantUsage), more :Bool, host :Usage, strangers :Usage);
  # What guests use now: one page of grants as list answers it, without those that hold nothing any more; host is all of them
  # together; strangers are the connections that have restored nothing. As list, but for the bound, which is 1000.
}
