@0xa3b89af2cf703460;
# The tree that a host composes: what is mounted in it, and what is done with its changes. The operator gets it from his
# Console. No interface of a guest's leads here, and a guest cannot tell what is mounted.
#
# Paths are as in guest.capnp: of mounts, relative to the whole tree ("" is its root); of changes, relative to their
# mount. In what is answered, a path that is not valid UTF-8 is a printable form of it, and rawPath holds the bytes.
#
# Errors are as there. Every method may answer invalid, limit and internal, and what opening or reading a store answers;
# the comments name what else. Messages are for the operator and may name what a guest is not shown.

using Cxx = import "/capnp/c++.capnp";
using Go = import "go.capnp";
using Dir = import "guest.capnp".Dir;
using DirControl = import "control.capnp".DirControl;
$Go.package("capnp");
$Go.import("capd/capnp");
$Cxx.namespace("capd");

struct Patterns {
  # What a mount withholds, or lets be read and not changed.
  union {
    default @0 :Void;        # as the kind of store has it
    list @1 :List(Text);     # these; none when it is empty
  }
}

struct Attenuation {
  # What a mount takes away from the tree that is mounted.

  readOnly @0 :Bool;         # every change answers readOnly
  noLinks @1 :Bool;          # links are refused (denied) rather than followed
  deny @2 :Patterns;         # what is withheld
  ask @3 :Patterns;          # what may be read, and changed only with an approval
  bytes @4 :UInt64;          # by which the mount may grow; 0: no bound of its own
  nodes @5 :UInt64;          # likewise, in files, directories and links
}

struct Mount {
  path @0 :Text;             # "" is the root
  url @1 :Text;              # as it was resolved
  kind @2 :Text;             # the URL's scheme
  attenuation @3 :Attenuation;
  detail @4 :Text;           # what the store says of itself, for people; may be empty
  changes @5 :Bool;          # it holds changes that diff shows, and apply, commit or revert settles
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
  version @0 :Data;          # 32 bytes, the sha256 of the content; empty when it is not known
  executable @1 :Bool;
}

struct Change {
  path @0 :Text;
  kind @1 :Kind;
  was @2 :State;
  now @3 :State;
  text @4 :Text;             # a unified diff, where it was asked for; at most 4 MiB
  renamedFrom @5 :Text;      # a path, for renamed
  rawPath @6 :Data;          # empty when path is the path
  rawFrom @7 :Data;          # empty when renamedFrom is the path
  lacks @8 :Text;            # what text lacks of the change, for people; empty: git apply makes of all texts what the changes are

  enum Kind {
    added @0;
    removed @1;
    modified @2;
    renamed @3;
    mode @4;                 # the executable bit alone
    type @5;                 # a file where a link or a directory was, and so on
  }
}

struct Skipped {
  # Something that was left out.
  path @0 :Text;
  why @1 :Text;
  rawPath @2 :Data;          # empty when path is the path
}

struct Conflict {
  # A path that is no longer as a change found it.
  path @0 :Text;
  was @1 :State;             # what the change was made to
  becomes @2 :State;         # what it makes of it
  now @3 :State;             # what is there now
  why @4 :Text;              # what is wrong, for people
  rawPath @5 :Data;          # empty when path is the path
}

struct Commit {
  message @0 :Text;
  author @1 :Text;           # a name; empty: as the repository's configuration has it
  email @2 :Text;            # likewise
  ref @3 :Text;              # a branch; empty: the mount's own
  old @4 :Text;              # the commit, in hexadecimal, that ref must point to; empty: what the mount was opened at, or nothing if ref is new
}

struct Snapshot {
  # A tree in a content-addressed store.
  digest @0 :Text;           # of the root: 64 hexadecimal digits
  sizeBytes @1 :UInt64;      # of the root's message
  files @2 :UInt64;
  bytes @3 :UInt64;          # of all files
  newBytes @4 :UInt64;       # of these, what the store did not have
}

struct Bounds {
  # How much may be materialized. 0 is the host's default.
  entries @0 :UInt64;
  bytes @1 :UInt64;
}

interface Progress {
  # Told how far long work has come. The caller of the work hosts it. It cannot slow the work or make it fail: while one
  # report is not answered no other is sent, only the newest of those that came meanwhile follows, and after one that
  # failed there are no more. No report comes after the work has been answered, but for one that was on its way.

  report @0 (entries :UInt64, bytes :UInt64) -> ();
  # So many entries and bytes were done so far. Which of them are counted is up to the work.
}

interface VirtualFs {
  # Mounts, and settles what mounts hold that is new.

  mount @0 (path :Text, url :Text, attenuation :Attenuation) -> ();
  # Mounts the store that url names at path. exists (something is mounted there), busy (something is being mounted there).
  # The url and the patterns together are at most 256 KiB, each counted with 16 bytes more (tooLarge).

  unmount @1 (path :Text) -> ();
  # What is open in the mount answers stale from now on. Changes that were neither applied nor committed go with it,
  # unless they are kept.
  # notFound, busy (changes to the store are under way).

