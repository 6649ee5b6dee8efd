@0xb52cf1e2ad9ac02d;
# What a guest can hold: a Session, directories, files, and what they return.
#
# Confinement. No method returns a parent, a host path, a mount or a control. A guest cannot name what no method
# returns. A guest may pass on every capability here. Whoever holds it may use it until it is revoked.
#
# Names and paths. A name is one segment of 1 to 255 bytes, not "." or "..", without "/" and NUL. A path is names
# joined by "/", at most 4095 bytes and 128 names. It is relative to the Dir of the call: a leading "/" is invalid. A
# new name must also be valid UTF-8, without "\\", without control characters, and without characters that are
# invisible or change the direction of text.
#
# Links. A link in a path is followed as long as it stays within the Dir of the call. Any other link is outside. remove
# and move act on the link itself.
#
# Errors. An exception's text is "capd: code: path: what to do next". The code is the word after the first "capd: ". It
# is one of the codes in docs/errors.md. A runtime may put words of its own before the text. Every method may answer
# revoked, expired, denied, stale, limit, busy, quota and internal. The comments name the other codes. A method that
# fails has changed nothing, unless its comment says otherwise.
#
# Units. Sizes and offsets are bytes, times are milliseconds since the Unix epoch. Text is UTF-8.

using Cxx = import "/capnp/c++.capnp";
using Go = import "go.capnp";
$Go.package("capnp");
$Go.import("capd/capnp");
$Cxx.namespace("capd");

enum Type {
  other @0;      # listed, but cannot be opened: a FIFO, a socket, a device
  file @1;
  directory @2;
  symlink @3;
}

enum Right {
  # What a Dir or a File may do. What it lacks of write, delete and move is readOnly, anything else is denied. Looking up a
  # name needs no right, so whoever holds a Dir can learn whether a name exists.
  read @0;       # contents and versions
  write @1;      # put, stage, create, change in place
  delete @2;     # remove
  list @3;       # list, glob, grep
  move @4;       # move, at both ends; with read at the source and write at the target
  archive @5;    # archive, with list, read and metadata
  watch @6;      # changes
  metadata @7;   # sizes, times, the executable bit, where a link leads
  link @8;       # symlink, with write. It is given only if the host says so
}

struct Stat {
  name @0 :Text;
  # The last name of the path by which the node was reached; "" for the Dir that a guest was given. In glob's results it
  # is the whole path. If the stored name is not valid UTF-8, this is a printable form, and rawName holds the bytes.
  type @1 :Type;
  sizeBytes @2 :UInt64;      # of a file; 0 for anything else
  modifiedMs @3 :Int64;
  executable @4 :Bool;       # a file that its owner may execute
  version @5 :Data;          # 32 bytes, the sha256 of the content; empty unless it was asked for
  rawName @6 :Data;          # empty when name is the stored name
  looked @7 :Bool;           # sizeBytes, modifiedMs and executable were looked at; else they are 0 and false
}

struct IfVersion {
  # A condition on a change. If it does not hold, the change answers conflict. A condition that is left out is "any".
  union {
    any @0 :Void;            # no condition
    absent @1 :Void;         # nothing may be there
    equals @2 :Data;         # a file with this version must be there; needs the right to read
  }
}

struct Attributes {
  # What File.setAttributes sets. What is kept stays as it is.
  executable :union {
    keep @0 :Void;
    set @1 :Bool;            # whether whoever can read the file can execute it
  }
  modified :union {
    keep @2 :Void;
    ms @3 :Int64;            # from 0 to 9214646399999, the end of the year 2261
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
  target @0 :Text;           # as stored; null when it leads outside, and without the right to metadata
  outside @1 :Bool;          # the link is absolute or leads above the Dir of the call
}

struct Missed {
  # A directory that a search could not list completely, or a name that it could not look up.
  name @0 :Text;             # the path from the Dir of the call; rawName as in Stat
  rawName @1 :Data;
  error @2 :Text;            # "code: what to do next", as in an exception's text
}

struct Grep {
  # What grep looks for, and what it shows.
  pattern @0 :Text;          # a regular expression in RE2's syntax, at most 1024 bytes; it matches within one line
  ignoreCase @1 :Bool;
  words @2 :Bool;            # only whole words: no letter, digit or _ right before or after the match
  fixed @3 :Bool;            # the pattern is no expression, and stands for itself
  show @4 :Show;
  before @5 :UInt32;         # lines to show before each that matches, at most 100
  behind @6 :UInt32;         # lines to show after it, at most 100
  lineBytes @7 :UInt32;      # how much of a line to show (0: 500; at most 4096)
  only @8 :List(Text);       # patterns as in glob: of these files alone. One without "/" is for names at any depth
  exclude @9 :List(Text);    # patterns likewise: not these files, and nothing below these directories
  ignoreFiles @10 :Bool;     # leave out what .gitignore and .ignore name, and .git
  noHidden @11 :Bool;        # leave out names that begin with a dot

  enum Show {
    lines @0;
    names @1;                # which files have a line that matches
    counts @2;               # and how many
  }
}

struct Found {
  # A file in which something matches.
  name @0 :Text;             # the path from the Dir of the call; rawName as in Stat
  rawName @1 :Data;
  lines @2 :List(Line);
  count @3 :UInt64;          # lines that match, of those that this page is about
  binary @4 :Bool;           # it holds a NUL, so its lines are neither shown nor counted

