package vfs

import "context"

// Stage counts n bytes as staged for the change that ctx belongs to. A store calls it
// before it writes a copy beside what it changes. It answers busy when that would be
// more than may be staged at once. The caller calls unstage once.
func Stage(ctx context.Context, n int64) (unstage func(), err error) {
	if stage := callOf(ctx).Stage; stage != nil {
		return stage(n)
	}
	return func() {}, nil
}