  mounts @2 (after :Data, limit :UInt32) -> (mounts :List(Mount), more :Bool, cursor :Data);
  # One page, in byte order of paths: at most `limit` (0 means 1000, bound 10,000; a page may be shorter, at about 1 MiB
  # of text). While `more`, ask again with after = cursor; empty begins at the first.

  root @3 () -> (dir :Dir, control :DirControl);
  # The whole tree, with a control of its own: nobody but the asker goes by this route.

  diff @4 (path :Text, paths :List(Text), fromRev :Text, toRev :Text, withText :Bool, after :Data, limit :UInt32) -> (changes :List(Change), more :Bool, review :Data);
  # One page of the changes that the mount at path holds, in byte order of their raw paths: those at and below paths
  # (empty: all) whose path is after `after` (empty: from the first), at most `limit` (0 means 1000, bound 10,000), and
  # fewer where their text would pass about 1 MiB. more: ask again after the last one's path. fromRev or toRev, of which
  # either may be empty: what differs between two revisions of a git mount instead. withText: with each change's text.
  # review has 32 bytes that stand for all changes at and below paths, on this page or not, and apply takes it; it is empty
  # unless the mount is an overlay and no revisions are compared. Where it is not the page before's, the changes are not the
  # same any more: begin again.
  # notFound (no mount there, or neither a change nor anything else at one of paths), unsupported (the mount keeps no changes aside).

  apply @5 (path :Text, paths :List(Text), progress :Progress, review :Data, ours :List(Text), theirs :List(Text)) -> (id :Text, changes :UInt64, conflicts :List(Conflict), conflictsTotal :UInt64, dropped :List(Text), droppedTotal :UInt64);
  # Lets the changes at and below paths (empty: all) into what lies beneath the mount at path: all of them, or none. id
  # is for undo. Where conflicts is not empty nothing was changed and there is no id: it lists every path that is no
  # longer as the mount found it. Were they more than 4 MiB, the first of them; conflictsTotal counts them all. As diff;
  # denied, readOnly, askDenied and quota of what lies beneath. progress may be null. review, if it is not empty, is
  # what diff answered for the same paths: conflict when the changes are others by now. At and below ours, what the
  # mount holds goes over what changed beneath since. At and below theirs, what is beneath stays and what the mount holds
  # is dropped, and undo does not bring it back: dropped lists those paths, of 1000 the first, and droppedTotal counts them
  # all. Both lie at or below paths, and each is where the mount holds a change or above one (invalid).

  undo @6 (path :Text, id :Text) -> (conflicts :List(Conflict), conflictsTotal :UInt64);
  # Takes an apply back, wholly; what it let in is pending again, and what it dropped is not. notFound: no such apply, or too long ago. conflicts as
  # apply: where what lies beneath is no longer as the apply left it.

  revert @7 (path :Text, paths :List(Text)) -> (count :UInt64);
  # Drops the changes at and below paths (empty: all), and counts them. As diff.

  commit @8 (path :Text, commit :Commit) -> (id :Text);
  # Commits the changes of the git mount at path and answers the commit's id in hexadecimal. conflict: the ref does not
  # point to old. unsupported: no git mount.

  snapshot @9 (path :Text, store :Text, pin :Text, progress :Progress) -> (snapshot :Snapshot);
  # Puts the subtree at path, of any mount, into the content-addressed store that store names (empty: the host's own),
  # pinned under the name pin unless that is empty. progress may be null.

  materialize @10 (path :Text, bounds :Bounds, progress :Progress) -> (tree :Materialized);
  # Copies the subtree at path into a private directory of the host. limit: it is larger than bounds. progress may be
  # null.

  help @11 (method :Text) -> (text :Text);
  # As Session.help.
}

interface Materialized {
  # A copy of a subtree in a private directory of the host, for programs to work in. Releasing it removes the directory,
  # with all that was not synced.

  path @0 () -> (path :Text);
  # Where the directory is on the host.

  changes @1 (after :Data, limit :UInt32) -> (changes :List(Change), skipped :List(Skipped), more :Bool, cursor :Data);
  # One page of what sync would bring back, and of what it would leave out, both in byte order of raw paths: at most
  # `limit` of both together (0 means 1000, bound 10,000; a page may be shorter, at about 1 MiB of text). While `more`,
  # ask again with after = cursor. Empty looks at the directory anew; the pages that follow are of the newest look.
  # There is no text in the changes.

  sync @2 (progress :Progress) -> (changes :UInt64, skipped :List(Skipped), skippedTotal :UInt64, conflicts :List(Conflict), conflictsTotal :UInt64);
  # Brings back what changed: all that the tree takes, or nothing. changes counts it. skipped is what was left out: what
  # cannot be brought back, what the tree refuses at its path, and what depends on these; were it more than 1 MiB, the
  # first of it; skippedTotal counts it all. conflicts as VirtualFs.apply: every path that changed on both sides, and
  # then nothing was brought back. Nothing may write in the directory meanwhile (busy). progress may be null.

  help @3 (method :Text) -> (text :Text);
  # As Session.help.
}
