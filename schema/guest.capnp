@0xb52cf1e2ad9ac02d;
# What a guest can hold: a Session, directories, files, and what they hand out.
#
# Confinement: no method returns a parent, a host path, a mount or a control. What is not returned cannot be
# named. Every capability here may be passed on; whoever holds it may use it until it is revoked.
#
# Names and paths. A name is one segment of 1 to 255 bytes, not "." or "..", without "/" and NUL. A path is names
# joined by "/", at most 4095 bytes and 128 names, and starts at the Dir it is given to: a leading "/" is invalid.
# A name to be created is also valid UTF-8 without control, invisible or direction-turning characters and "\\".
#
# Links are followed in paths, as long as they stay within the Dir on which the call is made; any other is
# `outside`. remove and move act on the link itself.
#
# Errors. An exception's text is "capd: code: path: what to do next"; the code is the word after the first "capd: ", and
# one of the set in docs/errors.md. A runtime may put words of its own before the text. Every method may answer revoked, expired, denied, stale, limit, busy, quota and internal; the
# comments name what else. A method that fails has changed nothing, unless its comment says otherwise.
#
# Sizes and offsets are bytes, times milliseconds since the Unix epoch. Text is UTF-8.

using Cxx = import "/capnp/c++.capnp";
using Go = import "go.capnp";
$Go.package("capnp");
$Go.import("capd/capnp");
$Cxx.namespace("capd");

enum Type {
  other @0;      # listed, never opened: a FIFO, a socket, a device
  file @1;
  directory @2;
  symlink @3;
}

struct Stat {
  name @0 :Text;
  # The last name of the path it was reached by; "" for the Dir that a guest was given. In glob's answers the path.
  # When the stored name is not valid UTF-8 this is a printable form, and rawName holds the bytes.
  type @1 :Type;
  sizeBytes @2 :UInt64;      # of a file; 0 for anything else
  modifiedMs @3 :Int64;
  executable @4 :Bool;       # a file that its owner may execute
  version @5 :Data;          # 32 bytes, the sha256 of the content; empty unless it was asked for
  rawName @6 :Data;          # empty when name is the name
}

struct IfVersion {
  # A condition on a change. Where it does not hold the change answers conflict. Left out, it is "any".
  union {
    any @0 :Void;            # no condition
    absent @1 :Void;         # nothing may be there
    equals @2 :Data;         # a file with this version must be there; needs the right to read
  }
}

struct Node {
  stat @0 :Stat;
  union {
    dir @1 :Dir;
    file @2 :File;
    link @3 :Link;
  }
}

struct Link {
  target @0 :Text;           # as stored; empty when it leads outside
  outside @1 :Bool;          # the link is absolute or leads above the Dir on which the call was made
}

struct Missed {
  # A directory that a search could not list, or not to its end, or a name that it could not look up.
  name @0 :Text;             # the path from the Dir on which the call was made; rawName as in Stat
  rawName @1 :Data;
  error @2 :Text;            # "code: what to do next", as an exception's text
}

struct Ref {
  # A capability to a directory or to a file.
  union {
    dir @0 :Dir;
    file @1 :File;
  }
}

interface Session {
  # What a connection gives first. It holds no authority: that is in the secrets.

  restore @0 (secret :Data) -> (ref :Ref);
  # The capability behind a locator's secret (32 bytes). denied when it was never given out, is not 32 bytes, or
  # belongs to another host; revoked or expired when it was taken back. Takes the same time for each.

  share @1 (ref :Ref) -> (secret :Data, revoker :Revoker);
  # A new secret (32 bytes) for a capability of this connection, with exactly its rights: attenuate first. It dies with the capability's own grant; the host bounds how many are live (limit).
  # Dropping the revoker does not revoke. invalid for a capability that the guest serves, as one of another connection
  # is: share it there. isDir for a Dir in the place of a file, notDir for a File in that of a dir.

  help @2 (method :Text) -> (text :Text);
  # What this is and how to use it, in Markdown; with a method's name, about that method. notFound: no such method.

  restoreDir @3 (secret :Data) -> (dir :Dir);
  # As restore, where the caller knows that it is a directory (notDir). Most languages can make calls on a result that has
  # not come yet, and not on a member of a union in it; so here, and not with restore, a chain from the first call on is
  # one round trip.