  struct Line {
    number @0 :UInt64;       # from 1
    text @1 :Text;           # without its end; what is not UTF-8 is shown as U+FFFD
    sizeBytes @2 :UInt64;    # of the whole line: text is less if that was cut
    fromByte @3 :UInt64;     # where text begins in it
    match @4 :Bool;          # false: a line before or after one that matches
  }
}

struct Content {
  # A whole file, or why it could not be read.
  data @0 :Data;
  version @1 :Data;          # 32 bytes, as in Stat
  error @2 :Text;            # as in Missed; empty if the file was read
}

struct Known {
  # What a guest knows of a path.
  path @0 :Text;
  version @1 :Data;          # 32 bytes, of the file that was there; empty: nothing was there
}

struct Differing {
  # A path at which something else is now than a guest knows.
  index @0 :UInt32;          # in the list of the call
  version @1 :Data;          # 32 bytes, of the file that is there now
  error @2 :Text;            # as in Missed; why there is no version: notFound, isDir, denied …
}

struct Branch {
  # An entry of a tree.
  stat @0 :Stat;             # name, type and, of a file, the size if it was asked for; of the directory itself the name is empty
  depth @1 :UInt16;          # 0 for the directory itself, 1 for its entries
  more @2 :UInt32;           # how many entries of this directory are not shown
  atLeast @3 :Bool;          # not all of its entries were looked at, so there may be more
  left @4 :UInt32;           # how many were left out because they are ignored or hidden
}

struct Past {
  # An entry of history: what was done together.
  id @0 :UInt64;
  atMs @1 :Int64;
  turn @2 :Text;             # as Dir.turn named it
  undoes @3 :Bool;           # it is an undo
  undoneBy @4 :UInt64;       # the id of the undo that undid it; 0: none
  outside @5 :Bool;          # it reached out of the Dir of the call, or to what policy withholds, and cannot be undone here
  lost @6 :Bool;             # what it displaced is not kept, so it cannot be undone
  changes @7 :List(Changed);
  more @8 :UInt32;           # how many of the changes are not shown, since their paths are more than 256 KiB

  struct Changed {
    # The change of one place.
    op @0 :Text;             # create, mkdir, replace, remove, rename, write, append, truncate, symlink or attributes
    path @1 :Text;           # from the Dir of the call; rawPath as Stat.rawName
    rawPath @2 :Data;
    to @3 :Text;             # of a rename, where to; rawTo likewise
    rawTo @4 :Data;
    type @5 :Type;           # of what is there afterwards, or of what was removed
    existed @6 :Bool;        # something was at the place before
    before @7 :Data;         # version of the file that was there; empty if it is not known. readPast reads it
    then @8 :Data;           # version of the file afterwards, likewise
    bytesBefore @9 :UInt64;
    bytesThen @10 :UInt64;
  }
}

struct Undoing {
  # Which changes are undone.
  union {
    id @0 :UInt64;           # the entry of history with this id
    last @1 :UInt32;         # so many entries: the newest that are not undone, and no undo themselves
    turn @2 :Text;           # all of this turn that are not
    sinceMs @3 :Int64;       # everything since then that is not
  }
}

struct UndoStep {
  # A change that undo makes.
  op @0 :Text;               # as in Past
  path @1 :Text;             # rawPath as Stat.rawName; empty if it is outside of the Dir of the call, or policy withholds it
  rawPath @2 :Data;
  to @3 :Text;               # of a rename, where to; rawTo likewise
  rawTo @4 :Data;
  error @5 :Text;            # why it cannot be made, as in Missed; empty if it can
}

struct Ref {
  # A capability to a directory or to a file.
  union {
    dir @0 :Dir;
    file @1 :File;
  }
}

struct Terms {
  # What ends a share besides the end of what it came from, and what it may store. 0 is no end and no bound of its own.
  expiresInMs @0 :UInt64;    # it expires so many milliseconds after the call
  unusedMs @1 :UInt64;       # it expires when no connection has held it for so long
  uses @2 :UInt64;           # how often it can be restored
  storedBytes @3 :UInt64;    # by how much it may make stored data grow: contents
  storedNodes @4 :UInt64;    # likewise: files, directories and links
}

struct Share {
  # A share, as whoever shared it sees it.
  id @0 :Text;               # "2"; what was shared from that is "2/1"
  path @1 :Text;             # from the Dir of the call; "" for that itself. rawPath as Stat.rawName
  rawPath @2 :Data;
  rights @3 :List(Right);
  madeMs @4 :Int64;
  expiresMs @5 :Int64;       # when it expires by its own terms; 0: never
  unusedMs @6 :Int64;        # as in its terms; so are storedBytes and storedNodes
  usesLeft @7 :Int64;        # how often it can still be restored; 0: any number, -1: not at all
  storedBytes @8 :Int64;
  storedNodes @9 :Int64;
}

interface Session {
  # The first capability of a connection. It has no authority by itself: the secrets have it.

  restore @0 (secret :Data) -> (ref :Ref);
  # Returns the capability for a locator's secret (32 bytes). denied: the secret was never given out, is not 32 bytes, or
  # belongs to another host. revoked, expired: it is no longer valid. The time of an answer does not show which. stale:
  # what it leads to was moved, replaced or unmounted; the secret works again when that is back.

