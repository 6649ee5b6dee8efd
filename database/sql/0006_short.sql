ALTER TABLE journal ADD COLUMN short INTEGER NOT NULL DEFAULT 0; -- 1: an older change of the turn is not kept any more
