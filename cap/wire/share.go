package wire

import (
	"errors"
	"math"
	"time"

	schema "capd/capnp"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// SetTerms writes t. It answers invalid for a term below 0.
func SetTerms(w schema.Terms, t operator.ShareTerms) error {
	if t.Expires < 0 || t.Unused < 0 || t.Uses < 0 || t.StoredBytes < 0 || t.StoredNodes < 0 {
		return vfs.Errorf(vfs.Invalid, "a time, a number of uses and a quota are above 0; leave them out for none")
	}
	w.SetExpiresInMs(uint64(InMilliseconds(t.Expires)))
	w.SetUnusedMs(uint64(InMilliseconds(t.Unused)))
	w.SetUses(uint64(t.Uses))
	w.SetStoredBytes(uint64(t.StoredBytes))
	w.SetStoredNodes(uint64(t.StoredNodes))
	return nil
}

// Terms reads what SetTerms wrote. What is longer or more than this program can count is as much as it can count.
func Terms(w schema.Terms) (operator.ShareTerms, error) {
	return operator.ShareTerms{
		Expires: length(w.ExpiresInMs()), Unused: length(w.UnusedMs()), Uses: number(w.Uses()),
		StoredBytes: number(w.StoredBytes()), StoredNodes: number(w.StoredNodes()),
	}, nil
}

func number(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

func length(ms uint64) time.Duration { return Milliseconds(number(ms)) }

// SetShare writes s.
func SetShare(w schema.Share, s operator.Share) error {
	w.SetMadeMs(s.MadeMs)
	w.SetExpiresMs(s.ExpiresMs)
	w.SetUnusedMs(s.UnusedMs)
	w.SetUsesLeft(s.UsesLeft)
	w.SetStoredBytes(s.StoredBytes)
	w.SetStoredNodes(s.StoredNodes)
	return errors.Join(w.SetId(s.ID), setPath(s.Path, w.SetPath, w.SetRawPath), SetRights(s.Rights, w.NewRights))
}

// Share reads what SetShare wrote.
func Share(w schema.Share) (s operator.Share, err error) {
	s = operator.Share{
		MadeMs: w.MadeMs(), ExpiresMs: w.ExpiresMs(), UnusedMs: w.UnusedMs(), UsesLeft: w.UsesLeft(),
		StoredBytes: w.StoredBytes(), StoredNodes: w.StoredNodes(),
	}
	s.ID = Keep[string](&err)(w.Id())
	s.Path = Keep[string](&err)(pathAt(w.Path, w.RawPath))
	s.Rights = Keep[membrane.Rights](&err)(Rights(w.Rights()))
	return s, err
}