  share @1 (ref :Ref, terms :Terms) -> (secret :Data, revoker :Revoker, id :Text);
  # Makes a new secret (32 bytes) for a capability of this connection. The secret has exactly the rights of the
  # capability, so attenuate first. It ends with the grant that the capability came from, or earlier by the terms; with its
  # grant it outlives the connection and a restart of the host. Dropping the revoker does not
  # revoke it; revokeShare does without it. limit: too many secrets are live. invalid: the guest itself serves the capability. One that came over
  # another connection is such a capability: share it there. isDir: a Dir was passed as file. notDir: a File was passed as
  # dir.

  help @2 (method :Text) -> (text :Text);
  # Explains this interface, in Markdown. With the name of a method, it explains that method. notFound: no such method.

  restoreDir @3 (secret :Data) -> (dir :Dir);
  # As restore, for a secret of a directory (notDir). In most languages a call can be made on a result before it has
  # arrived, but not on a member of a union in it. So a chain of calls that begins here is one round trip, and one that
  # begins with restore is not.

  restoreFile @4 (secret :Data) -> (file :File);
  # As restoreDir, for a file (isDir).

  shares @5 (ref :Ref, after :Text) -> (shares :List(Share), more :Bool);
  # Returns one page, at most 256, of the live shares that were made of ref, of what was derived from it, and of those
  # shares, oldest first. The page begins after the share with the id `after`; empty: at the first. While more is true, ask
  # again after the last id. A capability that was restored with the same secret has the same shares. One that was made
  # revocable has only those that were made since the host started. notFound: nothing with the id `after` was shared from ref.
  # Otherwise as share.

  revokeShare @6 (ref :Ref, id :Text) -> ();
  # Revokes the share with this id, which shares would list, as its Revoker does. Revoking it again is no error. notFound:
  # nothing with this id was shared from ref. busy as Revoker.revoke.

  restorePetitioner @7 (secret :Data) -> (petitioner :Petitioner);
  # As restoreDir, for the secret of an invitation. invalid: the secret is that of a grant. limit: too many connections use
  # this invitation, or invitations. An invitation works on any number of connections, one after the other; only the 4
  # that came last keep theirs.
}

struct Offer {
  # A directory with a purpose, for which the holder of a Petitioner may ask.

  id @0 :Text;
  kind @1 :Text;            # workspace, extension-storage, artifact, temp, knowledge or downloads
  name @2 :Text;            # for people; "" for none
  labels @3 :List(Text);
  rights @4 :List(Right);   # the most that can be asked for
  granted @5 :List(Right);  # of these, what is given without asking anybody
}

interface Petitioner {
  # Asks the people at the host for what a subject does not hold yet. It gives no access by itself.

  roots @0 () -> (roots :List(Offer));
  # Returns what can be asked for.

  requestDir @1 (root :Text, access :List(Right), reason :Text) -> (dir :Dir);
  # Asks for a directory: root is the id of a root, or ID/PATH for what is at a path in it. access: the rights, at least
  # one. reason, at most 1024 bytes, is shown to whoever decides. It answers when somebody has said yes, or at once if that
  # is given without asking. Calls can be made on dir before: they wait, and count as calls of this connection. dir may
  # have fewer rights than were asked for; rights() says which. The request outlives the call: an equal one, also over
  # another connection, gets the decision within 10 minutes. notFound: no such root, or nothing is at the path. notDir.
  # denied: the root never gives these rights, or the answer is no; the text has the reason. askDenied: nobody is there to
  # decide. askTimeout: nobody decided within 120 s. limit: another request for this root waits, or 16 do. invalid.

  requestFile @2 (root :Text, access :List(Right), reason :Text) -> (file :File);
  # As requestDir, for a file: root is ID/PATH. isDir.

  help @3 (method :Text) -> (text :Text);
  # As Session.help.
}

interface Dir {
  # A directory. What is derived from it (openDir, readOnly, subDir, …) is revoked with it.

  list @0 (after :Data, limit :UInt32, withStat :Bool) -> (entries :List(Stat), more :Bool);
  # Returns one page of the entries, in byte order of raw names. The page begins after the name `after`; empty: at the
  # first. It has at most `limit` entries (0: 1000; at most 10,000) and may be shorter. While more is true, ask again
  # after the last name. Sizes, times and the executable bit are set only withStat, which looks at each entry and needs the
  # right to metadata too. Entries that policy withholds are left out.

  get @1 (name :Text) -> (node :Node);
  # Returns the node called name. It does not follow a link. Without the right to metadata, the stat has the name and the
  # type alone, and a link has no target. notFound, invalid, notRegular (neither file, directory nor
  # link), crossDevice (another filesystem begins there).

  walk @2 (path :Text, noFollow :Bool, statOnly :Bool) -> (node :Node);
  # Returns the node at path, as get does. noFollow: if path ends in a link, it returns the link. statOnly: only the node's
  # stat is set, and dir or file may be null; it needs the right to metadata. Errors as get; also notDir, outside, limit (40 links).

  openDir @3 (path :Text, noFollow :Bool) -> (dir :Dir);
  # Returns the directory at path. Unlike walk it returns no union, so calls can be made on the result before it has
  # arrived. noFollow: if path ends in a link, it answers notDir. Errors as walk.

