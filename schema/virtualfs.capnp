@0xa3b89af2cf703460;
# The tree that a host composes: its mounts, and the changes that wait in them. The operator gets a VirtualFs from the
# Console. No interface of a guest leads here, and a guest cannot tell what is mounted.
#
# Paths are as in guest.capnp. The path of a mount is relative to the whole tree ("" is its root). The path of a change is
# relative to its mount. In results, a path that is not valid UTF-8 is a printable form, and rawPath holds the bytes.
#
# Errors are as in guest.capnp. Every method may answer invalid, limit and internal, and errors of opening or reading a
# store. The comments name the other codes. Messages are for the operator, and may name what guests are not shown.

using Cxx = import "/capnp/c++.capnp";
using Go = import "go.capnp";
using Dir = import "guest.capnp".Dir;
using DirControl = import "control.capnp".DirControl;
$Go.package("capnp");
$Go.import("capd/capnp");
$Cxx.namespace("capd");

struct Patterns {
  # The paths that a mount withholds, or whose changes need an approval.
  union {
    default @0 :Void;        # the default of the kind of store
    list @1 :List(Text);     # these; an empty list means none
  }
}

struct Attenuation {
  # Restrictions of a mounted tree.

  readOnly @0 :Bool;         # every change answers readOnly
  noLinks @1 :Bool;          # links are refused (denied) instead of followed
  deny @2 :Patterns;         # what is withheld
  ask @3 :Patterns;          # what may be read, but changed only with an approval
  bytes @4 :UInt64;          # by which the mount may grow; 0: no bound of its own
  nodes @5 :UInt64;          # likewise, in files, directories and links
}

struct Mount {
  path @0 :Text;             # "" is the root
  url @1 :Text;              # as resolved
  kind @2 :Text;             # the URL's scheme
  attenuation @3 :Attenuation;
  detail @4 :Text;           # the store's description, for people; may be empty
  changes @5 :Bool;          # changes wait in it for apply, commit or revert; diff shows them
  kept @6 :Bool;             # its changes are kept on disk, and are there after a restart of the host
}

struct State {
  # What is at a path.
  union {
    absent @0 :Void;
    file @1 :FileState;
    directory @2 :Void;
    symlink @3 :Data;        # its target, as stored
    other @4 :Void;          # a FIFO, a socket, a device
  }
}

struct FileState {
  version @0 :Data;          # 32 bytes, the sha256 of the content; empty when it is unknown
  executable @1 :Bool;
}

struct Change {
  path @0 :Text;
  kind @1 :Kind;
  was @2 :State;
  now @3 :State;
  text @4 :Text;             # a unified diff, if it was asked for; at most 4 MiB
  renamedFrom @5 :Text;      # the old path; set only for renamed
  rawPath @6 :Data;          # empty when path is the real path
  rawFrom @7 :Data;          # empty when renamedFrom is the real path
  lacks @8 :Text;            # what of the change text leaves out, for people; empty: nothing

  enum Kind {
    added @0;
    removed @1;
    modified @2;
    renamed @3;
    mode @4;                 # only the executable bit changed
    type @5;                 # a node of another kind was there
  }
}

struct Skipped {
  # An entry that was left out, and why.
  path @0 :Text;
  why @1 :Text;
  rawPath @2 :Data;          # empty when path is the real path
}

struct Conflict {
  # A path at which the tree is not as a change expects it.
  path @0 :Text;
  was @1 :State;             # what the change expects
  becomes @2 :State;         # what there would be after the change
  now @3 :State;             # what is there now
  why @4 :Text;              # what is wrong and what to do next, for people
  rawPath @5 :Data;          # empty when path is the real path
}

struct Commit {
  message @0 :Text;
  author @1 :Text;           # a name; empty: that of the repository's configuration
  email @2 :Text;            # likewise
  ref @3 :Text;              # a branch; empty: the mount's own
  old @4 :Text;              # the commit, in hexadecimal, that ref must point to; empty: the one at which the mount was opened, or none if ref is new
  review @5 :Data;           # what diff returned for all changes; conflict: they are different by now; empty: any changes
}

struct Snapshot {
  # A tree in a content-addressed store.
  digest @0 :Text;           # of the root: 64 hexadecimal digits
  sizeBytes @1 :UInt64;      # of the root's message
  files @2 :UInt64;
  bytes @3 :UInt64;          # of all files
  newBytes @4 :UInt64;       # bytes of these that were new to the store
}

struct Bounds {
  # How much may be materialized. 0 is the host's default.
  entries @0 :UInt64;
  bytes @1 :UInt64;
}

interface Progress {
  # Receives reports of how far long work has come. The caller of the work serves it. It cannot slow the work or make it
  # fail. While one report is unanswered no other is sent; after the answer only the newest is sent. After a report that
  # failed there are no more. No report is sent after the work has returned, but one may still be on its way.

  report @0 (entries :UInt64, bytes :UInt64) -> ();
  # Says how many entries and bytes are done so far. What counts as an entry depends on the work.
}

interface VirtualFs {
  # Mounts stores, and applies, commits or reverts the changes that wait in them.

  mount @0 (path :Text, url :Text, attenuation :Attenuation) -> ();
  # Mounts the store that url names at path. exists (something is mounted there), busy (something is being mounted there).
  # The url and the patterns together are at most 256 KiB, counting 16 extra bytes for each (tooLarge).

  unmount @1 (path :Text) -> ();
  # Removes the mount at path. Nodes open in it answer stale from then on. Changes that wait in it are dropped, unless they
  # are kept. notFound, busy (changes to the store are under way).

