@0x95e98363bcf36961;
# The host's side of a capability. A guest never gets one of these and cannot tell that they exist.

using Cxx = import "/capnp/c++.capnp";
using Go = import "go.capnp";
$Go.package("capnp");
$Go.import("capd/capnp");
$Cxx.namespace("capd");

interface DirControl {
  # Controls a route: what a guest may do by going this way. It is not the storage; a second mount or grant of the
  # same directory is another route.

  setWritable @0 (writable :Bool) -> ();
  # false: every change through this route answers readOnly, at once, and this answers when no change is under way
  # any more. true: undoes that, and nothing else: what was read-only by attenuation stays so. busy as revoke.

  getWritable @1 () -> (writable :Bool, effective :Bool);
  # As set here; effective: and on every route above, not revoked, and not read-only by attenuation or because the store
  # never changes.

  setReadable @2 (readable :Bool) -> ();
  # false: every look through this route (and every condition on a version) answers denied.

  getReadable @3 () -> (readable :Bool, effective :Bool);

  revoke @4 () -> ();
  # Takes the route back for good, with all that was derived from it, and answers when nothing can change any more.
  # Again is no error. busy: changes that had begun are stuck in a system call past 5 s; it lists them, and asking
  # again waits again.

  getChild @5 (name :Text) -> (control :Control);
  # Controls the route to one name below. While it is controlled, neither it nor a directory on the way to it can be
  # removed, renamed or overwritten through this route (busy). notFound: list would not yield that name.

  help @6 (method :Text) -> (text :Text);
  # As Session.help.
}

interface FileControl {
  # As DirControl, for a route to a file.

  setWritable @0 (writable :Bool) -> ();
  getWritable @1 () -> (writable :Bool, effective :Bool);
  setReadable @2 (readable :Bool) -> ();
  getReadable @3 () -> (readable :Bool, effective :Bool);
  revoke @4 () -> ();
  help @5 (method :Text) -> (text :Text);
}

struct Control {
  union {
    dir @0 :DirControl;
    file @1 :FileControl;
  }
}
