package operator

import (
	"time"

	"capd/meter"
	"capd/vfs/membrane"
)

// ShareTerms are the terms on which somebody shares what he holds. With the zero value the share ends when what it was
// shared from ends.
type ShareTerms struct {
	Expires time.Duration // after which it ends; 0 is never
	Unused  time.Duration // without any use, after which it ends; 0 is never
	Uses    int64         // how often it can be restored; 0 is any number

	StoredBytes, StoredNodes int64 // by how much it may make stored data grow; 0 is no bound of its own
}

// Terms returns t as the terms of a grant.
func (t ShareTerms) Terms() Terms {
	l := meter.Limits{}
	for k, n := range map[meter.Kind]int64{meter.StoredBytes: t.StoredBytes, meter.StoredNodes: t.StoredNodes} {
		if n != 0 {
			l[k] = n
		}
	}
	return Terms{Expires: t.Expires, Unused: t.Unused, Uses: t.Uses, Limits: l}
}

// Share describes a share to whoever shared it. It holds no secret.
type Share struct {
	ID     string          `json:"id"`     // 2, or 2/1 for what was shared from that
	Path   string          `json:"path"`   // from the directory that was asked about; "" for that itself
	Rights membrane.Rights `json:"rights"` // as a list of names
	MadeMs int64           `json:"madeMs"` // when, in milliseconds since the Unix epoch

	ExpiresMs int64 `json:"expiresMs,omitempty"` // when it expires by itself, likewise; 0: never
	UnusedMs  int64 `json:"unusedMs,omitempty"`  // after how many milliseconds without use it expires; 0: never
	UsesLeft  int64 `json:"usesLeft,omitempty"`  // how often it can still be restored; 0: any number, -1: not at all

	StoredBytes int64 `json:"storedBytes,omitempty"` // by how much it may make stored data grow; 0: no bound of its own
	StoredNodes int64 `json:"storedNodes,omitempty"`
}
