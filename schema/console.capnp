@0xb2e8ec8b81fff79d;
# What the operator of a host uses over its control socket.

using Cxx = import "/capnp/c++.capnp";
using Go = import "go.capnp";
using Right = import "guest.capnp".Right;
using Past = import "guest.capnp".Past;
using Undoing = import "guest.capnp".Undoing;
using UndoStep = import "guest.capnp".UndoStep;
using Control = import "control.capnp".Control;
using VirtualFs = import "virtualfs.capnp".VirtualFs;
$Go.package("capnp");
$Go.import("capd/capnp");
$Cxx.namespace("capd");

struct Grant {
  guest @0 :Text;       # the holder's name: NAME, or KIND:ID of a subject that is no agent's run; what a holder shares is
                        # called HOLDER/1, HOLDER/2, …
  id @1 :Text;          # identifies this grant; not secret
  path @2 :Text;        # of the granted node, in the host's namespace; "" for all of it
  mode @3 :Mode;        # what it was granted
  state @4 :State;      # what it is now
  parent @5 :Text;      # id of the grant it was shared from, or ""
  subject @6 :Text;     # who holds it, KIND:ID; of a share, who shared it
  rights @7 :List(Right);  # that it was granted
  root @8 :Text;        # id of the root that it is in, or ""
  expiresMs @9 :Int64;  # when it expires; 0: never
  unusedMs @10 :Int64;   # after how many milliseconds without use it expires; 0: never
  usesLeft @11 :Int64;  # how often it can still be restored; 0: any number, -1: not at all
  source @12 :Text;     # who gave it: operator, serve, config, approval (of a request), or the source of the Invite by
                        # which it was given without asking: manifest, conversation, core
  enum Mode { readWrite @0; readOnly @1; }
  enum State { active @0; locked @1; revoked @2; expired @3; }
}

struct Root {
  # A directory with a purpose; docs/roots.md. Its kind decides what each kind of subject gets there by default.

  id @0 :Text;
  kind @1 :Text;        # workspace, extension-storage, artifact, temp, knowledge, downloads or secret
  path @2 :Text;        # in the host's namespace: that of a mount
  name @3 :Text;        # for people; "" for none
  labels @4 :List(Text);
  access @5 :Text;      # of a workspace, for those who are neither core nor a person: rw or "" (itself), ro (itself for reading,
                        # and a draft) or none (a draft alone)
  scope @6 :Text;       # of its drafts: session, agent or "", or shared
}

struct Rule {
  # A rule that holds; docs/policy.md.

  id @0 :Text;          # 8 hexadecimal digits, of what the rule means
  source @1 :Text;      # where it is written, such as capd.yaml:31:5; "set" for one that setPolicy has set
  rule @2 :Text;        # a JSON object with the keys of docs/policy.md
}

struct PolicyVersion {
  # What the rules were from a time on.

  hash @0 :Text;        # as policy answers it
  sinceMs @1 :Int64;    # milliseconds since the Unix epoch: the last time that it began to hold
  rules @2 :Text;       # a JSON list of rules, each with its source
}

struct Status {
  # The state of a host at one moment. Counts are of the whole process.

  version @0 :Text;          # of capd: a release, or the revision it was built from
  uptimeMs @1 :UInt64;
  grants @2 :UInt32;         # that are not revoked, including shared ones
  openNodes @3 :UInt64;      # nodes and gates that guests hold
  streams @4 :UInt64;        # files that guests read or write whole
  connections @5 :Int64;     # of guests; -1: unknown
  descriptors @6 :Int64;     # open in the process; -1: unknown, as on some systems
  goroutines @7 :UInt32;
  heapBytes @8 :UInt64;      # in use, including garbage that was not collected yet
  memoryBytes @9 :UInt64;    # mapped for the heap, stacks and the runtime, less what was given back to the system
  threads @10 :UInt32;       # of the operating system; 0: unknown
  unrecorded @11 :Bool;      # the host keeps no record
}

struct Limit {
  # How much of one kind a grant may hold at once, together with everything shared from it. docs/limits.md says what each
  # kind is, its default, and what happens at the limit.

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
    messageBytes @9;         # of large incoming messages, until their call is done
    callBytes @10;           # that open calls hold
    replyBytes @11;          # of answers that were not read
    threads @12;             # calls that may be waiting in the kernel
    waits @13;               # calls that wait for a guest, or for another call
    temps @14;               # temporary directories
    watches @15;             # directories that are asked about for changes, and those below that are watched
  }
}

