package physical

import (
	"context"
	"errors"

	"capd/vfs"
)

// scanner is a directory that can list others in it without identifying them.
type scanner interface {
	scan(name string, each func(some []vfs.Entry) error) error
}

var errMany = errors.New("more than was asked for")

// Scan implements vfs.Scanner where the kernel confines.
func (d *Dir) Scan(ctx context.Context, names []string, most int, found func(string, []vfs.Entry, bool)) error {
	dir, err := d.enter(ctx, d.at)
	if err != nil {
		return err
	}
	defer d.s.leave(dir)
	s, ok := dir.(scanner)
	if !ok {
		return vfs.At("", vfs.Unsupported)
	}
	for _, name := range names {
		all, err := d.scan(ctx, s, name, most)
		found(name, all, err == nil)
	}
	return nil
}

func (d *Dir) scan(ctx context.Context, s scanner, name string, most int) ([]vfs.Entry, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if err := d.checkDepth(name); err != nil {
		return nil, err
	}
	var all []vfs.Entry
	err := s.scan(name, func(some []vfs.Entry) error {
		if all = append(all, listed(some)...); len(all) > most {
			return errMany
		}
		return d.usable(ctx)
	})
	if err != nil {
		return nil, err
	}
	return listed(all), nil
}