  openFile @4 (path :Text, noFollow :Bool) -> (file :File);
  # As openDir, for a file. isDir. noFollow: if path ends in a link, it answers notRegular.

  put @5 (path :Text, data :Data, ifVersion :IfVersion, noFollow :Bool) -> (version :Data);
  # Makes data the whole content of the file at path, atomically and durably. It creates the file if it is missing; the
  # file's directory must exist. If path ends in a link, it follows the link to an existing file, unless noFollow. data is
  # at most 4 MiB (tooLarge: use stage). conflict, readOnly, notDir, isDir, notRegular, askDenied, outside.

  stage @6 (path :Text, ifVersion :IfVersion, noFollow :Bool) -> (writer :Writer);
  # As put, for content of any size: write to the writer, then commit. What put would refuse now, stage refuses too.
  # commit checks everything again, including ifVersion.

  stat @7 (withVersion :Bool) -> (stat :Stat);
  # Returns the stat of this directory. withVersion has no effect, since a directory has no version.

  glob @8 (pattern :Text, after :Data, limit :UInt32, ignoreFiles :Bool, noHidden :Bool) -> (entries :List(Stat), more :Bool, cursor :Data, missed :List(Missed));
  # Returns one page of the files, directories and links below that match pattern, in tree order: by name, a directory
  # before its entries. In a pattern * and ? stand for characters of one name, ** for any number of names, and [a-z] and
  # {a,b} are as in a shell. Stat.name is the path from this Dir; only type is set besides. Links are listed and not
  # followed. A page has at most `limit` matches (0: 1000; at most 10,000). Each call searches a bounded part of the tree,
  # so a page may be empty. While more is true, ask again with after = cursor. missed has the places that could not be
  # searched and where something could match, in tree order. It leaves out what policy withholds. The next page may repeat
  # some of them. ignoreFiles: leave out what .gitignore, .ignore and .git/info/exclude name, in this Dir and below, and
  # .git, but not what the pattern spells out from its start. An ignore file counts up to 1 MiB and 16,384 rules, and without the right to
  # read not at all; if it does not count for another reason it is in missed. noHidden: a wildcard does not match a dot at
  # the start of a name. invalid: a bad pattern, or more than 64 alternatives.

  createDir @9 (path :Text) -> (dir :Dir);
  # Makes an empty directory. Its parent must exist. Like every change of names it is durable when it has answered: it
  # survives a power cut. exists, readOnly, askDenied.

  createFile @10 (path :Text) -> (file :File);
  # Makes an empty file, durably. exists (also for a link), readOnly, askDenied.

  remove @11 (path :Text, ifVersion :IfVersion) -> ();
  # Removes the file, the link itself, or the empty directory, durably. notFound, notEmpty, conflict, readOnly, askDenied,
  # busy (the host keeps it there).

  move @12 (path :Text, dst :Dir, newPath :Text, ifVersion :IfVersion, ifTarget :IfVersion, replace :Bool) -> ();
  # Moves the node at path to newPath in dst, durably. dst is a Dir of this host; null means this Dir. If something is at
  # newPath it answers exists, unless that is a file and ifTarget names its version. replace: what is at newPath is replaced
  # at once, as rename(2) does: a file or a link by a file or a link, and an empty directory by a directory. Otherwise isDir,
  # notDir or notEmpty. Both Dirs need the right to move; the source also needs the right to read, and the target the right to
  # write, and with replace to delete. crossDevice: the host cannot move there. unsupported: this host does not serve dst, or dst
  # came over another connection (share it there and restore it here). notDir: dst is a File. denied: different rules
  # apply below the two places. outside: a link at path, or in the directory there, would lead out of the grant or its tree
  # from its new place. An absolute link leads to the same from everywhere, and moves. limit: a link would be more than 128 names
  # deep there.

  readOnly @13 () -> (dir :Dir);
  # Returns the same directory without the right to change it or anything below it. It is revoked with this one.

  subDir @14 (path :Text, noFollow :Bool) -> (dir :Dir);
  # As openDir. Use it to give a part of the tree away: the result is bound to the directory and not to the path, and
  # its holder can reach nothing outside of it.

  revocable @15 () -> (dir :Dir, revoker :Revoker);
  # Returns the same directory as a capability that the holder of the revoker can revoke, with everything derived from
  # it.

  help @16 (method :Text) -> (text :Text);
  # As Session.help.

  narrow @17 (keep :List(Right)) -> (dir :Dir);
  # Returns the same directory with those of its rights that are in keep, for it and for everything below it. It is
  # revoked with this one. A right that this host does not know is ignored, and one that is not named is dropped, even if a
  # later version of capd invents it. invalid: keep has more than 64 elements.

  rights @18 () -> (rights :List(Right));
  # Returns the rights that this capability has now, less what the host has locked. What a rule, a mount or the store
  # refuses besides is not looked at.

  explain @19 (right :Right, path :Text, to :Text) -> (allowed :Bool, asks :Bool, reasons :List(Text));
  # Says whether something at path could be done now, without doing it: read, write (put a whole file), delete, list, metadata
  # or move, which needs to, a path below this Dir. asks: it would wait for an approval. reasons: what decides, as far as a
  # guest is told; the error of the call is the last of them. invalid: another right, or a move without to.