struct Usage {
  # What one grant holds and has done, together with everything shared from it.

  holdings @0 :List(Holding);  # one of each kind, in the order of Limit.Kind
  lanes @1 :List(Lane);        # one of each lane, in the order of Lane.Kind

  struct Holding {
    kind @0 :Limit.Kind;
    used @1 :Int64;          # now, including what is reserved
    limit @2 :Int64;         # the most that may be held; -1: no limit
    share @3 :Int64;         # the most that may be held now, given what others hold; -1: as much as there is
    refused @4 :UInt64;      # requests that were refused, since the grant began
    peak @5 :Int64;          # the most that was held at once since the grant began, without what is only reserved
  }

  struct Lane {
    # Work waits for a turn in a lane. Turns go to the grant that has had the least time lately.

    kind @0 :Kind;
    given @1 :UInt64;        # turns since the grant began
    spentMs @2 :UInt64;      # milliseconds in turns; roughly for light
    waiting @3 :UInt32;      # requests that wait for a turn now
    longestMs @4 :UInt64;    # milliseconds that the oldest of these has waited
    enum Kind {
      light @0;              # work that waits for nothing
      work @1;               # calls that may wait in the kernel
      heavy @2;              # calls that may cost much
    }
  }
}

struct GrantUsage {
  grant @0 :Grant;
  usage @1 :Usage;
}

struct Invite {
  # What lets a subject ask for grants; see Petitioner in guest.capnp.

  id @0 :Text;                 # i and a number
  subject @1 :Text;            # KIND:ID
  permissions @2 :List(Text);  # what is given without asking anybody, such as filesystem:workspace:read
  source @3 :Text;             # who said so: manifest, conversation or core
  madeMs @4 :Int64;            # when it was made, in milliseconds since 1970
  expiresMs @5 :Int64;         # when it expires; 0: never
  state @6 :Grant.State;       # active, revoked or expired
  madeBy @7 :Text;             # who made it: operator, or config
}

struct Ask {
  # A change that waits for an approval, or that somebody has decided about; or the request of a subject that holds a
  # Petitioner. path, to, diff and words are a guest's words.

  id @0 :Text;          # 32 hexadecimal digits
  guest @1 :Text;       # who asks, as Grant.guest
  grant @2 :Text;       # id of the root grant
  operation @3 :Text;   # such as replace, write, remove, rename
  path @4 :Text;        # in the host's namespace
  to @5 :Text;          # of a rename
  why @6 :List(Text);   # what asks, such as "project: **/.git/**"
  sizeBytes @7 :UInt64; # to be written
  diff @8 :Text;        # what would change: at most 64 KiB; kept until 10 minutes after the decision
  askedMs @9 :Int64;    # when, in milliseconds since 1970

  answer @10 :Answer;
  reason @11 :Text;     # what the guest is told with a no
  by @12 :Text;         # who decided
  decidedMs @13 :Int64; # when
  used @14 :Bool;       # the change was made
  enum Answer {
    none @0;            # it waits
    once @1;            # this change may be made, within 10 minutes
    always @2;          # so may later changes: see Approval
    deny @3;            # it may not be made
  }

  root @15 :Text;       # of a request: the id of the root; "" for a change. path is where it leads in the host's namespace
  access @16 :List(Right);  # of a request: the rights that are asked for
  words @17 :Text;      # of a request: its reason
  given @18 :List(Right);   # of a request: the rights that the answer gives
}

struct Approval {
  # What somebody has approved with always: changes by one root grant, by one operation.

  number @0 :Int64;
  ask @1 :Text;         # id of the Ask that was answered
  grant @2 :Text;       # id of the root grant
  operation @3 :Text;
  path @4 :Text;        # exactly this one, unless there is a pattern
  to @5 :Text;          # likewise, of a rename
  pattern @6 :Text;     # or ""
  untilMs @7 :Int64;    # in milliseconds since 1970
}

struct Event {
  # One entry of the host's record.

  number @0 :UInt64;    # counts from 0
  entry @1 :Data;       # a JSON object
}

struct HookSpec {
  # What a hook is asked about before it is done, or told of afterwards: changes that guests make. docs/hooks.md.

