@0x95e98363bcf36961;
# The host's side of a capability. A guest never gets one of these and cannot tell that they exist.

using Cxx = import "/capnp/c++.capnp";
using Go = import "go.capnp";
$Go.package("capnp");
$Go.import("capd/capnp");
$Cxx.namespace("capd");

interface DirControl {
  # Controls a route: what a guest may do through one capability. It does not control the storage: a second mount or grant
  # of the same directory is another route.

  setWritable @0 (writable :Bool) -> ();
  # false locks the route: every change through it answers readOnly at once, and setWritable returns when no change is
  # under way any more. true only unlocks it: what is read-only by attenuation stays so. busy as revoke.

  getWritable @1 () -> (writable :Bool, effective :Bool);
  # writable is what was set here. effective says whether changes are possible now: the routes above allow them too,
  # nothing was revoked, and the node is not read-only by attenuation or because its store never changes.

  setReadable @2 (readable :Bool) -> ();
  # false: every read through this route, and every condition on a version, answers denied.

  getReadable @3 () -> (readable :Bool, effective :Bool);

  revoke @4 () -> ();
  # Revokes the route for good, with everything derived from it. Returns when nothing can change through it any more.
  # Calling it again is no error. busy: changes that had begun are stuck in a system call for more than 5 s. The text
  # lists them; call again to wait again.

  getChild @5 (name :Text) -> (control :Control);
  # Controls the route to one name below. While it is controlled, neither it nor a directory on the way to it can be
  # removed, renamed or overwritten through this route (busy). notFound: list would not yield exactly this name.

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