  grep @20 (path :Text, what :Grep, after :Data, limit :UInt32) -> (found :List(Found), more :Bool, cursor :Data, missed :List(Missed));
  # Searches the contents of the files at path and below; path is this Dir if it is empty, and may be a file. What path names
  # counts, even if it is hidden or an ignore file names it. It needs the rights to read and to list. It returns one page, in tree
  # order: at most `limit` lines that match, or files with names and counts (0: 1000; at most 10,000), and about 64 KiB. Each call
  # searches a bounded part, so a page may be empty. While more is true, ask again with after = cursor. Links are not
  # followed. What policy withholds, or asks about, is neither searched nor counted. missed as in glob, with files that could
  # not be read. invalid: a bad pattern, or one that is too large.

  archive @21 (path :Text, format :Text, sink :Sink) -> (entries :UInt64, bytes :UInt64, missed :List(Missed));
  # Sends the directory at path, or this one if path is empty, to the caller's sink as an archive, with everything below it, then calls
  # done: entries is how many files, directories and links it has, and bytes is how many the sink was sent. format is zip, tar, tar.gz or
  # tar.zst. Chunks are as in File.stream. Links are kept as they are. It leaves out what policy withholds. missed has, in tree order, the
  # first 1000 paths that could not be read and are left out. Needs the rights to archive, list, read and metadata. invalid: no
  # such format, or the sink failed. limit: more than 1,000,000 entries. busy as File.stream. Errors as openDir.

  readMany @22 (paths :List(Text)) -> (files :List(Content));
  # Returns the whole contents of the files at these paths, in their order, each as openFile and readBytes return it: at
  # most 256 paths (tooLarge), and at most 4 MiB of contents. Where the next content does not fit, files ends: ask again
  # for the rest. There is always one, unless there are no paths. A file that cannot be read has an error, and the others
  # are read. Nobody is asked for an approval: a file that needs one has askDenied, and readBytes asks.

  tree @23 (path :Text, depth :UInt32, limit :UInt32, maxBytes :UInt32, ignoreFiles :Bool, noHidden :Bool, withStat :Bool) -> (branches :List(Branch), missed :List(Missed));
  # Returns the shape of the directory at path (empty: this Dir), in tree order: the directory itself, and what is below it.
  # It is made level by level until a bound is met, at most depth levels (0: all), limit entries (0: 1000; at most
  # 10,000), and maxBytes of names (0 and at most 1 MiB; each counts 1 more, and 2 for each level above). A level that does
  # not fit is shared evenly by its directories, and in each the directories come first. What is left out is counted; it
  # looks at about 50,000 entries at most. Links are not followed. ignoreFiles, noHidden and missed as in glob; the ignore
  # files from this Dir down to path count, too, but path itself is shown even if it is ignored. withStat: sizes of files,
  # which need the right to metadata. Errors as openDir.

  changedSince @24 (known :List(Known)) -> (changed :List(Differing), looked :UInt32);
  # Says which of these paths, at most 1000 (tooLarge), are not as they were known, in their order. A file is as it was if it
  # has the version that File.stat and every read and write return. Files are read only if they changed since their version was last computed.
  # looked is how many paths were looked at. They are all, unless that took more than 10 s: then ask again for the rest.
  # There is always one, unless there are no paths. A path that cannot be read differs, and has an error. Nobody is asked for an approval, as in
  # readMany. It needs the right to read.

  patch @25 (text :Data, reverse :Bool, dryRun :Bool) -> (files :List(PatchedFile));
  # Applies a patch, at most 4 MiB (tooLarge) and 524,288 lines (limit), to the files that it names, all or none: a unified diff, also with git's
  # extended headers, or the format V4A of the tool apply_patch. A hunk is located by the lines that it keeps and removes.
  # Its line number decides only between several such places, and its counts do not matter. LF in the patch stands for the
  # line ending that the file has there. reverse takes the patch back. dryRun changes nothing, and answers what would come
  # of it; who would have to approve is not asked. Directories for new files are made. No link is followed. At most 1,000
  # files and new directories. It needs the rights to read and write, to delete for what it removes or renames, and to
  # metadata for what it makes executable or not. If files need an approval, one is asked for, for all of them. After a kill
  # of the host all is done, or nothing once it has started again. conflict: a hunk fits nowhere, or at several places, or
  # somebody else changed a file meanwhile; the text says which, where, and what is closest. notFound: a file that is changed
  # is missing. exists: a file that is made is there. unsupported: a binary patch, a link or a submodule; or the host keeps no
  # journal. invalid: not a patch; or V4A that removes a file, reversed. tooLarge: a file above 8 MiB. internal: it failed,
  # and not all could be taken back; the text says which paths.

  history @26 (before :UInt64, limit :UInt32) -> (entries :List(Past), more :Bool, sinceMs :Int64);
  # Returns one page of what was changed in this Dir and below through this capability's grant, and through what was shared
  # from it, the newest first: at most `limit` entries (0 and at most 256) that are older than the one with the id `before` (0: the newest). While
  # more is true, ask again with the last id. The host keeps what changes displaced within bounds. Of what was changed until sinceMs something
  # is missing; 0: nothing is. It leaves out what policy withholds: a path is empty where only the other one is shown. Where a rule asks before
  # reads it shows no versions. unsupported: this host keeps no history.