  mounts @2 (after :Data, limit :UInt32) -> (mounts :List(Mount), more :Bool, cursor :Data);
  # Returns one page of the mounts, in byte order of paths. It has at most `limit` mounts (0: 1000; at most 10,000) and may
  # be shorter, since a page has about 1 MiB of text at most. While more is true, ask again with after = cursor. An empty
  # `after` begins at the first.

  root @3 () -> (dir :Dir, control :DirControl);
  # Returns the whole tree, and a control of this Dir and everything derived from it.

  diff @4 (path :Text, paths :List(Text), fromRev :Text, toRev :Text, withText :Bool, after :Data, limit :UInt32) -> (changes :List(Change), more :Bool, review :Data);
  # Returns one page of the changes that wait in the mount at path, in byte order of raw paths.
  #
  # paths chooses the changes at and below them; empty: all. The page begins after the path `after`; empty: at the first.
  # It has at most `limit` changes (0: 1000; at most 10,000), and fewer if their text would exceed about 1 MiB. While more
  # is true, ask again after the last change's path. withText sets each change's text.
  #
  # If fromRev or toRev is not empty, the changes are the differences between two revisions of a git mount instead.
  #
  # review is 32 bytes that identify all changes at and below paths, on this page or not. Pass it to apply, or
  # for all changes to commit. It is empty if revisions are compared. If it differs from that of the page before, the
  # changes have changed: begin again.
  #
  # notFound: nothing is mounted there, or one of paths has neither a node nor a change. unsupported: the mount keeps no
  # changes apart.

  apply @5 (path :Text, paths :List(Text), progress :Progress, review :Data, ours :List(Text), theirs :List(Text), guarded :Bool) -> (id :Text, changes :UInt64, conflicts :List(Conflict), conflictsTotal :UInt64, dropped :List(Text), droppedTotal :UInt64);
  # Applies the changes at and below paths (empty: all) of the overlay at path to the tree below it: all of them, or none.
  # changes is how many were applied, and id is for undo.
  #
  # conflicts lists every path that changed in the tree below too. If it is not empty, nothing was changed and there is no
  # id. It has at most the first 4 MiB of the conflicts; conflictsTotal counts all of them.
  #
  # review, if it is not empty, is what diff returned for the same paths. conflict: the changes are different by now.
  #
  # ours and theirs decide where both sides changed. At and below ours the overlay wins. At and below theirs the tree below
  # stays as it is, and the overlay's changes are dropped; undo does not bring them back. dropped lists the paths of these
  # changes, at most the first 1000, and droppedTotal counts all. Each of ours and theirs must lie at or below paths, and
  # there must be a change at or below it (invalid).
  #
  # guarded lets in changes of guarded paths: those of Attenuation.ask. Otherwise askDenied names them, and nothing was
  # changed.
  #
  # progress may be null. Errors as diff; also denied, readOnly and quota from the tree below.

  undo @6 (path :Text, id :Text) -> (conflicts :List(Conflict), conflictsTotal :UInt64);
  # Reverses a whole apply. The applied changes wait in the overlay again; dropped ones do not. conflicts is as in apply: it
  # lists every path at which the tree below is no longer as the apply left it. notFound: no such apply, or too long ago.

  revert @7 (path :Text, paths :List(Text)) -> (count :UInt64);
  # Drops the changes at and below paths (empty: all). count is how many there were. Errors as diff.

  commit @8 (path :Text, commit :Commit) -> (id :Text);
  # Commits the changes of the git mount at path and returns the commit's id in hexadecimal. conflict: the ref does not
  # point to old, or the changes are not the reviewed ones. unsupported: not a git mount.

  snapshot @9 (path :Text, store :Text, pin :Text, progress :Progress) -> (snapshot :Snapshot);
  # Stores the subtree at path, any directory of the tree, in the content-addressed store that store names (empty: the
  # host's own). It pins the snapshot under the name pin, unless that is empty. progress may be null.

  materialize @10 (path :Text, bounds :Bounds, progress :Progress) -> (tree :Materialized);
  # Copies the subtree at path into a private directory of the host. limit: the subtree is larger than bounds. progress may
  # be null.

  help @11 (method :Text) -> (text :Text);
  # As Session.help.
}

interface Materialized {
  # A copy of a subtree in a private directory of the host, for programs to work in. Releasing it removes the directory,
  # with everything that was not synced back.

  path @0 () -> (path :Text);
  # Returns the path of the directory on the host.

  changes @1 (after :Data, limit :UInt32) -> (changes :List(Change), skipped :List(Skipped), more :Bool, cursor :Data);
  # Returns one page of what sync would bring back, and of what it would leave out, both in byte order of raw paths. It has
  # at most `limit` of both together (0: 1000; at most 10,000) and may be shorter, since a page has about 1 MiB of text at
  # most. While more is true, ask again with after = cursor. An empty `after` compares the directory with the tree; later
  # pages use the newest comparison. The changes have no text.

  sync @2 (progress :Progress) -> (changes :UInt64, skipped :List(Skipped), skippedTotal :UInt64, conflicts :List(Conflict), conflictsTotal :UInt64);
  # Brings back what changed: everything that the tree accepts, or nothing. changes is how many changes that were.
  #
  # skipped is what was left out: what cannot be brought back, what the tree refuses, and what depends on these. It has at
  # most the first 1 MiB; skippedTotal counts everything that was left out.
  #
  # conflicts is as in VirtualFs.apply: every path that changed on both sides. If it is not empty, nothing was brought back.
  #
  # Nothing may write in the directory meanwhile (busy). progress may be null.

  help @3 (method :Text) -> (text :Text);
  # As Session.help.
}
