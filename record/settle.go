package record

// Unsettled returns the intents of which it is not known how they ended: the host was killed. The caller finds out and
// calls Settle for each, before guests are served.
func (l *Log) Unsettled() []Numbered { return l.unsettled }

// Settle adds how a change ended that Unsettled returned.
func (l *Log) Settle(of Numbered, r Result) error {
	return l.Write(Entry{Kind: Settled, Of: of.Number, Grants: of.Grants[:min(1, len(of.Grants))], Result: r})
}