  undo @27 (what :Undoing, dryRun :Bool) -> (id :UInt64, entries :List(UInt64), steps :List(UndoStep));
  # Takes back what is named: makes the inverse changes, newest first. They are ordinary changes, need the rights of such, are asked
  # about and recorded, and can be undone: id is their entry of history, or 0 if there was nothing to change. entries are those that were named. Before anything is
  # changed, all of it is tried. If one place is no longer what the change left, nothing is undone: conflict, with the places. dryRun
  # changes nothing; each of the steps has an error if it cannot be made. notFound: history has no such change. denied: a change reached out
  # of this Dir. limit: more than 1000 changes. invalid. It needs the right to read, for old content is shown again.

  readPast @28 (path :Text, version :Data, offset :UInt64, length :UInt32) -> (data :Data, eof :Bool, sizeBytes :UInt64);
  # Reads, as File.read does, a content that a change displaced at path, by its version: `before` in history. notFound: history does not have
  # it, or not any more. denied: policy withholds path. askDenied: a rule asks before reads there, and nobody is asked about old content.

  turn @29 (name :Text) -> (dir :Dir);
  # Returns the same directory; what is changed through it, or through what is derived from it, belongs to the turn with this name: at
  # most 256 bytes. It is revoked with this one. invalid.

  change @30 (steps :List(Step), dryRun :Bool) -> (versions :List(Data));
  # Makes steps, one after the other, all or none: at most 1,000, which concern at most 1,000 paths. Each sees what those before
  # it leave. All contents are at most 4 MiB together: put more with stage, under another name, and then move it. versions has
  # for each step the version that a put or an edit leaves, and nothing for the others. What patch says of kills, approvals, dryRun,
  # links and internal holds here, too. A step needs the rights that it needs as a call by itself; put needs the right to read unless
  # its condition is absent. The errors are those of the calls, and say which step. limit: more steps, or more than 64 MiB of
  # contents that are written, moved, replaced and removed.

  copy @31 (path :Text, dst :Dir, newPath :Text, ifVersion :IfVersion, ifTarget :IfVersion, replace :Bool) -> (entries :UInt64, sizeBytes :UInt64);
  # Copies the file or directory at path, with everything in it, to newPath in dst, durably: all of it or nothing. dst is a Dir of this
  # host; null means this Dir. What policy withholds is left out. Executable bits are kept, times are not. If something is at newPath it
  # answers exists, unless both are files and ifTarget names its version, or replace is set; then that file is replaced at once.
  # entries are the files, directories and links that were copied, sizeBytes the bytes of files; both are 0 if the same content was there.
  # It needs the right to read, for a directory also to list, and to write at the target, with replace also to delete. limit: more than
  # 65536 entries. outside: a link in the directory leads out of it. unsupported: a link by itself; this host does not serve dst, or dst came over
  # another connection. conflict: it changed meanwhile. invalid: into itself. isDir, notRegular: replace of what is no file.

  extract @32 (path :Text, dst :Dir, newPath :Text) -> (entries :UInt64, sizeBytes :UInt64);
  # Extracts the archive at path (zip, tar, tar.gz or tar.zst, told by its content) to newPath in dst, durably: all of it or nothing. dst is
  # as in copy. If nothing is at newPath, a directory is made there, as copy makes one. If a directory is there, or newPath is empty, what the
  # archive holds is added to it as one change: at most 1,000 files and directories, and 64 MiB. Nothing is replaced: exists. Executable
  # bits are kept, times are not. entries and sizeBytes are what was made, as in copy. It needs the right to read the archive, and to write
  # at the target; to add executable files to a directory also metadata. invalid: not an archive, a damaged one, one whose entries share bytes, or a name that could
  # not be made. unsupported: a link, a sparse file, an encrypted one, or dst as in copy. notRegular: a device. exists: two entries of one name, or something is
  # there. limit: more than 65536 entries, 4 GiB, 200 times the archive, 1 GiB of a tar file that is compressed, or what may be kept
  # for the guest meanwhile.

  temp @33 () -> (dir :Dir);
  # Makes an empty directory of the guest's own and returns it. Nobody else reaches it, and it cannot be shared (denied). It is removed, with
  # what is in it, when neither it nor anything reached through it is held any more, and when the connection or the host ends. It has the
  # rights of this Dir, and is locked and revoked with it. What is in it counts in the grant's limits until it is removed. Nothing in it is
  # recorded or kept for undo. move and copy take it as source and as dst; the rules and rights at both ends apply. It needs the right to
  # write. limit: the grant has too many (limit temps). unsupported: this host makes none.

  changes @34 (cursor :Data, waitMs :UInt32, others :Bool) -> (events :List(ChangeEvent), cursor :Data, rescan :Bool, complete :Bool);
  # Returns what changed in this Dir and below since the answer that had `cursor`, oldest first: at most 1,000 events, and 64 KiB of paths; ask
  # again with the new cursor for more. An empty cursor begins now. If there is nothing, it waits for waitMs, at most 60,000; what happens within 50 ms
  # comes together. others: leave out what was done through the grant that asks.
  # rescan: something may have been missed. It is always set when a cursor is empty, older than what the host keeps (65,536 events, 8 MiB of
  # paths, and until nobody has asked for 10 minutes), or of an earlier run of the host. Whoever lists after such an answer, and goes on with its cursor,
  # misses nothing. complete: what other programs of the host change is told too. It is not if there are more directories than may be
  # watched for the grant (limit watches), where the host cannot watch a file system, or on hosts other than Linux.
  # A directory that is created, moved or removed stands for everything in it. What policy withholds is left out. It needs the right to
  # watch. stale: this Dir was moved or removed. invalid: this is no cursor. limit: the grant watches too much. unsupported: in a
  # temporary directory.