  restoreFile @4 (secret :Data) -> (file :File);
  # As restoreDir, for a file (isDir).
}

interface Dir {
  # A directory. What it derives (openDir, readOnly, subDir, …) is revoked with it.

  list @0 (after :Data, limit :UInt32, withStat :Bool) -> (entries :List(Stat), more :Bool);
  # One page of the entries, in byte order of their raw names: those after the name `after` (empty: from the first), at
  # most `limit` (0 means 1000, bound 10,000; a page may be shorter). more: ask again after the last name. Sizes, times and the executable
  # bit are there only withStat, which costs a look at each. What policy withholds is not there.

  get @1 (name :Text) -> (node :Node);
  # The node called name, a link as a link. notFound, invalid, notRegular (neither file, directory nor link),
  # crossDevice (another filesystem begins there).

  walk @2 (path :Text, noFollow :Bool, statOnly :Bool) -> (node :Node);
  # The node at path. noFollow: a link in the last place is answered as a link. statOnly: only the node's stat is wanted,
  # and dir or file may be null. As get; notDir, outside, limit (40 links).

  openDir @3 (path :Text, noFollow :Bool) -> (dir :Dir);
  # The directory at path: what walk, or with noFollow get, answers, without a union around it, so that calls can be made on
  # it before it comes. As walk; notDir (with noFollow also for a link in the last place).

  openFile @4 (path :Text, noFollow :Bool) -> (file :File);
  # As openDir, for a file. isDir; with noFollow notRegular for a link in the last place.

  put @5 (path :Text, data :Data, ifVersion :IfVersion, noFollow :Bool) -> (version :Data);
  # Makes data the whole content of the file at path, atomically and durably, and makes the file when it is missing (its
  # directory must be there). A link in the last place is followed to an existing file, unless noFollow. At most 4 MiB (tooLarge:
  # use stage). conflict, readOnly, notDir, isDir, notRegular, askDenied, outside.

  stage @6 (path :Text, ifVersion :IfVersion, noFollow :Bool) -> (writer :Writer);
  # As put, for content of any size: write to the writer, then commit. What put would refuse now, stage refuses, and
  # nothing is staged. All of it, ifVersion too, is checked again when it is committed.

  stat @7 (withVersion :Bool) -> (stat :Stat);
  # Of this directory. It has no version; withVersion is for symmetry with File.

  glob @8 (pattern :Text, after :Data, limit :UInt32) -> (entries :List(Stat), more :Bool, cursor :Data, missed :List(Missed));
  # The files, directories and links below that match, in tree order: by name, a directory before what it holds. In a
  # pattern * and ? stand for characters of one name, ** for any number of names, [a-z] and {a,b} as in a shell. Stat.name is the
  # path from this Dir; type is set, and nothing else. Links are listed, not descended. One page: at most `limit` matches (0
  # means 1000, bound 10,000), and a bounded search, so that a page may be empty: while `more`, ask again with after =
  # cursor. missed: where something could match and could not be looked for, in tree order; what policy withholds is not
  # there, and what one page missed last the next may name again. invalid: a bad pattern, or more than 64 alternatives.

  createDir @9 (path :Text) -> (dir :Dir);
  # An empty directory; its parent must be there. As every change of names it survives a power cut once it has answered.
  # exists, readOnly, askDenied.

  createFile @10 (path :Text) -> (file :File);
  # An empty file, durably. exists (also for a link), readOnly, askDenied.

  remove @11 (path :Text, ifVersion :IfVersion) -> ();
  # Removes the file, the link itself, or the empty directory, durably. notFound, notEmpty, conflict, readOnly, askDenied,
  # busy (the host keeps it there).

  move @12 (path :Text, dst :Dir, newPath :Text, ifVersion :IfVersion, ifTarget :IfVersion) -> ();
  # Moves the node at path to newPath in dst, durably. dst is a Dir of this host; null means this Dir. A target that is there
  # is exists, unless ifTarget names its version. Both Dirs must be writable and the source readable. crossDevice
  # where the host cannot move there, unsupported for a dst that this host does not serve, or that came over another
  # connection (share it there and restore it here), notDir for a File, denied where the rules below differ.

  readOnly @13 () -> (dir :Dir);
  # The same directory, and all below it, without the right to change anything. It is revoked with this one.

