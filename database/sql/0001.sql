-- The state of a host. Times are milliseconds since 1970. Paths are blobs, because they need not be UTF-8.

CREATE TABLE meta(key TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;  -- clock, settled, policy, lastGrant, ports

CREATE TABLE subjects(name TEXT PRIMARY KEY, shared INTEGER NOT NULL DEFAULT 0, made INTEGER NOT NULL) STRICT, WITHOUT ROWID;
   -- shared: the number of the last share, so that NAME/3 is never two shares

CREATE TABLE roots(id TEXT PRIMARY KEY, kind TEXT NOT NULL, path BLOB NOT NULL, display TEXT, labels TEXT, made INTEGER, ended INTEGER) STRICT, WITHOUT ROWID;

CREATE TABLE grants(
  id INTEGER PRIMARY KEY AUTOINCREMENT,          -- g<id>; never used twice
  subject TEXT NOT NULL, name TEXT NOT NULL,     -- agent-run:agent; agent, or agent/2 for a share
  digest BLOB NOT NULL,                          -- sha256 of the secret
  parent INTEGER REFERENCES grants(id) ON DELETE CASCADE, top INTEGER,   -- top: the root grant; NULL in a root grant
  root TEXT, scope TEXT,                         -- root id; scope id of a workspace that is not rw; NULL
  path BLOB NOT NULL,                            -- in the host's tree, real names, no links
  identity TEXT,                                 -- of the node, or of what a file lies in; NULL: the store has none
  mounts TEXT NOT NULL,                          -- JSON {mount path: identity} of the mount it lies in, or of all below it
  rights INTEGER NOT NULL,                       -- the bits it keeps
  source TEXT NOT NULL,                          -- serve, config, operator, manifest, conversation, approval, core
  expires INTEGER, unused INTEGER,               -- ms since the epoch; ms without a restore
  uses INTEGER,                                  -- restores that are left; NULL: any number
  used INTEGER, restored INTEGER NOT NULL DEFAULT 0,   -- last restore (ms); how many
  limits TEXT, stored_bytes INTEGER NOT NULL DEFAULT 0, stored_nodes INTEGER NOT NULL DEFAULT 0,
  made INTEGER NOT NULL, ended TEXT, ended_at INTEGER) STRICT;   -- ended: revoked, expired, used, replaced
CREATE UNIQUE INDEX grants_digest ON grants(digest);
CREATE INDEX grants_name ON grants(name, id);   -- a name is one subject's, or one share's
CREATE INDEX grants_top ON grants(top) WHERE top IS NOT NULL AND ended IS NULL;   -- the live shares of a grant
CREATE INDEX grants_parent ON grants(parent) WHERE parent IS NOT NULL;
CREATE INDEX grants_timed ON grants(id) WHERE ended IS NULL AND (expires IS NOT NULL OR unused IS NOT NULL);
CREATE INDEX grants_ended ON grants(top, ended_at) WHERE ended IS NOT NULL;

CREATE TABLE gates(grant_id INTEGER NOT NULL REFERENCES grants(id) ON DELETE CASCADE, path BLOB NOT NULL, refuses INTEGER NOT NULL,
  PRIMARY KEY(grant_id, path)) STRICT, WITHOUT ROWID;            -- what a control forbids; a gate that forbids nothing has no row

CREATE TABLE invites(id INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE, subject TEXT NOT NULL, expires INTEGER, made INTEGER NOT NULL, ended INTEGER) STRICT;

CREATE TABLE mounts(path BLOB PRIMARY KEY, url TEXT NOT NULL, attenuation TEXT NOT NULL, made INTEGER NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE rules(id INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL, rule TEXT NOT NULL, ask BLOB, until INTEGER, made INTEGER NOT NULL, ended INTEGER) STRICT;
CREATE INDEX rules_live ON rules(id) WHERE ended IS NULL;
CREATE TABLE policies(hash BLOB PRIMARY KEY, text TEXT NOT NULL, by TEXT NOT NULL, made INTEGER NOT NULL) STRICT, WITHOUT ROWID; -- every version

CREATE TABLE asks(
  id BLOB PRIMARY KEY, binding BLOB NOT NULL,    -- 16 random bytes; sha256 over what the answer is bound to
  kind TEXT NOT NULL, grant_id INTEGER, share_id INTEGER, invite INTEGER, -- the root grant, and the share that asked; or the invite
  subject TEXT NOT NULL,                         -- as the operator is shown it
  op TEXT, path BLOB, to_path BLOB, found BLOB, found_to BLOB, digest BLOB, size INTEGER, exec INTEGER NOT NULL DEFAULT 0,
  why TEXT NOT NULL, diff TEXT, words TEXT, want TEXT,     -- rules as JSON; words and want are a petitioner's
  asked INTEGER NOT NULL, decision TEXT, answer TEXT, decided INTEGER, by TEXT, spent INTEGER, result INTEGER) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX asks_pending ON asks(binding) WHERE decision IS NULL;
CREATE INDEX asks_decided ON asks(binding, decided) WHERE decision IS NOT NULL AND spent IS NULL;
CREATE INDEX asks_of ON asks(grant_id) WHERE decision IS NULL;

CREATE TABLE hooks(name TEXT PRIMARY KEY, place INTEGER NOT NULL, spec TEXT NOT NULL, cursor INTEGER NOT NULL, made INTEGER NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE record(seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind INTEGER NOT NULL, grant_id INTEGER NOT NULL, body BLOB NOT NULL) STRICT;
CREATE TABLE blocks(level INTEGER NOT NULL, n INTEGER NOT NULL, hash BLOB NOT NULL, PRIMARY KEY(level, n)) STRICT, WITHOUT ROWID;
CREATE TABLE leaves(block INTEGER PRIMARY KEY, hashes BLOB NOT NULL) STRICT;     -- of a removed block in which a given checkpoint ends
CREATE TABLE checkpoints(size INTEGER PRIMARY KEY, note TEXT NOT NULL, at INTEGER NOT NULL, given INTEGER NOT NULL) STRICT;
