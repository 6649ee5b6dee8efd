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
  connections @5 :Int64;     # of guests and operators, the asker's own among them; -1: not known
  descriptors @6 :Int64;     # open in the process; -1: not known, as on systems that do not tell
  goroutines @7 :UInt32;
  heapBytes @8 :UInt64;      # in use, with what was not collected yet
  memoryBytes @9 :UInt64;    # mapped for the heap, stacks and the runtime, less what was given back to the system
}

interface Console {
  # Grants, lists and revokes.

  grant @0 (guest :Text, path :Text, readOnly :Bool) -> (grant :Grant, locator :Text, control :Control);
  # Gives guest the node at path ("": the whole namespace). The locator is a secret and is not kept. notFound,
  # invalid (the name: 1 to 64 of a-z A-Z 0-9 . _ -, and not g and a number, which is a grant's id).

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
  # What composes the tree that is granted. unsupported: this host serves a tree that was composed once for all.
}