  name @0 :Text;              # 1 to 64 of a-z 0-9 . _ -, the first a letter or a digit
  operations @1 :List(Text);  # of write, delete and move; empty: all three
  patterns @2 :List(Text);    # paths in the host's namespace, as in a rule; empty: every path
  subject @3 :Text;           # KIND:ID, whose changes skip the hook: that of the hook itself; "" for nobody
  before @4 :Bool;            # it is asked before
  after @5 :Bool;             # it is told afterwards
  observe @6 :Bool;           # what it answers before is only noted
}

struct HookState {
  # A hook that is registered.

  spec @0 :HookSpec;
  command @1 :List(Text);     # the program that is run; empty for a capability
  source @2 :Text;            # where it is registered, such as capd.yaml:31:5; "console" for one that addHook has added
  gone @3 :Bool;              # its capability is not there, so what it is asked before is denied unless it observes
  behind @4 :UInt64;          # how many entries of the record it was not told of yet; 0 for one that is not told
  failing @5 :Text;           # why it could not be told of the next; "" while it can
}

struct HookedChange {
  # A change that a guest makes.

  operation @0 :Text;         # such as replace, write, remove, rename
  path @1 :Text;              # in the host's namespace
  to @2 :Text;                # of a rename
  root @3 :Text;              # id of the root that path is in, or ""
  subject @4 :Text;           # who makes it, KIND:ID
  grant @5 :Text;             # id of the grant or share that it comes through
}

interface Hook {
  # Served by whoever registers it with Console.addHook. A call that does not answer within 2 seconds has failed.

  before @0 (change :HookedChange) -> (answer :Answer, reason :Text);
  # Says what is to become of a change that the host would otherwise make. reason is for deny, which the guest is told, and
  # for ask, which the operator is shown; at most 1024 bytes. An exception, another answer and silence are a deny.
  enum Answer {
    ok @0;                    # nothing against it
    deny @1;                  # it is not made
    ask @2;                   # an operator has to approve it; see docs/approvals.md
  }

  after @1 (change :HookedChange, outcome :Outcome) -> ();
  # Tells of a change that was made, or was begun and failed. Each is told at least once and in the order of the record: the
  # next is told when this has returned, and after an exception it is told again.
  struct Outcome {
    id @0 :Text;              # of the change: c and a number. Twice the same is the same change, told again
    result @1 :Text;          # done, failed, not done or unknown; docs/audit.md
    code @2 :Text;            # why it failed, or ""
    atMs @3 :Int64;           # when it was recorded, in milliseconds since 1970
  }
}

struct Explanation {
  # Whether a grant allows an operation, and what decides about it.
  enum Answer {
    yes @0;
    ask @1;                # it waits for an approval first
    no @2;
  }
  grant @0 :Text;          # id
  guest @1 :Text;
  answer @2 :Answer;
  code @3 :Text;           # of the error with which the operation would fail; "" if it would not
  message @4 :Text;        # likewise
  reasons @5 :List(Reason);   # in the order in which they are asked

  struct Reason {
    what @0 :Text;         # grant, path, gate, rights, withheld, rule, bounds, approval, control, quota, store, hook or state
    says @1 :Answer;
    text @2 :Text;
    source @3 :Text;       # where it is written, such as "capd.yaml:31:5"; ""
    inMount @4 :Bool;      # it belongs to the mount that the path leads to
  }
}

interface Console {
  # Manages grants, and gives access to the mounts. Whoever holds it has all the authority of the host.

  grant @0 (guest :Text, path :Text, readOnly :Bool, limits :List(Limit), rights :List(Right), root :Text, beyondDefault :Bool, expiresInMs :Int64, unusedMs :Int64, uses :Int64, scratchBytes :Int64, links :Bool) -> (grant :Grant, locator :Text, control :Control);
  # Grants the node at path ("": the whole namespace) to guest. The locator is a secret, and the host does not keep it. A
  # kind that limits does not name has the host's default. rights: what to give; null for what is usual, which is
  # all but link where no root says otherwise. links: give the right link besides. readOnly drops write, delete and move of them. The grant expires expiresInMs milliseconds
  # after this call, or when no connection has held it for unusedMs, and cannot be restored more often than uses; 0: no end. guest is KIND:ID, where KIND is core,
  # agent-run, extension, automation or person, and ID is 1 to 64 of a-z A-Z 0-9 . _ -; NAME alone is agent-run:NAME. Wherever
  # a guest is named, both forms mean the same. root: the id of a root; path is then in what guest gets of it. beyondDefault:
  # the defaults of the roots (docs/roots.md) do not bound the grant. scratchBytes: guest keeps at most that much in a directory
  # of its own beside root, which is a workspace, from now on; 0: none is made. notFound, also for a root. denied: it is beyond the
  # defaults. invalid: guest is neither, or is g and a number, as a grant's id is; rights has none that this host knows; a
  # time or a number of uses is below 0; or a limit is, as in setLimits.

