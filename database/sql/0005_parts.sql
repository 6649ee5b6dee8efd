-- A change of many paths has a row for each.
CREATE TABLE parts(
  id INTEGER NOT NULL, part INTEGER NOT NULL,    -- the number of the change in the record; which of its places, in the order in which they are undone from the last on
  entry INTEGER NOT NULL,                        -- the first id of what was done together
  top INTEGER NOT NULL, grants TEXT NOT NULL,    -- the root grant; ",3,2," of the grant that made it and those it is shared from
  at INTEGER NOT NULL, turn TEXT NOT NULL,       -- ms; as the guest named it
  op TEXT NOT NULL, path BLOB NOT NULL, target BLOB, -- target: of a move
  outside INTEGER NOT NULL,                      -- 1: it reached into another guest's tree
  was TEXT NOT NULL, plan TEXT NOT NULL, now TEXT, -- JSON: what was at its place, what it should leave, what it left; now is NULL until it has ended
  kept TEXT, bytes INTEGER NOT NULL,             -- the name on the shelf, and how much that holds; NULL: nothing is kept
  undoes INTEGER NOT NULL, undone INTEGER,       -- 1: it is part of an undo; the entry that undid it
  PRIMARY KEY(id, part)) STRICT;
INSERT INTO parts SELECT id, 0, entry, top, grants, at, turn, op, path, target, outside, was, plan, now, kept, bytes, undoes, undone FROM journal;
DROP TABLE journal;
ALTER TABLE parts RENAME TO journal;
CREATE INDEX journal_top ON journal(top, entry, id);
CREATE INDEX journal_entry ON journal(entry);
CREATE INDEX journal_path ON journal(path, id);
CREATE INDEX journal_target ON journal(target, id) WHERE target IS NOT NULL;
