-- Who made an invitation: operator, or config, whose invitations follow the configuration.
ALTER TABLE invites ADD COLUMN made_by TEXT NOT NULL DEFAULT 'operator';