  subDir @14 (path :Text, noFollow :Bool) -> (dir :Dir);
  # As openDir: the way to hand on a part. It holds the directory and not the path: whoever gets it cannot leave it.

  revocable @15 () -> (dir :Dir, revoker :Revoker);
  # The same directory, which the holder of the revoker can take back, with all that was derived from it.

  help @16 (method :Text) -> (text :Text);
  # As Session.help.
}

interface File {
  # A regular file: a place in its directory, not a descriptor. After it was replaced a File reads the new content.

  readText @0 () -> (text :Text, version :Data);
  # The whole content, at most 4 MiB (tooLarge: use read or stream). invalid: not UTF-8; use readBytes.

  readBytes @1 () -> (data :Data, version :Data);
  # The whole content, at most 4 MiB (tooLarge: use read or stream).

  read @2 (offset :UInt64, length :UInt32) -> (data :Data, eof :Bool);
  # Up to length bytes (at most 1 MiB, tooLarge) from offset. Fewer only at the end of the file, where eof is set. After
  # a read of just what was left it is not, and the next one answers no bytes, and eof.

  stream @3 (sink :Sink, offset :UInt64, length :UInt64) -> (bytes :UInt64);
  # Writes length bytes from offset (0: to the end) to the caller's sink, in chunks of at most 256 KiB with at most
  # 4 MiB unanswered, then calls done and answers the count. One content: a replacement meanwhile does not show. Ends
  # at once when the capability is revoked. An error of the sink ends it: invalid, with what the sink said; `busy`: the sink
  # took nothing for 30 s.

  writeText @4 (text :Text, ifVersion :IfVersion) -> (version :Data);
  # As Dir.put, at this file's place, but no file is made: notFound when it was removed.

  writeBytes @5 (data :Data, ifVersion :IfVersion) -> (version :Data);
  # As writeText.

  stage @6 (ifVersion :IfVersion) -> (writer :Writer);
  # As Dir.stage, at this file's place; no file is made.

  write @7 (offset :UInt64, data :Data, ifVersion :IfVersion) -> ();
  # Writes data in place, at most 1 MiB; a gap is filled with zeros. Not atomic: a failure midway may leave a part.
  # conflict, readOnly, denied (a file with several hard links), limit (the store is full).

  append @8 (data :Data, ifVersion :IfVersion) -> (offset :UInt64);
  # Writes data, at most 1 MiB, at the end and answers where it begins. Of two appends at once both are kept.

  truncate @9 (sizeBytes :UInt64, ifVersion :IfVersion) -> ();
  # Cuts the file, or adds zeros.

  sync @10 () -> ();
  # Answers when what was written in place would survive a power cut. Whole-file writes need no sync.

  stat @11 (withVersion :Bool) -> (stat :Stat);
  # withVersion reads the file when it changed since it was last read.

  readOnly @12 () -> (file :File);
  # As Dir.readOnly.

  revocable @13 () -> (file :File, revoker :Revoker);
  # As Dir.revocable.

  help @14 (method :Text) -> (text :Text);
  # As Session.help.
}

interface Sink {
  # Where a file is streamed to. The caller hosts it.

  write @0 (data :Data) -> stream;
  # The next bytes, at most 256 KiB. A write that failed or was cancelled ends the stream: what came is not whole.

  done @1 () -> ();
  # Nothing more comes, and everything has. An error where a write was lost.
}

interface Writer {
  # A whole-file write under way. Nothing shows until it is committed; dropping the capability drops the bytes.

  write @0 (data :Data) -> stream;
  # The next bytes, at most 1 MiB. A write that fails, is refused or is cancelled ends the writer, whether it had begun or
  # not, and commit says so. Dropping a call's promise before it was answered cancels the call: keep it until commit has
  # answered. The first error is kept and answered by every later call; for a cancelled write that is invalid.

  commit @1 () -> (version :Data);
  # Puts in place, atomically and durably, what was written before commit was called; what is written later is
  # refused. Once: after it every call is invalid.

  help @2 (method :Text) -> (text :Text);
  # As Session.help.
}

interface Revoker {
  # Takes back what revocable() or share() gave.

  revoke @0 () -> ();
  # Answers when nothing that was derived can change anything any more; again is no error. Dropping a revoker does not
  # revoke. busy: a change that had begun is stuck in a system call; it lists which, and asking again waits again.

  help @1 (method :Text) -> (text :Text);
  # As Session.help.
}
