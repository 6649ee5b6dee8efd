-- What changes displaced, so that they can be undone.
CREATE TABLE journal(
  id INTEGER PRIMARY KEY,                        -- the number of the change in the record
  entry INTEGER NOT NULL,                        -- the first id of what was done together
  top INTEGER NOT NULL, grants TEXT NOT NULL,    -- the root grant; ",3,2," of the grant that made it and those it is shared from
  at INTEGER NOT NULL, turn TEXT NOT NULL,       -- ms; as the guest named it
  op TEXT NOT NULL, path BLOB NOT NULL, target BLOB, -- target: of a move
  outside INTEGER NOT NULL,                      -- 1: it reached into another guest's tree
  was TEXT NOT NULL, plan TEXT NOT NULL, now TEXT, -- JSON: what was at its place, what it should leave, what it left; now is NULL until it has ended
  kept TEXT, bytes INTEGER NOT NULL,             -- the name on the shelf, and how much that holds; NULL: nothing is kept
  undoes INTEGER NOT NULL, undone INTEGER) STRICT; -- 1: it is part of an undo; the entry that undid it
CREATE INDEX journal_top ON journal(top, entry, id);
CREATE INDEX journal_entry ON journal(entry);
CREATE INDEX journal_path ON journal(path, id);
CREATE INDEX journal_target ON journal(target, id) WHERE target IS NOT NULL;
CREATE TABLE evicted(top INTEGER PRIMARY KEY, at INTEGER NOT NULL) STRICT; -- the time of the newest change that is missing