  list @1 (after :Text, limit :UInt32) -> (grants :List(Grant), more :Bool);
  # Returns one page of the grants, oldest first. The page begins after the grant with the id `after`, which the host may
  # have forgotten by now; empty: at the first. It has at most `limit` grants (0: 1000; at most 10,000). notFound: no grant
  # ever had that id. invalid: after is not an id.

  revoke @2 (guest :Text) -> (count :UInt32);
  # Revokes every grant of guest, or the one grant with that id, with everything shared from it, and the invitations of
  # guest. count is how many were not revoked before, without shares. notFound: no such guest. busy as DirControl.revoke.

  setWritable @3 (guest :Text, writable :Bool) -> (count :UInt32);
  # As DirControl.setWritable, for every grant of guest, or for the one grant with that id. count is how many there are.

  control @4 (id :Text) -> (control :Control);
  # Returns the control of one grant.

  help @5 (method :Text) -> (text :Text);
  # As Session.help.

  status @6 (collect :Bool) -> (status :Status);
  # Returns what the host holds now. collect: the host first collects garbage, so that heapBytes counts only what is in
  # use. That costs some milliseconds of every processor, more with a large heap.

  virtualFs @7 () -> (fs :VirtualFs);
  # Returns the object that composes the host's tree. unsupported: this host serves a fixed tree.

  setLimits @8 (guest :Text, limits :List(Limit)) -> (count :UInt32);
  # Changes limits of every grant of guest, or of the one grant with that id. count is how many there are. It takes effect
  # at once. A kind that is not named keeps its limit. What is held beyond a new limit stays until it is released.
  # notFound: no such guest. invalid: no limits, a kind that is named twice or is unknown, or a number below 1 that is not
  # -1. revoked: all of the grants were revoked.

  usage @9 (after :Text, limit :UInt32) -> (grants :List(GrantUsage), more :Bool, host :Usage, strangers :Usage);
  # Returns what guests use now, one page of grants at a time, paged as list. Ended grants that hold nothing are left out.
  # host is what all guests use together. strangers is what connections use that have restored nothing yet. A page has at
  # most 1000 grants.

  roots @10 () -> (roots :List(Root));
  # Returns the roots of the tree, in the order of their declaration.

  asks @11 (all :Bool, afterMs :Int64, afterId :Text) -> (asks :List(Ask));
  # Returns at most 256 changes that wait for an approval, the oldest first, without their diff. all: also those decided
  # in the last 30 days. afterMs and afterId are askedMs and id of the last one that the caller has; 0 and "": none.
  # invalid: afterId is not an id.

  showAsk @12 (id :Text) -> (ask :Ask);
  # Returns one of them, with its diff. id is its id, or at least the first 6 digits of it. notFound. invalid: it is
  # shorter, or several begin so.

  decide @13 (id :Text, answer :Ask.Answer, reason :Text, pattern :Text, forMs :UInt64, rights :List(Right)) -> (id :Text);
  # Decides about a change that waits, when that is on disk. id is as in showAsk, and is answered whole. reason, at most
  # 1024 bytes, is for deny: the guest is told. pattern and forMs are for always: approve what matches the pattern (""
  # for exactly that path), for so long (0: 30 days). Of a request once and always make a grant. With once it expires when
  # no connection has used it for 10 minutes, with always after forMs. rights: give only these of what was asked for; null:
  # all. conflict: somebody else has decided. notFound. invalid.

  approvals @14 () -> (approvals :List(Approval));
  # Returns what was approved with always and still holds.

  endApproval @15 (number :Int64) -> ();
  # Ends one of them. It holds no more when this answers. notFound.