  symlink @35 (path :Text, target :Text) -> ();
  # Makes a link at path, durably. target is a path from the directory of the link: first any number of "..", then names, such as
  # "../lib/a.js". What it names need not exist. It needs the rights to link and to write. outside: target is absolute, has ".."
  # after a name, or leads out of this Dir, of the grant, or of the tree that the link is in, by itself or through other links. invalid: a
  # name in target that could not be made. denied: it leads to what policy withholds, or to links that are refused there. exists, readOnly,
  # askDenied, unsupported, limit (40 links).
}

struct ChangeEvent {
  # Something that changed. Several changes of one path may come as one.
  kind @0 :Kind;
  path @1 :Text;             # from the Dir; rawPath as Stat.rawName
  rawPath @2 :Data;
  was @3 :Text;              # of moved, where it was; rawWas likewise
  rawWas @4 :Data;
  own @5 :Bool;              # it was done through the grant that asks
  by @6 :Text;               # the id of the share of that grant through which it was done; empty for everybody else
  atMs @7 :Int64;

  enum Kind {
    created @0;              # something is there, perhaps in place of something else
    changed @1;              # its content or its attributes
    removed @2;
    moved @3;
  }
}

struct Step {
  # A step of Dir.change. Paths are from the Dir.
  path @0 :Text;
  ifVersion @1 :IfVersion;           # on what is at path
  union {
    put @2 :Data;                    # the new content of the file
    edit :group {
      edits @3 :List(Edit);          # as File.edit
    }
    remove @4 :Void;                 # a file, a link or an empty directory
    createDir @5 :Void;
    move :group {
      to @6 :Text;                   # the new path
      over @7 :Data;                 # the version of the file there, which is replaced; empty: nothing may be there
    }
  }
}

struct PatchedFile {
  # What a patch has made of one path.
  path @0 :Text;
  source @1 :Text;                   # where the content was before, of a file that was renamed or copied; otherwise empty
  version @2 :Data;                  # the file's version now; empty for one that was removed
  was @3 :Data;                      # its version before; empty for none
  diff @4 :Text;                     # what has changed, as git diff shows it; empty for contents that are not text or too long
  changed @5 :List(LineRange);       # the lines that were changed, as far as diff shows them
}

interface File {
  # A regular file: a place in its directory, not a descriptor. After the file was replaced, a File reads the new content.

  readText @0 () -> (text :Text, version :Data);
  # Returns the whole content, at most 4 MiB (tooLarge: use read or stream). invalid: not UTF-8; use readBytes.

  readBytes @1 () -> (data :Data, version :Data);
  # Returns the whole content, at most 4 MiB (tooLarge: use read or stream).

  read @2 (offset :UInt64, length :UInt32) -> (data :Data, eof :Bool);
  # Returns up to length bytes (at most 1 MiB, tooLarge) from offset. There are fewer only at the end of the file, and
  # then eof is true. A read of exactly the bytes that are left does not set eof; the next read returns no bytes and sets
  # it.

  stream @3 (sink :Sink, offset :UInt64, length :UInt64) -> (bytes :UInt64);
  # Sends length bytes from offset (0: to the end) to the caller's sink, then calls done and returns how many it sent.
  # Chunks are at most 256 KiB, and at most 4 MiB are unanswered. All bytes are of one content: a replacement meanwhile
  # does not show. If the capability is revoked the stream ends at once. invalid: the sink failed; the text has the sink's
  # error. busy: the sink took nothing for 30 s.

  writeText @4 (text :Text, ifVersion :IfVersion) -> (version :Data);
  # As Dir.put, for this file. It does not create the file: notFound when it was removed.

  writeBytes @5 (data :Data, ifVersion :IfVersion) -> (version :Data);
  # As writeText.

  stage @6 (ifVersion :IfVersion) -> (writer :Writer);
  # As Dir.stage, for this file. It does not create the file.

  write @7 (offset :UInt64, data :Data, ifVersion :IfVersion) -> ();
  # Writes data in place, at most 1 MiB (tooLarge), and fills a gap with zeros. It is not atomic: a failure may leave a
  # part. conflict, readOnly, denied (a file with several hard links), limit (the store is full).

  append @8 (data :Data, ifVersion :IfVersion) -> (offset :UInt64);
  # Writes data, at most 1 MiB (tooLarge), at the end, and returns the offset at which it begins. Two concurrent appends
  # are both kept.

  truncate @9 (sizeBytes :UInt64, ifVersion :IfVersion) -> ();
  # Sets the file's size: cuts the file, or adds zeros.

  sync @10 () -> ();
  # Returns when everything written in place would survive a power cut. Whole-file writes need no sync.

  stat @11 (withVersion :Bool) -> (stat :Stat);
  # Returns the stat of this file. withVersion reads the file if it changed since its version was last computed.

