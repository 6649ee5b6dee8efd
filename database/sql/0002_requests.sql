-- What invitations give without asking, and what became of requests.
ALTER TABLE invites ADD COLUMN permissions TEXT NOT NULL DEFAULT '[]';        -- JSON: texts
ALTER TABLE invites ADD COLUMN source TEXT NOT NULL DEFAULT 'manifest';
ALTER TABLE asks ADD COLUMN given INTEGER;     -- the rights that an answer gives, of a request
ALTER TABLE asks ADD COLUMN lasts INTEGER;     -- ms: for how long
CREATE TABLE requests(                         -- what an equal request is answered while the grant is live
  binding BLOB PRIMARY KEY, ask BLOB,          -- the one that was answered; NULL: nobody was asked
  lasting INTEGER NOT NULL, grant_id INTEGER NOT NULL REFERENCES grants(id) ON DELETE CASCADE) STRICT, WITHOUT ROWID;
CREATE INDEX requests_grant ON requests(grant_id);