  events @16 (after :UInt64, waitMs :UInt32, limit :UInt32) -> (events :List(Event), next :UInt64, missed :UInt64);
  # Returns entries of the host's record from number `after` on, at most `limit` (0: 1000; at most 10,000). If there is
  # none it waits for one, at most waitMs (at most 60,000). While it waits, and for 10 seconds after, the host takes it
  # that somebody decides about changes that need an approval. next is the number to continue with. missed is how many
  # entries there were that the record no longer has. after above the end: none, and next is the end.

  policy @17 () -> (rules :List(Rule), default :Text, hash :Text);
  # Returns the rules that hold now, those of the configuration first. default: what holds where no rule matches: allow (what
  # the rights of the grant say) or deny. hash: 64 hexadecimal digits, of default and of what the rules mean.

  setPolicy @18 (rules :Text, ifHash :Text) -> (hash :Text);
  # Replaces the rules that were set before by those in rules: a list of rules in YAML or JSON, as docs/policy.md has them; ""
  # for none. The rules of the configuration stay. They hold for guests, and are durable, when this answers. ifHash is the hash
  # of the policy that is replaced, and hash that of the new one. conflict: another policy holds now. invalid: a rule is wrong
  # or can never take effect; the error has a line for each. busy: a change that the old rules decided does not end; the new
  # ones hold all the same.

  policies @19 (limit :UInt32) -> (policies :List(PolicyVersion));
  # Returns what the policy was, the latest first. At most limit; 0 and more than 100 mean 100.

  checkpoint @20 () -> (note :Text);
  # Signs what the record has now, and keeps the checkpoint for ever: what is removed from the record because of its age
  # can still be compared with it. It is a note of https://c2sp.org/signed-note. unsupported: the host keeps no record.

  addHook @21 (spec :HookSpec, hook :Hook) -> ();
  # Registers a hook, behind those that there are. The registration lasts when this answers, also when the connection and the
  # host end: then the changes that the hook would be asked about are denied until addHook is called with its name again,
  # which also replaces what was registered. A hook that is told of changes begins with the next one. exists: the
  # configuration has a hook of that name. limit: 64 hooks are registered. invalid: spec is wrong.

  hooks @22 () -> (hooks :List(HookState));
  # Returns the hooks that are registered, in the order in which they are asked.

  removeHook @23 (name :Text) -> ();
  # Takes back what addHook has registered. notFound. denied: the hook stands in the configuration.

  invite @24 (subject :Text, expiresInMs :Int64, permissions :List(Text), source :Text) -> (invite :Invite, locator :Text);
  # Lets a subject ask for grants. The locator is a secret, and the host does not keep it; whoever has it can ask as
  # subject. expiresInMs: after this time; 0: never. permissions: what is given without asking anybody, each filesystem:KIND:RIGHT,…
  # with the kind of a root. source: who says so: manifest, conversation or core; "" is manifest. invalid. limit: 4096 are
  # live.

  invites @25 () -> (invites :List(Invite));
  # Returns the invitations, the oldest first; of those that have ended the last 4096. Their permissions are also those that the
  # configuration gives their subjects as guests.

  revokeInvite @26 (id :Text) -> ();
  # Ends an invitation. What waits for an answer ends; the grants that were got with it stay. notFound. revoke ends the
  # invitations of a guest, too.

  explain @27 (guest :Text, right :Right, path :Text, to :Text) -> (grants :List(Explanation));
  # Says for each live grant and share of guest, or for the one with that id, whether it would allow something at path now, and
  # what decides: read, write (a whole file), delete, list, metadata or move, which needs to. Paths are from the top of the
  # tree. A change is tried up to the point at which it would show, and dropped; nobody is asked for an approval. If none is
  # live, it says why the newest is not. notFound: no such guest or grant. invalid: another right, or a move without to.

  history @28 (guest :Text, before :UInt64, limit :UInt32) -> (entries :List(Past), more :Bool, sinceMs :Int64);
  # As Dir.history, for everything that was done through the grant or share of guest, or through the one with that id, and through what
  # was shared from it; also after its end. Paths are from the top of the tree. notFound: no such guest or grant. invalid: the guest has
  # several grants, so name one by its id. unsupported: the host keeps no history.

  undo @29 (guest :Text, what :Undoing, dryRun :Bool) -> (id :UInt64, entries :List(UInt64), steps :List(UndoStep));
  # As Dir.undo, likewise. The inverse changes are the host's own: no rule and no right of the guest concerns them, and nobody is asked. They
  # are recorded, and in the history of the grant.
}