  readOnly @12 () -> (file :File);
  # As Dir.readOnly.

  revocable @13 () -> (file :File, revoker :Revoker);
  # As Dir.revocable.

  help @14 (method :Text) -> (text :Text);
  # As Session.help.

  narrow @15 (keep :List(Right)) -> (file :File);
  # As Dir.narrow.

  rights @16 () -> (rights :List(Right));
  # As Dir.rights.

  readLines @17 (start :UInt64, count :UInt32, last :Bool) -> (data :Data, first :UInt64, count :UInt32, next :UInt64, more :Bool, clipped :List(ClippedLine), lines :UInt64, version :Data);
  # Returns a window of the file's lines: `count` of them (0: 1000; at most 10,000) from line `start` on (0: 1), or if
  # `last`, the last `count`. data has the lines as they are in the file, with their endings, at most 256 KiB: it is UTF-8
  # if the file is. A line ends with LF. A line of more than 2000 bytes is clipped there, or up to 3 bytes before. first is the number of the first line
  # in data, count how many there are, and next the line after them. While more is true, ask again from next. lines is how
  # many the file has; 0: not known. All is of one content, whose version this is. In a file above 64 MiB version is
  # empty, and the last lines have no numbers: first and next are 0. tooLarge: the last line is longer than 64 MiB,
  # or the lines are more than 8 GiB into the file.

  edit @18 (edits :List(Edit), ifVersion :IfVersion, dryRun :Bool) -> (version :Data, diff :Data, changed :List(LineRange), replaced :UInt32, cut :Bool);
  # Makes edits one after the other, all or none, as one whole-file write: what put promises, and asks for an approval. It
  # works on bytes, and what is not edited stays identical. Edits that are made at once take turns, so without ifVersion
  # all of them are made whose `old` matches. It returns the new version, the difference in the unified format (bytes that are
  # not UTF-8 come as they are), the lines of the new content that have changed, and how many places were replaced. cut: there
  # is more than 256 KiB of diff, or 1000 ranges; whole hunks are left out. dryRun: nothing is changed, and nobody is
  # asked for an approval. It needs the rights to read and to write. conflict: an `old` does not match as it must, or ifVersion does not hold; the text
  # says which edit, how many matches and on which lines, and what is closest. invalid: an empty `old`, a line that is not there, an edit that
  # changes nothing, or lines without ifVersion. tooLarge: the file is above 4 MiB, before or after. limit: more than 1000
  # edits, or 512 MiB to search: the size of the file times the number of edits. busy: others change the file all the time. readOnly, askDenied.

  setAttributes @19 (attributes :Attributes, ifVersion :IfVersion) -> ();
  # Sets the executable bit or the time of modification of the file, or both. The content and its version stay. It is on
  # disk after a sync. A later write sets the time again. invalid: nothing to set, or a time out of range. denied: a file
  # with several hard links. conflict, readOnly, askDenied, unsupported.
}

struct Edit {
  # Replaces what matches `old`, or whole lines, by `new`. If the file has CRLF, an LF in `old` and `new` stands for the line
  # ending at that place, unless a CR is before it.
  union {
    old @0 :Data;            # must match exactly once, or with `all` at least once
    lines @3 :LineRange;     # as they are before all edits of the call. Needs ifVersion {equals}
  }
  new @1 :Data;              # in place of lines: whole lines, or nothing. The last one may leave out its ending
  all @2 :Bool;              # every match, from left to right
}

struct LineRange {
  # Consecutive lines.
  first @0 :UInt32;          # counted from 1
  count @1 :UInt32;          # 0: the place before first
}

struct ClippedLine {
  # A line of which readLines returns only the beginning. Its offset leads File.read to the rest.
  index @0 :UInt32;          # of the line in data, from 0
  offset @1 :UInt64;         # at which the line begins in the file, in bytes
  sizeBytes @2 :UInt64;      # of the whole line without its ending
}

interface Sink {
  # Receives the bytes of File.stream. The caller of stream serves it.

  write @0 (data :Data) -> stream;
  # The next bytes, at most 256 KiB. A write that failed or was cancelled ends the stream: the content is then incomplete.

  done @1 () -> ();
  # The content is complete. A Sink that has lost a write answers an error.
}

interface Writer {
  # A whole-file write in progress. Nothing is visible before commit. Dropping the capability discards the bytes.

  write @0 (data :Data) -> stream;
  # Adds the next bytes, at most 1 MiB. A write that fails, is refused or is cancelled ends the Writer, whether or not the
  # write had begun. Every later call answers the first error, or invalid if that write was cancelled. Dropping a call's
  # promise before it is answered cancels the call, so keep the promises until commit has answered.

  commit @1 () -> (version :Data);
  # Puts in place, atomically and durably, what was written before this call. Later writes are refused. Call it once:
  # afterwards every call is invalid.

  help @2 (method :Text) -> (text :Text);
  # As Session.help.
}

interface Revoker {
  # Revokes what revocable() or share() returned with it.

  revoke @0 () -> ();
  # Returns when nothing that was derived can change anything any more. Calling it again is no error. Dropping a Revoker
  # does not revoke. busy: a change that had begun is stuck in a system call. The text lists such changes; call again to
  # wait again.

  help @1 (method :Text) -> (text :Text);
  # As Session.help.
}
