package virtualfs

import "context"

// CanOpen opens the store of a URL and closes it again. It answers what Mount would answer about the store. It does not open
// a store that keeps changes, which may be mounted now, and what an overlay keeps.
func (fs *FS) CanOpen(ctx context.Context, url string) error {
	u, err := ParseURL(url)
	if err != nil {
		return err
	}
	below := u
	if u.Below != nil {
		below = u.Below
	}
	opener := fs.o.Open[below.Scheme]
	if opener == nil || below.Query.Has(keepOption) { // Mount says what is wrong
		return nil
	}
	s, err := opener(ctx, below)
	if err != nil {
		return err
	}
	return s.close()
}
